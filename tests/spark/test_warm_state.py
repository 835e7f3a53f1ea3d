"""State that a standby keeps loaded: a takeover loads what is new, and what may be wrong is never used."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from tests.spark.rehearsal_stage import (
    HDFS,
    ROCKSDB,
    Query,
    Stage,
    contents,
    counted,
    deduplicated,
    eventually,
    joined,
    logged,
    numbers,
    play,
    spark_session,
    transformed,
)
from understudy.driver.scala import private_field

pytestmark = pytest.mark.spark

PREFIX = "spark.sql.streaming.stateStore"
PROVIDERS = {
    "map": {f"{PREFIX}.providerClass": HDFS},
    "rocksdb": {f"{PREFIX}.providerClass": ROCKSDB},
    "changelog": {
        f"{PREFIX}.providerClass": ROCKSDB,
        f"{PREFIX}.rocksdb.changelogCheckpointing.enabled": "true",
    },
}
ALL = 10**9
#: Where Spark remembers the files of snapshots, by version.
FILES = "versionToRocksDBFiles"
#: Not left to the long tests.
SHORT = ((counted, "map"),)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    return Stage(spark, tmp_path)


def session(stage: Stage, provider: str) -> SparkSession:
    made = stage.spark.newSession()
    for key, value in PROVIDERS[provider].items():
        made.conf.set(key, value)
    return made


def follows(stage: Stage, rehearsal: Any) -> None:
    """Returns once the state of the newest batch is loaded. What was dropped is loaded after another rehearsal."""
    newest, until = numbers(stage.checkpoint / "commits")[-1], time.monotonic() + 60
    next_round = time.monotonic() + 5
    while rehearsal.stateLoaded() < newest:
        assert time.monotonic() < until, f"the state after batch {newest} is not loaded; log: {logged(stage.spark)}"
        time.sleep(0.05)
        if time.monotonic() > next_round:
            play(rehearsal)
            next_round = time.monotonic() + 5


def is_given_up(stage: Stage) -> bool:
    return f"{stage.checkpoint} is not kept loaded" in logged(stage.spark)


def rehearsed(stage: Stage, writer: DataStreamWriter) -> None:
    """Once, and its state is loaded. Nothing is read after that: a takeover is about to come."""
    with stage.rehearsal(writer) as rehearsal:
        rehearsal.keepingState(ALL)
        play(rehearsal)
        follows(stage, rehearsal)


def sunk(stage: Stage) -> Counter[Any]:
    return Counter(tuple(map(str, row)) for row in stage.spark.read.parquet(str(stage.sink)).collect())


def uninterrupted(stage: Stage, query: Query, provider: str) -> Counter[Any]:
    """What one run makes of the same files."""
    other = Stage(stage.spark, stage.root / "uninterrupted")
    other.root.mkdir()
    shutil.copytree(stage.input, other.input, copy_function=shutil.copy2)
    other.lead(other.writer(query, session(stage, provider)))
    return sunk(other)


def loads(stage: Stage, query: Any) -> int:
    """How many stores the first batch of this run had to load: as Spark counts them, which it does of those it writes to at once, or not
    found loaded.
    """
    operators = next(each for each in query.recentProgress if each.stateOperators).stateOperators
    counted = [
        each.customMetrics.get(name, 0)
        for each in operators
        for name in ("loadedMapCacheMissCount", "rocksdbNumLoadedFromDfs")
    ]
    told = re.findall(rf"{stage.checkpoint}: (\d+) of (\d+) stores of its state were loaded", logged(stage.spark))
    return max(sum(counted), *(int(all_of_them) - int(loaded) for loaded, all_of_them in told[-1:]), 0 if told else 1)


@pytest.mark.spark43
@pytest.mark.parametrize(
    ("query", "provider"),
    [
        pytest.param(query, provider, marks=() if (query, provider) in SHORT else pytest.mark.long)
        for query in (counted, deduplicated, joined)
        for provider in PROVIDERS
    ],
)
def test_a_takeover_loads_no_state_and_goes_on_with_what_is_right(stage: Stage, query: Query, provider: str) -> None:
    stage.feed(6)
    stage.lead(stage.writer(query, session(stage, provider)))
    writer = stage.writer(query, session(stage, provider))
    with stage.rehearsal(writer) as rehearsal:
        rehearsal.keepingState(ALL)
        assert play(rehearsal)["how"] == "live"
        follows(stage, rehearsal)
        stage.feed(5)
        stage.lead(stage.writer(query, session(stage, provider)))
        follows(stage, rehearsal)
        before = contents(stage.checkpoint)
        play(rehearsal)
        assert contents(stage.checkpoint) == before, "following only reads"
    stage.feed(4)

    successor = stage.lead(writer)

    assert loads(stage, successor) == 0
    stage.feed(3)
    stage.lead(stage.writer(query, session(stage, provider)))  # from what the successor has written
    assert sunk(stage) == uninterrupted(stage, query, provider)


@pytest.mark.long
def test_state_of_transform_with_state_is_followed(stage: Stage) -> None:
    stage.feed(6)
    stage.lead(stage.writer(transformed, session(stage, "changelog")))
    writer = stage.writer(transformed, session(stage, "changelog"))
    rehearsed(stage, writer)
    stage.feed(4)

    successor = stage.lead(writer)

    assert loads(stage, successor) == 0
    assert sunk(stage) == uninterrupted(stage, transformed, "changelog")


@pytest.mark.parametrize(
    "provider",
    [pytest.param("map", marks=pytest.mark.long), pytest.param("rocksdb", marks=pytest.mark.long), "changelog"],
)
def test_what_the_leader_has_done_since_the_last_look_is_loaded_at_the_grant(stage: Stage, provider: str) -> None:
    stage.feed(3)
    stage.lead(stage.writer(counted, session(stage, provider)))
    writer = stage.writer(counted, session(stage, provider))
    rehearsed(stage, writer)
    stage.feed(8)
    stage.lead(stage.writer(counted, session(stage, provider)))
    stage.feed(4)

    successor = stage.lead(writer)

    # without a changelog Spark loads the newest snapshot of each, and of it the files that the database has not
    assert loads(stage, successor) == (2 if provider == "rocksdb" else 0)
    assert sunk(stage) == uninterrupted(stage, counted, provider)


@pytest.mark.parametrize(
    ("provider", "when"),
    [
        ("changelog", "followed"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ("map", "followed"),
                ("map", "at the grant"),
                ("changelog", "at the grant"),
                ("rocksdb", "followed"),
                ("rocksdb", "at the grant"),
            )
        ),
    ],
)
def test_another_history_of_the_checkpoint_is_believed_and_not_memory(stage: Stage, provider: str, when: str) -> None:
    stage.feed(2)
    stage.lead(stage.writer(counted, session(stage, provider)))
    copied = stage.root / "copied"
    shutil.copytree(stage.checkpoint, copied)
    sink = stage.root / "sink-copied"
    shutil.copytree(stage.sink, sink)
    lost = stage.fed
    stage.feed(4, rows=20)
    stage.lead(stage.writer(counted, session(stage, provider)))
    writer = stage.writer(counted, session(stage, provider))
    rehearsed(stage, writer)
    for old, new in ((copied, stage.checkpoint), (sink, stage.sink)):
        shutil.rmtree(new)
        shutil.copytree(old, new)
    for number in range(lost, stage.fed):
        (stage.input / f"part-{number:04d}.json").unlink()
    stage.feed(6)
    stage.lead(stage.writer(counted, session(stage, provider)))
    if when == "followed":
        rehearsed(stage, writer)
    stage.feed(3)

    stage.lead(writer)

    assert sunk(stage) == uninterrupted(stage, counted, provider)


def test_more_than_may_be_kept_is_not_kept_and_is_said_once(stage: Stage) -> None:
    stage.feed(3)
    stage.lead(stage.writer(counted, session(stage, "map")))
    writer = stage.writer(counted, session(stage, "map"))
    with stage.rehearsal(writer) as rehearsal:
        rehearsal.keepingState(1)
        play(rehearsal)
        assert is_given_up(stage), "by what the rehearsal itself has loaded, before anything is loaded to be kept"
        play(rehearsal)
    stage.feed(2)

    successor = stage.lead(writer)

    assert loads(stage, successor) > 0
    assert logged(stage.spark).count(f"{stage.checkpoint} is not kept loaded") == 1
    assert sunk(stage) == uninterrupted(stage, counted, "map")


@pytest.mark.parametrize("bounded", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_rocksdb_holds_in_memory_counts_unless_spark_bounds_it(stage: Stage, bounded: bool) -> None:
    def many_keys(rows: DataFrame) -> DataFrame:
        first = F.col("v") * 20_000
        return counted(rows.withColumn("k", F.explode(F.sequence(first, first + 20_000))))

    settings = session(stage, "changelog")
    settings.conf.set(f"{PREFIX}.rocksdb.boundedMemoryUsage", str(bounded).lower())
    stage.feed(2, rows=2)
    stage.lead(stage.writer(many_keys, settings))
    with stage.rehearsal(stage.writer(many_keys, settings)) as rehearsal:
        rehearsal.keepingState(3 << 20)
        play(rehearsal)
        if bounded:
            follows(stage, rehearsal)
        else:
            eventually(lambda: is_given_up(stage), within=30)


@pytest.mark.long
def test_a_store_that_is_followed_for_long_remembers_the_files_of_no_old_snapshot(stage: Stage) -> None:
    stage.feed(2)
    stage.lead(stage.writer(counted, session(stage, "rocksdb")))
    with stage.rehearsal(stage.writer(counted, session(stage, "rocksdb"))) as rehearsal:
        rehearsal.keepingState(ALL)
        play(rehearsal)
        follows(stage, rehearsal)
        for _ in range(4):
            stage.feed(2)
            stage.lead(stage.writer(counted, session(stage, "rocksdb")))
            follows(stage, rehearsal)
        kept = private_field(private_field(rehearsal, "state"), "stores").values()
        remembered = [private_field(private_field(store, "provider").rocksDB().fileManager(), FILES) for store in kept]
        assert [versions.size() for versions in remembered] == [1] * len(kept)


@pytest.mark.long
def test_state_that_could_not_be_followed_for_a_while_is_followed_after_another_rehearsal(stage: Stage) -> None:
    stage.feed(2)
    stage.lead(stage.writer(counted, session(stage, "map")))
    writer = stage.writer(counted, session(stage, "map"))
    unreadable = stage.checkpoint / "commits" / "999999"
    with stage.rehearsal(writer) as rehearsal:
        rehearsal.keepingState(ALL)
        play(rehearsal)
        follows(stage, rehearsal)
        unreadable.mkdir()
        eventually(lambda: is_given_up(stage), within=400)
        unreadable.rmdir()
        assert rehearsal.stateLoaded() == -1
        play(rehearsal)
        follows(stage, rehearsal)
    stage.feed(2)
    assert loads(stage, stage.lead(writer)) == 0


def test_without_bytes_for_it_no_state_is_kept(stage: Stage) -> None:
    stage.feed(3)
    stage.lead(stage.writer(counted, session(stage, "map")))
    with stage.rehearsal(stage.writer(counted, session(stage, "map"))) as rehearsal:
        rehearsal.keepingState(0)
        play(rehearsal)
        assert rehearsal.stateLoaded() == -1
