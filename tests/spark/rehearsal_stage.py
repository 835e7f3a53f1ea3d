"""A stage for tests of the rehearsal: a Spark session with the jar, queries over files, and what must stay as it was."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StatefulProcessor, StatefulProcessorHandle, StreamingQuery

from tests.spark import quick
from tests.spark.fence_env import fence_jar

Query = Callable[[DataFrame], DataFrame]
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def spark_session(master: str = "local[2]") -> SparkSession:
    os.environ["SPARK_DIST_CLASSPATH"] = str(fence_jar())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(master)
        .appName("rehearsal-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config(
            "spark.driver.extraJavaOptions", f"{quick.java_options()} -Dlog4j2.configurationFile={log_configuration()}"
        )
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", "/tmp/understudy-rehearsal-warehouse")
        .getOrCreate()
    )
    assert isinstance(jvm(spark).dev.understudy.rehearsal.Rehearsal, JavaClass), "the JVM runs without the jar"
    return spark


def log_configuration() -> Path:
    """Warnings and errors of the JVM go to a file beside it: what a user would find in the log."""
    path = Path(tempfile.mkdtemp(prefix="rehearsal-log-")) / "log4j2.properties"
    path.write_text(f"""
        rootLogger.level = warn
        logger.ours.name = dev.understudy.rehearsal.WarmState
        logger.ours.level = info
        rootLogger.appenderRef.file.ref = file
        appender.file.type = File
        appender.file.name = file
        appender.file.fileName = {path.with_name("log")}
        appender.file.layout.type = PatternLayout
        appender.file.layout.pattern = %p %c %t: %m%n%ex
    """)
    return path


def logged(spark: SparkSession) -> str:
    """All that the JVM has logged so far, at WARN and above, and what it says of loaded state. Asked of the JVM, which outlives a module's session."""
    configuration = jvm(spark).java.lang.System.getProperty("log4j2.configurationFile")
    return Path(configuration).with_name("log").read_text()


def eventually(claim: Callable[[], bool], within: float = 60) -> None:
    """Wait until it holds, and fail after so many seconds."""
    give_up = time.monotonic() + within
    while not claim():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def jvm(spark: SparkSession) -> Any:
    return spark._jvm


def counted(rows: DataFrame) -> DataFrame:
    """A watermarked, windowed aggregation."""
    by = F.window("t", "1 minute"), F.col("k")
    return rows.withWatermark("t", "1 minute").groupBy(*by).agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def deduplicated(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("t", "1 minute").dropDuplicatesWithinWatermark(["k", "v"])


def joined(rows: DataFrame) -> DataFrame:
    left = rows.withWatermark("t", "1 minute").alias("a")
    right = rows.withWatermark("t", "1 minute").withColumnRenamed("t", "u").withColumnRenamed("v", "w").alias("b")
    on = F.expr("a.k = b.k and a.v = b.w and u between t - interval 1 minute and t + interval 1 minute")
    return left.join(right, on).select("a.k", "v", "t")


class Highest(StatefulProcessor):
    """The highest value of each key so far."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.highest = handle.getValueState("highest", "v long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        import pandas as pd

        before = self.highest.get()
        highest = max([frame["v"].max() for frame in rows] + ([] if before is None else [before[0]]))
        self.highest.update((int(highest),))
        yield pd.DataFrame({"k": [key[0]], "v": [int(highest)]})

    def close(self) -> None:
        pass


def transformed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").transformWithStateInPandas(Highest(), "k string, v long", "Append", "None")


def stateless(rows: DataFrame) -> DataFrame:
    return rows.where("v % 2 = 0")


@dataclass
class Stage:
    """One query's input, checkpoint, sink and scratch below a directory."""

    spark: SparkSession
    root: Path
    fed: int = 0

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def sink(self) -> Path:
        return self.root / "sink"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    def feed(self, files: int = 1, rows: int = 40) -> None:
        self.input.mkdir(exist_ok=True)
        for _ in range(files):
            number, self.fed = self.fed, self.fed + 1
            lines = [
                {
                    "t": f"2024-01-01 {number // 60:02d}:{number % 60:02d}:{row % 60:02d}",
                    "k": f"k{row % 5}",
                    "v": number * rows + row,
                }
                for row in range(rows)
            ]
            partial = self.root / f".part-{number}"
            partial.write_text("\n".join(map(json.dumps, lines)))
            partial.rename(self.input / f"part-{number:04d}.json")

    def rows(self, session: SparkSession | None = None, **options: str) -> DataFrame:
        reader = (session or self.spark).readStream.schema("t timestamp, k string, v long")
        return reader.options(**{"maxFilesPerTrigger": "1", **options}).json(str(self.input))

    def writer(self, query: Query, session: SparkSession | None = None, **options: str) -> DataStreamWriter:
        written = query(self.rows(session, **options)).writeStream.format("parquet")
        return written.option("path", str(self.sink)).option("checkpointLocation", str(self.checkpoint))

    def lead(self, writer: DataStreamWriter) -> StreamingQuery:
        """Runs what there is to run, as a leader would, and stops."""
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return query

    @contextmanager
    def rehearsal(
        self,
        writer: DataStreamWriter,
        mode: str = "live",
        conf: dict[str, str] | None = None,
        checkpoint: Path | None = None,
    ) -> Iterator[Any]:
        root = str(checkpoint or self.checkpoint)
        made = jvm(self.spark).dev.understudy.rehearsal.Rehearsal.of(
            writer._jwrite,
            None,
            None,
            conf or {},
            root,
            str(self.scratch),
            mode,
        )
        try:
            yield made
        finally:
            made.close()


def play(rehearsal: Any) -> dict[str, Any]:
    return dict(json.loads(rehearsal.round()))


def contents(*directories: Path) -> dict[str, tuple[int, str]]:
    """Every file and directory below, with its time of change and a digest of its bytes."""
    found = {}
    for directory in directories:
        for path in sorted(directory.rglob("*")):
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (path.stat().st_mtime_ns, digest)
    return found


def numbers(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())
