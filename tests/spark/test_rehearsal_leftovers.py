"""What is left of a rehearsal: nothing after a cancel, and nothing more after a hundred rounds than after a few."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.rehearsal_stage import ROCKSDB, Stage, contents, counted, eventually, jvm, numbers, play, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.spark43, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    return Stage(spark, tmp_path)


def test_a_grant_in_the_middle_of_a_round_waits_for_nothing_and_the_real_query_goes_on(stage: Stage) -> None:
    slow, dawdling = stage.root / "slow", stage.root / "dawdling"

    @F.udf(returnType="long", useArrow=False)
    def dawdle(value: int) -> int:
        if slow.exists():
            dawdling.touch()
            time.sleep(60)
        return value

    def query(rows: DataFrame) -> DataFrame:
        return counted(rows.withColumn("v", dawdle("v")))

    stage.feed(3)
    stage.lead(stage.writer(query))
    before = contents(stage.checkpoint)
    slow.touch()
    ended: list[BaseException] = []
    with stage.rehearsal(stage.writer(query)) as rehearsal:

        def round_() -> None:
            try:
                play(rehearsal)
            except (Py4JJavaError, PySparkException) as error:
                ended.append(error)

        player = threading.Thread(target=round_)
        player.start()
        eventually(dawdling.exists)
        slow.unlink()
        rehearsal.cancel()
        player.join(30)  # sixty seconds are slept per row: only one that was left to itself ends sooner

        assert not player.is_alive()
        assert "cancelled" in str(ended[0])
        assert contents(stage.checkpoint) == before
        with pytest.raises((Py4JJavaError, PySparkException), match="cancelled"):
            play(rehearsal)
        stage.feed(2)
        committed = numbers(stage.checkpoint / "commits")[-1]
        leader = stage.lead(stage.writer(query))

    assert numbers(stage.checkpoint / "commits")[-1] > committed
    assert sum(progress["numInputRows"] for progress in leader.recentProgress) == 80
    eventually(lambda: not stage.scratch.exists() or not any(stage.scratch.iterdir()))


def measured(spark: SparkSession, stage: Stage) -> dict[str, int]:
    """What a leak would show up in. Heap and threads settle only after Spark's cleaner has seen a collection."""
    gc.collect()
    for _ in range(3):
        jvm(spark).System.gc()
        time.sleep(0.3)
    pid = int(jvm(spark).ProcessHandle.current().pid())
    java = psutil.Process(pid)
    runtime = jvm(spark).Runtime.getRuntime()
    context = jvm(spark).org.apache.spark.SparkContext.getOrCreate()
    local = Path(jvm(spark).org.apache.spark.SparkFiles.getRootDirectory()).parent
    return {
        "heap": int(runtime.totalMemory() - runtime.freeMemory()),
        "rss": java.memory_info().rss,
        "threads": java.num_threads(),
        "files": java.num_fds(),
        "processes": len(java.children(recursive=True)),
        "listeners": context.listenerBus().listeners().size(),
        "queries": stage.spark._jsparkSession.sharedState().activeStreamingQueries().size(),
        "stores": loaded_stores(spark),
        "temporary": sum(1 for _ in local.rglob("*")),
        "scratch": sum(1 for _ in stage.scratch.rglob("*")) if stage.scratch.exists() else 0,
    }


def loaded_stores(spark: SparkSession) -> int:
    stores = jvm(spark).java.lang.Class.forName("org.apache.spark.sql.execution.streaming.state.StateStore$")
    loaded = stores.getDeclaredField("loadedProviders")
    loaded.setAccessible(True)
    return int(loaded.get(None).size())


@pytest.mark.long
@pytest.mark.parametrize("provider", ["", ROCKSDB], ids=["hdfs", "rocksdb"])
def test_a_hundred_rounds_leave_memory_threads_and_disk_as_they_were(stage: Stage, provider: str) -> None:
    """Tolerances: heap 32 MB, RSS 96 MB (a session with its plans that is not let go of is about 1 MB, and Spark keeps its last
    thousand jobs for the UI); a few threads and files, because pools grow and shrink; everything else exactly.
    """
    session = stage.spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    if provider:
        session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)

    @F.udf(returnType="long", useArrow=False)
    def same(value: int) -> int:
        return value

    def query(rows: DataFrame) -> DataFrame:
        return counted(rows.withColumn("v", same("v")))

    stage.feed(2)
    stage.lead(stage.writer(query, session))
    rounds = int(os.environ.get("UNDERSTUDY_ROUNDS", "100"))

    with stage.rehearsal(stage.writer(query, session)) as rehearsal:
        for _ in range(15):
            play(rehearsal)
        before = measured(stage.spark, stage)
        for _ in range(rounds):
            play(rehearsal)
        after = measured(stage.spark, stage)

    print(f"after 15 rounds {before}\nafter {rounds} more {after}")  # noqa: T201
    for name, tolerance in {"heap": 32 << 20, "rss": 96 << 20, "threads": 8, "files": 16, "temporary": 30}.items():
        assert after[name] - before[name] <= tolerance, f"{name}: {before[name]} → {after[name]}"
    for name in ("processes", "listeners", "queries", "stores", "scratch"):
        assert after[name] <= before[name], f"{name}: {before[name]} → {after[name]}"
    assert after["scratch"] == 0
