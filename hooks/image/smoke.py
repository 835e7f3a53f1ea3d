"""Checks what an image must still be able to do after any cuts. ``e2e/tests/test_image.py`` runs it inside the image.

Prints one line per check.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everyone writes Spark

from understudy.config.locks import BUILT_IN
from understudy.services import registry

#: Loaded only by name, from settings or by reflection: a missing one would stay unnoticed until it is needed.
CLASSES = (
    "dev.understudy.fence.FencedCommitProtocol",
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager",
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "software.amazon.awssdk.services.sts.StsClient",
)


def files_of_every_kind(spark: SparkSession, place: Path) -> str:
    """Each codec has a native library of its own."""
    rows = spark.range(1000).withColumn("text", F.concat(F.lit("row "), "id"))
    kinds = [("parquet", codec) for codec in ("snappy", "zstd", "lz4_raw", "gzip")]
    kinds += [("orc", "zstd"), ("json", "gzip"), ("csv", "none")]
    for kind, codec in kinds:
        path = str(place / f"{kind}-{codec}")
        rows.write.format(kind).option("compression", codec).save(path)
        assert spark.read.schema(rows.schema).format(kind).load(path).count() == 1000, (kind, codec)
    return " ".join(f"{kind}/{codec}" for kind, codec in kinds)


def a_stream_with_state(spark: SparkSession, place: Path) -> str:
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    (place / "in").mkdir()
    (place / "in" / "a.txt").write_text("b\na\nb\n")
    lines = spark.readStream.text(str(place / "in")).dropDuplicates()
    query = (
        lines.writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
    ).start(str(place / "out"))
    query.awaitTermination()
    assert sorted(row.value for row in spark.read.parquet(str(place / "out")).collect()) == ["a", "b"]
    return "RocksDB"


def python_workers(spark: SparkSession, _: Path) -> str:
    twice = F.udf(lambda number: number * 2, "long")
    assert spark.range(10).select(F.sum(twice("id"))).first()[0] == 90  # type: ignore[index]
    return "a function of the user's"


def names(spark: SparkSession, _: Path) -> str:
    jvm: Any = spark._jvm  # noqa: SLF001
    for name in CLASSES:
        jvm.java.lang.Class.forName(name)
    assert jvm.io.netty.channel.epoll.Epoll.isAvailable()
    return "user " + str(jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().getShortUserName())


def clients_of_documents(_: SparkSession, __: Path) -> str:
    """Of each server that may keep lock and documents: a replica loads its own alone."""
    for name in BUILT_IN:
        registry.load(name)
    for client in ("kazoo.client", "puresasl.client", "kubernetes.aio.client", "obstore"):
        import_module(client)
    return " ".join(BUILT_IN)


def the_ui(spark: SparkSession, _: Path) -> str:
    address = f"{spark.sparkContext.uiWebUrl}/api/v1/applications"
    with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 - our own UI
        assert json.load(answer)[0]["name"] == "smoke"
    return "its REST API"


def nothing_unpacked(_: SparkSession, __: Path) -> str:
    """Native libraries are where the JVM looks; commons-crypto alone would have to unpack its own."""
    assert [path.name for path in Path(tempfile.gettempdir()).rglob("*.so")] == []
    return "no library in " + tempfile.gettempdir()


CHECKS: tuple[Callable[[SparkSession, Path], str], ...] = (
    files_of_every_kind,
    a_stream_with_state,
    python_workers,
    names,
    clients_of_documents,
    the_ui,
    nothing_unpacked,
)


def main() -> None:
    began = time.monotonic()
    place = Path(tempfile.mkdtemp())
    spark = (
        SparkSession.builder.master("local[2]").appName("smoke").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    sys.stdout.write(f"a session: {time.monotonic() - began:.1f} s\n")
    for check in CHECKS:
        said = check(spark, place)
        sys.stdout.write(f"{check.__name__.replace('_', ' ')}: {said}\n")
    spark.stop()
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
