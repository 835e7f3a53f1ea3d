"""FLIP-34's two ways to stop, row by row: what goes through, what time lets out, and how the job stands then.

                                        SUSPEND     TERMINATE (drain)
    side effects of the last batch      go through  go through
    rows after the boundary             none        none
    MAX_WATERMARK                       no          yes
    windows                             stay open   close
    timers on event time                stay        fire
    timers on processing time           stay        stay
    status                              SUSPENDED   FINISHED
    goes on afterwards, exactly once    yes         never

FLIP-34 ends both as FINISHED; here a suspended job is one that goes on. That a stop which fails leaves the job running is in test_requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.observer import batch_watermark_ms, in_flight, last_entry
from tests.spark.replicas import PATIENCE, Replicas

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: A function of the script's that takes its time; windows; a timer of each kind, which no row lets go off. Rows come as seconds.
#: It says when its queries hold.
SCRIPT = """
import json, time
from pathlib import Path
import pandas as pd
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.streaming import StatefulProcessor
from understudy.driver.fence_client import FenceClient
rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.stateStore.providerClass", rocks).getOrCreate()
)

class Timer(StatefulProcessor):
    event_time = True

    def init(self, handle):
        self.handle = handle

    def handleInputRows(self, key, rows, timerValues):
        last = max(int(frame.n.max()) for frame in rows)
        ahead = last + 3600 if self.event_time else int(time.time()) + 3600
        self.handle.registerTimer(1000 * ahead)
        yield pd.DataFrame({"value": [f"rows until {last}"]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield pd.DataFrame({"value": ["timer"]})

    def close(self):
        pass

class Clock(Timer):
    event_time = False

rows = (
    spark.readStream.text("in").select(F.col("value").cast("long").alias("n"))
    .withColumn("at", F.timestamp_seconds("n")).withWatermark("at", "10 seconds")
)

def timers(processor, mode):
    return rows.withColumn("key", F.col("n") % 1).groupBy("key").transformWithStateInPandas(
        statefulProcessor=processor, outputStructType="value string", outputMode="Append", timeMode=mode
    )

def write(name):
    def batch(frame, number):
        found = sorted(row.value for row in frame.collect())
        while name == "windows" and Path("hold").exists():
            Path("held").touch()
            time.sleep(0.05)
        Path(f"{name}-{number}").write_text(json.dumps(found))
    return batch

await_quiet = FenceClient.await_quiet

def holds(*given):
    quiet = await_quiet(*given)
    Path("holds").touch()
    return quiet

FenceClient.await_quiet = holds

windows = rows.groupBy(F.window("at", "10 seconds")).count().select(
    F.concat_ws(":", F.col("window.start").cast("long"), "count").alias("value")
)
for name, frame in (("windows", windows), ("event", timers(Timer(), "EventTime")), ("clock", timers(Clock(), "ProcessingTime"))):
    (
        frame.writeStream.foreachBatch(write(name)).option("checkpointLocation", f"checkpoints/{name}")
        .trigger(processingTime="100 milliseconds").outputMode("append").queryName(name).start()
    )
spark.streams.awaitAnyTermination()
"""
QUERIES = ("windows", "event", "clock")
END_OF_TIME = 253402300799000


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that was stopped while a batch was under way, with more input waiting. ``fed``: rows of that batch and before it."""

    replicas: Replicas
    fed: int
    drained: bool

    def written(self, query: str) -> list[str]:
        """What the script's function was given, over all batches; a file for each."""
        return [row for each in self.replicas.home.glob(f"{query}-*") for row in json.loads(each.read_text())]

    def checkpoint(self, query: str) -> Path:
        return self.replicas.home / "checkpoints" / query

    def last(self, query: str, log: str) -> int:
        return max(int(each.name) for each in (self.checkpoint(query) / log).glob("[0-9]*"))


def read(home: Path, rows: int) -> bool:
    """Whether each query has begun a batch with the last of so many rows. The one on the clock runs batches all the time, and tidies its logs."""
    logs = [log.read_text().splitlines()[1:] for log in (home / "checkpoints/windows/sources/0").glob("[0-9]*")]
    files = len({json.loads(line)["path"] for lines in logs for line in lines})
    last = f'"rows until {rows - 1}"'
    timers = [any(last in each.read_text() for each in home.glob(f"{name}-*")) for name in ("event", "clock")]
    return 5 * files >= rows and all(timers)


def at_rest(home: Path, rows: int) -> bool:
    """Whether the windows have nothing more to do after so many rows: the batch under the last one's watermark is committed, too."""
    checkpoint = home / "checkpoints/windows"
    last = last_entry(checkpoint / "commits")
    return in_flight(checkpoint) is None and batch_watermark_ms(checkpoint, last) == 1000 * (rows - 1 - 10)


@pytest.fixture(scope="module", params=[pytest.param("suspend", marks=pytest.mark.long), "drain"])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    home = tmp_path_factory.mktemp(request.param)
    replicas = Replicas(home, SCRIPT)
    try:
        replicas.start()
        for _ in range(4):
            replicas.feed()
        replicas.wait_for("rows", lambda: read(home, replicas.fed) and at_rest(home, replicas.fed))
        (home / "hold").touch()
        replicas.feed()
        replicas.wait_for("a batch under way", (home / "held").exists)
        replicas.wait_for("rows elsewhere", lambda: read(home, replicas.fed))
        fed = replicas.fed
        code, said = replicas.ask(request.param, "--no-wait")
        assert code == 0, said
        replicas.wait_for("every other query holds", (home / "holds").exists)
        replicas.feed()
        (home / "hold").unlink()
        wanted = {"suspend": "SUSPENDED", "drain": "FINISHED"}[request.param]
        replicas.wait_for(wanted, lambda: replicas.status()["status"] == wanted)
        yield Stopped(replicas, fed, request.param == "drain")
    finally:
        replicas.stop()


def test_the_batch_under_way_and_its_side_effects_go_through(stopped: Stopped) -> None:
    for query in QUERIES:
        assert stopped.last(query, "offsets") == stopped.last(query, "commits")
        assert (stopped.replicas.home / f"{query}-{stopped.last(query, 'commits')}").exists()
    assert f"rows until {stopped.fed - 1}" in stopped.written("event")
    assert f"rows until {stopped.fed - 1}" in stopped.written("clock")


def test_no_row_comes_after_the_boundary(stopped: Stopped) -> None:
    assert stopped.replicas.fed > stopped.fed
    home, late = stopped.replicas.home, f"rows until {stopped.replicas.fed - 1}"
    assert read(home, stopped.fed)
    assert late not in stopped.written("event") + stopped.written("clock")


def test_the_last_watermark_is_the_end_of_time_only_if_it_is_drained(stopped: Stopped) -> None:
    for query in QUERIES:
        entry = stopped.checkpoint(query) / "offsets" / str(stopped.last(query, "offsets"))
        mark = json.loads(entry.read_text().splitlines()[1])["batchWatermarkMs"]
        assert (mark == END_OF_TIME) is stopped.drained, query


def test_windows_close_only_if_it_is_drained(stopped: Stopped) -> None:
    every = {f"{start}:{min(10, stopped.fed - start)}" for start in range(0, stopped.fed, 10)}
    found = stopped.written("windows")
    assert len(found) == len(set(found))
    assert (set(found) == every) is stopped.drained
    assert set(found) <= every


def test_timers_on_event_time_fire_only_if_it_is_drained(stopped: Stopped) -> None:
    fired = stopped.written("event").count("timer")
    assert (fired > 0) is stopped.drained


def test_timers_on_processing_time_never_fire_early(stopped: Stopped) -> None:
    assert "timer" not in stopped.written("clock")


def test_a_suspended_job_goes_on_exactly_once_and_a_drained_one_never(stopped: Stopped) -> None:
    """The last of them: it changes how the job stands."""
    code, said = stopped.replicas.ask("resume", "--wait")
    if stopped.drained:
        assert code == 2, said
        return
    assert code == 0, said
    stopped.replicas.wait_for("the rows that waited", lambda: read(stopped.replicas.home, stopped.replicas.fed))
    code, said = stopped.replicas.ask("drain")
    assert code == 0, said
    fed = stopped.replicas.fed
    assert sorted(stopped.written("windows")) == sorted(
        f"{start}:{min(10, fed - start)}" for start in range(0, fed, 10)
    )
    assert stopped.written("event").count("timer") > 0
    assert stopped.replicas.started[0].wait(PATIENCE) == 0
