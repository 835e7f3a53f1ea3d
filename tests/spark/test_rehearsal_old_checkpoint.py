"""What a query that is started after rehearsals knows of a long log of its file source: what rehearsals parsed, as far as it is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.aged import age
from tests.spark.rehearsal_stage import Stage, play, spark_session, stateless

pytestmark = [pytest.mark.spark, pytest.mark.spark43]

BATCHES = 1_000
ROWS = 20  # that a file adds to the sink: every second of its rows


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    """A checkpoint of ``BATCHES`` batches, and three more."""
    stage = Stage(spark, tmp_path)
    age(stage.checkpoint, stage.sink, stage.input, BATCHES)
    stage.feed(3)
    stage.lead(stage.writer(stateless, spark.newSession()))
    return stage


def log(stage: Stage) -> Path:
    return stage.checkpoint / "sources" / "0"


def entries(compacted: Path) -> list[str]:
    return [json.loads(line)["path"] for line in compacted.read_text().splitlines()[1:]]


def rows(stage: Stage) -> int:
    """Of the files that are there: those of the first batches are gone."""
    return stage.spark.read.parquet(*map(str, stage.sink.glob("*.parquet"))).count()


def test_it_reads_what_is_new_and_nothing_twice_and_compacts_all_of_the_log(stage: Stage) -> None:
    writer = stage.writer(stateless)
    with stage.rehearsal(writer) as rehearsal:
        assert play(rehearsal)["how"] == "live"
    stage.feed(10)

    stage.lead(writer)

    assert rows(stage) == 13 * ROWS
    compacted = entries(log(stage) / f"{BATCHES + 9}.compact")
    assert len(compacted) == len(set(compacted)) == BATCHES + 10
    assert compacted[:BATCHES] == entries(log(stage) / f"{BATCHES - 1}.compact")


def test_what_a_leader_has_compacted_since_the_last_rehearsal_is_read(stage: Stage) -> None:
    writer = stage.writer(stateless)
    with stage.rehearsal(writer) as rehearsal:
        play(rehearsal)
    stage.feed(9)
    stage.lead(stage.writer(stateless, stage.spark.newSession()))
    assert (log(stage) / f"{BATCHES + 9}.compact").exists()
    stage.feed(1)

    stage.lead(writer)

    assert rows(stage) == 13 * ROWS


def test_a_log_that_was_written_again_since_the_last_rehearsal_is_believed_and_not_memory(stage: Stage) -> None:
    writer = stage.writer(stateless)
    with stage.rehearsal(writer) as rehearsal:
        play(rehearsal)
    stage.feed(2)
    named = stage.input / "part-0003.json"
    compacted = log(stage) / f"{BATCHES - 1}.compact"
    version, *lines = compacted.read_text().splitlines()
    entry = {"path": named.as_uri(), "timestamp": int(named.stat().st_mtime * 1000), "batchId": 0}
    compacted.write_text("\n".join([version, json.dumps(entry), *lines[1:]]))

    stage.lead(writer)

    assert rows(stage) == 4 * ROWS, "one of the two counts as read"
