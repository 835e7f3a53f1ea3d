"""What a rehearsal does with the leader's checkpoint: it runs its last batch again, and changes nothing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.rehearsal_stage import (
    HDFS,
    ROCKSDB,
    Query,
    Stage,
    contents,
    counted,
    deduplicated,
    joined,
    numbers,
    play,
    spark_session,
    stateless,
    transformed,
)

pytestmark = [pytest.mark.spark, pytest.mark.spark43]
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
CHECKSUM = "spark.sql.streaming.checkpoint.fileChecksum.enabled"


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    return Stage(spark, tmp_path)


@pytest.mark.long
def test_twenty_rehearsals_leave_the_checkpoint_of_another_session_byte_for_byte_unchanged(stage: Stage) -> None:
    stage.feed(3)
    stage.lead(stage.writer(counted, stage.spark.newSession()))
    before = contents(stage.checkpoint, stage.sink, stage.input)

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        played = [play(rehearsal) for _ in range(20)]

    assert {(one["how"], one["rows"]) for one in played} == {("live", 40)}
    assert contents(stage.checkpoint, stage.sink, stage.input) == before
    assert not stage.scratch.exists()


@pytest.mark.parametrize(
    ("query", "conf"),
    [
        pytest.param(stateless, {}, id="no state"),
        pytest.param(lambda rows: rows.union(rows), {}, id="one source read twice"),
        pytest.param(deduplicated, {PROVIDER: HDFS}, id="deduplication"),
        pytest.param(joined, {PROVIDER: HDFS}, id="stream-stream join"),
        pytest.param(counted, {PROVIDER: ROCKSDB, CHANGELOG: "false"}, id="rocksdb snapshots"),
        pytest.param(counted, {PROVIDER: ROCKSDB, CHANGELOG: "true", FORMAT: "2"}, id="rocksdb changelog, format 2"),
        pytest.param(transformed, {PROVIDER: ROCKSDB, CHANGELOG: "true"}, id="transformWithState"),
        pytest.param(counted, {PROVIDER: HDFS, CHECKSUM: "true"}, id="checksums"),
        pytest.param(counted, {PROVIDER: HDFS, CHECKSUM: "false"}, id="no checksums"),
    ],
)
def test_the_last_batch_runs_again_whatever_keeps_its_state(stage: Stage, query: Query, conf: dict[str, str]) -> None:
    leader = stage.spark.newSession()
    standby = stage.spark.newSession()
    for key, value in conf.items():
        leader.conf.set(key, value)
        standby.conf.set(key, value)
    stage.feed(3)
    stage.lead(stage.writer(query, leader))
    before = contents(stage.checkpoint, stage.sink)

    with stage.rehearsal(stage.writer(query, standby), conf=conf) as rehearsal:
        played = [play(rehearsal) for _ in range(2)]

    assert {one["how"] for one in played} == {"live"}
    assert all(one["rows"] >= 40 for one in played)
    assert contents(stage.checkpoint, stage.sink) == before


def twice_the_name(rows: DataFrame) -> DataFrame:
    return rows.select("k", "v", F.col("v").alias("K"))


def of_a_type_without_files(rows: DataFrame) -> DataFrame:
    return rows.withColumn("nothing", F.lit(None)).withColumn("age", F.expr("make_interval(1)"))


@pytest.mark.parametrize("query", [twice_the_name, of_a_type_without_files])
def test_a_batch_that_no_file_holds_runs_again(stage: Stage, query: Query) -> None:
    stage.feed(2)
    writer = query(stage.rows()).writeStream.option("checkpointLocation", str(stage.checkpoint))
    writer = writer.foreachBatch(lambda batch, number: None)
    stage.lead(writer)

    with stage.rehearsal(writer) as rehearsal:
        played = [play(rehearsal) for _ in range(2)]

    assert [(one["how"], one["rows"]) for one in played] == [("live", 40)] * 2


def test_only_the_leaders_batch_is_run_however_much_input_waits(stage: Stage) -> None:
    seen = stage.root / "seen"
    seen.mkdir()

    @F.udf(returnType="long", useArrow=False)
    def noted(value: int) -> int:
        (seen / str(value)).touch()
        return value

    stage.feed(2)
    stage.lead(stage.writer(stateless))
    stage.feed(3)

    with stage.rehearsal(stage.writer(lambda rows: rows.withColumn("v", noted("v")))) as rehearsal:
        assert play(rehearsal)["how"] == "live"

    assert numbers(seen) == list(range(40, 80)), "the second file's values"


@pytest.mark.parametrize("fails", [False, True])
def test_the_bytes_of_files_that_a_round_was_given_are_counted_however_it_ends(stage: Stage, fails: bool) -> None:
    stage.feed(2)
    stage.lead(stage.writer(stateless))
    last = (stage.input / "part-0001.json").stat().st_size
    failing = F.when(F.lit(fails), F.raise_error(F.lit("no"))).otherwise(F.col("k"))

    with stage.rehearsal(stage.writer(lambda rows: rows.withColumn("k", failing))) as rehearsal:
        for done in (1, 2):
            with pytest.raises(Py4JJavaError) if fails else nullcontext():
                play(rehearsal)
            assert rehearsal.bytesRead() == done * last


def test_a_batch_that_only_drops_old_state_is_passed_over_for_one_that_read_rows(stage: Stage) -> None:
    stage.feed(2)
    leader = stage.lead(stage.writer(counted))
    assert leader.lastProgress is not None
    assert leader.lastProgress["numInputRows"] == 0, "the watermark moved: the last batch reads nothing"

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        played = play(rehearsal)

    assert played["batch"] < numbers(stage.checkpoint / "commits")[-1]
    assert played["rows"] == 40


def test_what_the_leader_has_written_since_is_not_looked_at(stage: Stage) -> None:
    """A batch in flight, half of it there: unreadable entries must not matter."""
    stage.feed(2)
    stage.lead(stage.writer(stateless))
    last = numbers(stage.checkpoint / "commits")[-1]
    (stage.checkpoint / "offsets" / str(last + 1)).write_text("not an offset")
    (stage.checkpoint / "sources" / "0" / str(last + 1)).write_text("not an entry")
    (stage.checkpoint / "commits" / ".9.x.tmp").write_text("half a commit")

    with stage.rehearsal(stage.writer(stateless)) as rehearsal:
        played = play(rehearsal)

    assert (played["how"], played["batch"], played["rows"]) == ("live", last, 40)


def test_newer_state_is_hidden_and_may_be_written_again(stage: Stage) -> None:
    stage.feed(3)
    stage.lead(stage.writer(counted))
    for entry in stage.checkpoint.glob("state/0/*/*.delta"):
        if int(entry.name.split(".")[0]) == numbers(stage.checkpoint / "commits")[-1] + 1:
            entry.write_bytes(b"never read")
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    before = contents(stage.checkpoint)

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        assert play(rehearsal)["how"] == "live"

    assert contents(stage.checkpoint) == before


def test_a_checkpoint_that_cannot_be_read_is_found_by_the_rehearsal(stage: Stage) -> None:
    stage.feed(2)
    stage.lead(stage.writer(counted))
    lost = next(iter(stage.checkpoint.glob("state/0/0/1.delta")))
    kept = lost.read_bytes()
    lost.unlink()

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        with pytest.raises((Py4JJavaError, PySparkException), match="could not be rehearsed from .*checkpoint"):
            play(rehearsal)
        lost.write_bytes(kept)
        assert play(rehearsal)["how"] == "live", "a failed round does not spoil the next"


def test_a_leader_that_goes_on_and_purges_is_not_disturbed(stage: Stage) -> None:
    leader = stage.spark.newSession()
    leader.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    leader.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
    leader.conf.set("spark.sql.streaming.fileSource.log.cleanupDelay", "0")
    stage.feed(2)
    query = stage.writer(stateless, leader).start()
    hows = []
    try:
        query.processAllAvailable()
        with stage.rehearsal(stage.writer(stateless)) as rehearsal:
            for _ in range(8):
                stage.feed(2)
                try:
                    hows.append(play(rehearsal)["how"])
                except (Py4JJavaError, PySparkException) as error:
                    assert "The next round takes a newer one" in str(error)  # noqa: PT017
        query.processAllAvailable()
    finally:
        query.stop()

    assert "live" in hows
    assert stage.spark.read.parquet(str(stage.sink)).count() == stage.fed * 20


def test_the_users_checkpoint_manager_and_commit_protocol_are_not_asked(stage: Stage) -> None:
    """On a standby they are the fence, and would wait for the gate."""
    stage.feed()
    stage.lead(stage.writer(stateless))
    fence = {
        "spark.sql.streaming.checkpointFileManagerClass": "no.such.Manager",
        "spark.sql.sources.commitProtocolClass": "no.such.Protocol",
    }

    with stage.rehearsal(stage.writer(stateless), conf=fence) as rehearsal:
        assert play(rehearsal)["how"] == "live"


def test_before_a_first_checkpoint_a_throw_away_one_stands_in_and_reads_one_file(stage: Stage) -> None:
    stage.feed(3)

    with stage.rehearsal(stage.writer(counted, maxFilesPerTrigger="100")) as rehearsal:
        played = [play(rehearsal) for _ in range(2)]

    assert [(one["how"], one["batch"], one["rows"]) for one in played] == [("throwaway", 0, 40)] * 2
    assert not stage.checkpoint.exists()
    assert not stage.sink.exists()


def test_with_nothing_to_read_yet_rows_are_made_up(stage: Stage) -> None:
    stage.input.mkdir()

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        played = play(rehearsal)

    assert played["how"] == "synthetic"
    assert played["rows"] > 0


def test_a_real_query_goes_on_from_the_rehearsed_checkpoint(stage: Stage) -> None:
    stage.feed(3)
    stage.lead(stage.writer(stateless, stage.spark.newSession()))
    with stage.rehearsal(stage.writer(stateless)) as rehearsal:
        play(rehearsal)
    stage.feed(2)

    stage.lead(stage.writer(stateless))

    assert stage.spark.read.parquet(str(stage.sink)).count() == 5 * 20
