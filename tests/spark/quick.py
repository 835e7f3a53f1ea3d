"""What makes a short-lived JVM short: no optimizing compiler, and Spark's classes from an archive that is made once.

Of the 23 processor seconds that a session and its first batch take, the compiler has half, and reading classes and checking them
a third. Nothing that is tested here depends on either.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame

from understudy.environment import find_java

#: No optimizing compiler, the smallest collector, no second look at Spark's own classes. An archive that does not fit (another
#: Java, other jars) is passed over, without a word on standard output.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -Xlog:cds*=off"

_ROOT = Path(__file__).parents[2]


def java_options() -> str:
    """Options for a driver's JVM."""
    return f"{_QUICK} -XX:SharedArchiveFile={_archive()}"


def submit_options() -> list[str]:
    """The same for spark-submit; a script's or a test's own ``spark.driver.extraJavaOptions`` come after them."""
    return ["--conf", f"spark.driver.defaultJavaOptions={java_options()}"]


def _archive() -> Path:
    """Classes as the JVM keeps them (class data sharing), below ``build``; dumped by the first who asks, which takes 20 s."""
    jars = Path(pyspark.__file__).parent / "jars"
    described = f"{find_java().home} {jars} {jars.stat().st_mtime_ns}"
    digest = hashlib.sha256(described.encode()).hexdigest()[:12]
    archive = _ROOT / "build" / "quick" / f"spark-{pyspark.__version__}-{digest}.jsa"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        dumped = archive.with_suffix(f".{os.getpid()}.part")  # two workers may ask at once
        command = [sys.executable, "-m", "tests.spark.quick", str(dumped)]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        subprocess.run(command, cwd=_ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        dumped.rename(archive)
    return archive


def _dump(archive: str) -> None:
    """Run what most tests run, so that its classes are loaded when the JVM ends and writes them down."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", f"{_QUICK} -XX:ArchiveClassesAtExit={archive}")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as home:
        Path(home, "in").mkdir()
        Path(home, "in", "a.txt").write_text("a\nb\n")
        lines = spark.readStream.text(f"{home}/in")
        upper = lines.select(F.udf(str.upper, "string")("value").alias("value"))
        counts = upper.groupBy("value").count().writeStream.outputMode("complete").foreachBatch(_collect)
        for name, writer in (
            ("counts", counts),
            ("rows", upper.writeStream.format("parquet").option("path", f"{home}/out")),
        ):
            writer.option("checkpointLocation", f"{home}/{name}").trigger(availableNow=True).start().awaitTermination()
        spark.read.parquet(f"{home}/out").count()
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()  # it writes now


def _collect(frame: DataFrame, batch: int) -> None:
    del batch
    frame.collect()


if __name__ == "__main__":
    _dump(sys.argv[1])
