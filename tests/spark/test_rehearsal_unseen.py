"""What a rehearsal must not do to the user's sources and sinks, and who must not notice it."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

from tests.spark.rehearsal_stage import Stage, contents, counted, jvm, logged, play, spark_session, stateless
from tests.spark.rig import Rig
from understudy.driver import python_rows
from understudy.driver.java import java_class
from understudy.protocol.messages import RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.spark43]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Stage:
    return Stage(spark, tmp_path)


class Watcher(StreamingQueryListener):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.seen.append("started")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.seen.append("progress")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.seen.append("idle")

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.seen.append("terminated")


def test_an_input_that_its_leader_would_delete_stays(stage: Stage) -> None:
    stage.feed(3)
    stage.lead(stage.writer(stateless))
    before = contents(stage.input)

    with stage.rehearsal(stage.writer(stateless, cleanSource="delete")) as rehearsal:
        played = [play(rehearsal) for _ in range(3)]

    assert {one["how"] for one in played} == {"live"}
    assert contents(stage.input) == before


def test_cleaning_is_switched_off_and_not_only_never_reached(stage: Stage) -> None:
    """Without a directory to archive to, Spark refuses a source that would archive: this one must be told not to."""
    stage.feed(2)
    stage.lead(stage.writer(stateless))

    with stage.rehearsal(stage.writer(stateless, CleanSource="archive")) as rehearsal:
        assert play(rehearsal)["how"] == "live"


def test_when_the_leader_has_deleted_its_input_rows_are_made_up(stage: Stage) -> None:
    stage.feed(2)
    stage.lead(stage.writer(counted))
    for file in stage.input.iterdir():
        file.unlink()

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        played = play(rehearsal)

    assert played["how"] == "synthetic"
    assert played["rows"] > 0


def test_a_foreach_batch_that_appends_to_a_file_leaves_no_trace(stage: Stage) -> None:
    trace = stage.root / "trace"

    def append(batch: DataFrame, number: int) -> None:
        with trace.open("a") as out:
            out.write(f"{number} {batch.count()}\n")

    stage.feed(2)
    writer = counted(stage.rows()).writeStream.option("checkpointLocation", str(stage.checkpoint)).foreachBatch(append)
    stage.lead(writer)
    led = trace.read_text()

    with stage.rehearsal(writer) as rehearsal:
        played = [play(rehearsal) for _ in range(2)]

    assert {one["how"] for one in played} == {"live"}
    assert trace.read_text() == led


@pytest.mark.parametrize("kind", ["csv", "json", "orc", "parquet", "memory", "foreach"])
def test_no_sink_is_written_to(stage: Stage, kind: str) -> None:
    stage.feed()
    writer = stateless(stage.rows()).writeStream.option("checkpointLocation", str(stage.checkpoint)).queryName("kept")
    if kind == "foreach":
        trace = stage.root / "trace"

        def write(row: Any) -> None:
            trace.write_text(str(row))

        writer = writer.foreach(write)
    elif kind == "memory":
        writer = writer.format(kind)
    else:
        writer = writer.format(kind).option("path", str(stage.sink)).partitionBy("k")

    with stage.rehearsal(writer) as rehearsal:
        assert play(rehearsal)["rows"] == 40

    assert sorted(path.name for path in stage.root.iterdir()) == ["input"]
    assert not stage.spark.catalog.tableExists("kept")


def test_listeners_streams_and_the_callers_thread_see_nothing(stage: Stage) -> None:
    spark = stage.spark
    stage.feed(2)
    stage.lead(stage.writer(counted))
    live = jvm(spark).org.apache.spark.SparkContext.getOrCreate().listenerBus()
    active = jvm(spark).org.apache.spark.sql.classic.SparkSession.getActiveSession
    spark.streams.resetTerminated()
    live.waitUntilEmpty(60_000)  # the leader's own events have reached whom they were for
    watcher = Watcher()
    spark.streams.addListener(watcher)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "the caller's")
    try:
        before = live.listeners().size(), str(active().toString())
        streams: list[int] = []
        with stage.rehearsal(stage.writer(counted)) as rehearsal:
            for _ in range(3):
                round_ = threading.Thread(target=play, args=(rehearsal,))
                round_.start()
                while round_.is_alive():
                    streams.append(len(spark.streams.active))
                    round_.join(0.02)
            play(rehearsal)
        assert set(streams) == {0}
        assert spark.streams.awaitAnyTermination(1) is False
        assert watcher.seen == []
        assert (live.listeners().size(), str(active().toString())) == before
        assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "the caller's"
    finally:
        spark.streams.removeListener(watcher)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_a_normal_round_says_nothing_in_the_users_log(stage: Stage) -> None:
    stage.feed(2)
    stage.lead(stage.writer(counted))
    assert "WARN" in (before := logged(stage.spark)), "a real query is warned about, as ever"

    with stage.rehearsal(stage.writer(counted)) as rehearsal:
        for _ in range(2):
            play(rehearsal)

    assert logged(stage.spark)[len(before) :] == ""


def test_each_query_rehearses_with_the_sql_settings_it_was_started_with(stage: Stage) -> None:
    traces = stage.root / "traces"
    traces.mkdir()

    @F.udf(returnType="string", useArrow=False)
    def partition(value: str) -> str:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        (traces / str(context.partitionId())).touch()
        return value

    stage.feed()
    counts = stage.rows().groupBy("v").count().select(partition(F.col("v").cast("string")))
    seen = {}
    for wanted in ("3", "5"):
        conf = {**stage.spark.conf.getAll, "spark.sql.shuffle.partitions": wanted}
        writer = counts.writeStream.outputMode("complete").format("noop")
        with stage.rehearsal(writer, conf=conf) as rehearsal:
            play(rehearsal)
        seen[wanted] = {path.name for path in traces.iterdir()}
        for path in traces.iterdir():
            path.unlink()

    assert seen == {"3": {"0", "1", "2"}, "5": {"0", "1", "2", "3", "4"}}
    assert stage.spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_socket_is_never_connected_to(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = str(server.getsockname()[1])
        lines = stage.spark.readStream.format("socket").options(host="127.0.0.1", port=port).load()
        writer = lines.groupBy("value").count().writeStream.outputMode("complete").format("console")

        with stage.rehearsal(writer) as rehearsal:
            played = play(rehearsal)

        with pytest.raises(TimeoutError):
            server.accept()
    assert played["how"] == "synthetic"
    assert played["rows"] > 0


def settled(stage: Stage) -> dict[str, tuple[int, str]]:
    """The checkpoint, once the tasks of a batch that was cancelled leave it alone: they write their state, and then tidy it, a
    moment longer, also after Spark counts them as ended.
    """
    tracker = stage.spark.sparkContext._jsc.sc().statusTracker()
    seen: dict[str, tuple[int, str]] = {}
    give_up = time.monotonic() + 60
    while True:
        found = {} if any(each.numRunningTasks() for each in tracker.getExecutorInfos()) else contents(stage.checkpoint)
        # a task that is killed may leave its temporary file for good
        if found and found == seen and (time.monotonic() > give_up or not any(".tmp" in path for path in found)):
            return found
        assert time.monotonic() < give_up + 60, f"tasks that run on, or write: {found}"
        seen = found
        time.sleep(0.5)


def test_another_source_is_replaced_and_its_leaders_state_is_read_all_the_same(stage: Stage) -> None:
    def per_value() -> Any:
        rates = stage.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "20").load()
        grouped = rates.groupBy((F.col("value") % 3).alias("k")).count()
        return (
            grouped.writeStream.outputMode("update").option("checkpointLocation", str(stage.checkpoint)).format("noop")
        )

    leader = per_value().trigger(processingTime="100 milliseconds").start()
    while (leader.lastProgress or {"batchId": 0})["batchId"] < 2:
        leader.awaitTermination(0.1)
    leader.stop()
    before = settled(stage)

    with stage.rehearsal(per_value()) as rehearsal:
        played = play(rehearsal)

    assert played["how"] == "synthetic"
    assert played["batch"] >= 2
    assert played["rows"] > 0
    assert contents(stage.checkpoint) == before


@pytest.mark.parametrize(
    ("mode", "how", "called"), [("synthetic", "synthetic", True), ("plan", "plan", False), ("off", "off", False)]
)
def test_modes_that_read_nothing_of_the_users(stage: Stage, mode: str, how: str, called: bool) -> None:
    trace = stage.root / "trace"

    @F.udf(returnType="string", useArrow=False)
    def seen(key: str) -> str:
        trace.touch()
        assert key.startswith("v"), "rows of the user's were read"
        return key

    stage.feed()
    writer = stage.writer(lambda rows: rows.select(seen("k").alias("k")))

    with stage.rehearsal(writer, mode=mode) as rehearsal:
        assert play(rehearsal)["how"] == how

    assert trace.exists() is called


def test_what_functions_add_in_a_rehearsal_is_in_no_accumulator(stage: Stage) -> None:
    """Wherever it runs: a leader rehearses its savepoints."""
    called = stage.spark.sparkContext.accumulator(0)

    @F.udf(returnType="string", useArrow=False)
    def counts(key: str) -> str:
        called.add(1)
        return key

    stage.feed(rows=7)
    stage.lead(stage.writer(lambda rows: rows.select(counts("k").alias("k")), stage.spark.newSession()))
    before = called.value
    assert before > 0

    with stage.rehearsal(stage.writer(lambda rows: rows.select(counts("k").alias("k")))) as rehearsal:
        assert play(rehearsal)["how"] == "live"

    assert called.value == before


def test_frames_of_the_scripts_are_made_in_its_own_session_though_a_source_in_python_is_rehearsed(stage: Stage) -> None:
    """A session that is made in Python becomes the one in which ``RDD.toDF`` makes frames."""
    before = RDD.toDF
    settings = java_class(jvm(stage.spark), "java.util.HashMap")()
    python_rows.rehearsal(stage.spark, settings, str(stage.root / "scratch-of-python"))
    assert RDD.toDF is before


def test_nothing_is_printed_on_a_console_before_the_grant(tmp_path: Path) -> None:
    script = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "rows = spark.readStream.schema('id LONG').json('in')\n"
        "rows.writeStream.queryName('one').format('console').start().awaitTermination()\n"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"id": 7}\n')
    with Rig(tmp_path, script, rehearse="live", every=0.2) as rig:
        while not ((standing := rig.wait_for(RehearsalReport)).rehearsed and standing.rounds >= 3):
            assert not standing.reason
        assert "Batch:" not in rig.text()
        rig.lead()
        rig.until(rig.output, "Batch: 0")
