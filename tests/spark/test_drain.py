"""A job is drained: every window closes, every row that was kept back is written once, and nothing goes on from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.replicas import PATIENCE, Replicas

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_BEGINS = """
import json, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
rows = (
    spark.readStream.text("in").select(F.col("value").cast("long").alias("n"))
    .withColumn("at", F.timestamp_seconds("n")).withWatermark("at", "10 seconds")
)
counts = rows.groupBy(F.window("at", "10 seconds")).count().select(
    F.concat_ws(":", F.col("window.start").cast("long"), "count").alias("value")
)
"""

#: Windows of ten to a file sink, sessions to a function of the script's, and rows as they are.
SCRIPT = (
    _BEGINS
    + """
asked = []

def write(batch, number):
    found = sorted(row.value for row in batch.collect())
    assert all(query.isActive for query in asked), "a batch may ask how its queries are"
    while found and Path("hold").exists():
        time.sleep(0.05)
    Path(f"sessions-{number}").write_text(json.dumps(found))

sessions = rows.groupBy(F.session_window("at", "3 seconds"), (F.col("n") % 1).alias("key")).count().select(
    F.concat_ws(":", F.col("session_window.start").cast("long"), "count").alias("value")
)
def start(writer, name):
    return writer.option("checkpointLocation", name).trigger(processingTime="100 milliseconds").queryName(name)

start(counts.writeStream.format("parquet"), "checkpoint").start("out")
asked.append(start(sessions.writeStream.foreachBatch(write), "sessions").start())
print(asked[0].runId)
start(spark.readStream.text("in").writeStream.format("parquet"), "plain").start("plain-out")
spark.streams.awaitAnyTermination()
Path("went-on").touch()
"""
)

CONTINUOUS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
rows = spark.readStream.format("rate").load()
query = rows.writeStream.format("console").option("checkpointLocation", "checkpoint").trigger(continuous="1 second").start()
query.awaitTermination()
"""


@pytest.fixture
def replicas(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    made = Replicas(tmp_path, getattr(request, "param", SCRIPT))
    yield made
    made.stop()


def files_read(checkpoint: Path) -> set[str]:
    """By the batches that are committed."""
    if len(list(checkpoint.glob("commits/[0-9]*"))) < len(list(checkpoint.glob("offsets/[0-9]*"))):
        return set()
    lines = [line for log in checkpoint.glob("sources/0/[0-9]*") for line in log.read_text().splitlines()[1:]]
    return {json.loads(line)["path"] for line in lines}


def fed_and_committed(replicas: Replicas) -> bool:
    """Every query has read all there is."""
    read = [files_read(replicas.home / name) for name in ("checkpoint", "sessions", "plain")]
    return all(5 * len(each) == replicas.fed for each in read)


def windows(replicas: Replicas) -> Counter[str]:
    return Counter(f"{start}:{min(10, replicas.fed - start)}" for start in range(0, replicas.fed, 10))


def sessions(replicas: Replicas) -> list[str]:
    return [row for each in replicas.home.glob("sessions-*") for row in json.loads(each.read_text())]


def last_watermark(replicas: Replicas, checkpoint: str) -> int:
    last = max((replicas.home / checkpoint / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    assert (replicas.home / checkpoint / "commits" / last.name).exists()
    return int(json.loads(last.read_text().splitlines()[1])["batchWatermarkMs"])


END_OF_TIME = 253402300799000


def test_a_drained_job_has_written_what_its_queries_kept_back_and_is_finished(replicas: Replicas) -> None:
    replica = replicas.start()
    for _ in range(5):
        replicas.feed()
    replicas.wait_for("rows", lambda: fed_and_committed(replicas))
    assert sum(replicas.rows().values()) < len(windows(replicas)), "the last windows are kept back"

    code, said = replicas.ask("drain")
    assert (code, said["result"]) == (0, "done"), said
    assert said["text"] == "the job is FINISHED; no savepoint was taken before, for the job has no HA storage"
    assert replicas.status()["status"] == "FINISHED"
    assert replica.wait(PATIENCE) == 0
    assert replicas.rows() == windows(replicas)
    assert sessions(replicas) == [f"0:{replicas.fed}"]
    assert not (replicas.home / "went-on").exists(), "no end of a query was one to the script"
    assert last_watermark(replicas, "checkpoint") == last_watermark(replicas, "sessions") == END_OF_TIME
    assert last_watermark(replicas, "plain") == 0
    drained = {each["query"]: each["drained"] for each in replicas.status()["checkpoints"]}
    assert drained == {"checkpoint": True, "sessions": True, "plain": False}

    code, said = replicas.ask("resume")
    assert code != 0
    again = replicas.start("--run-id", "next")
    assert again.wait(PATIENCE) == 4
    assert "was drained: to it, every row that comes now is late" in replicas.logs()


@pytest.mark.long
def test_a_leader_that_dies_in_the_last_batch_leaves_it_to_the_next_one(replicas: Replicas) -> None:
    replicas.start()
    replicas.start()
    for _ in range(5):
        replicas.feed()
    replicas.wait_for(
        "rows, and a standby that has rehearsed",
        lambda: fed_and_committed(replicas) and any(each["rehearsed"] for each in replicas.status()["replicas"]),
    )
    hold = replicas.home / "hold"
    hold.touch()
    code, said = replicas.ask("drain", "--no-wait")
    assert (code, said["result"]) == (0, "asked"), said
    last = replicas.home / "sessions" / "offsets"
    replicas.wait_for(
        "the entry that drains", lambda: any(str(END_OF_TIME) in each.read_text() for each in last.glob("[0-9]*"))
    )
    assert replicas.status()["status"] == "DRAINING"
    assert replicas.ask("suspend")[0] == 10
    assert (
        "stays"
        in subprocess.run(
            replicas.command("resume"), capture_output=True, text=True, timeout=PATIENCE, check=True
        ).stdout
    )
    replicas.feed()  # too late for a job that is being drained
    os.killpg(replicas.leader(), signal.SIGKILL)
    hold.unlink()
    replicas.wait_for("the next leader drains it on", lambda: replicas.status()["status"] == "FINISHED")
    replicas.fed -= 5
    assert replicas.rows() == windows(replicas)
    assert sessions(replicas) == [f"0:{replicas.fed}"]
    assert last_watermark(replicas, "checkpoint") == last_watermark(replicas, "sessions") == END_OF_TIME


#: Stops a drain before the entry is written, or once the last batches are committed and nothing says so yet.
STANDS_STILL = """
import time
from pathlib import Path
from understudy.driver import drain
from understudy.driver.fence_client import FenceClient

def still(where):
    while Path(where).exists():
        Path(f"at-{where}").touch()
        time.sleep(0.05)

entry, drained = FenceClient.drain, drain.Drained
FenceClient.drain = lambda *given: still("entry") or entry(*given)
drain.Drained = lambda *given: still("commit") or drained(*given)
"""


@pytest.mark.long
@pytest.mark.parametrize("replicas", [STANDS_STILL + SCRIPT], indirect=True)
@pytest.mark.parametrize("where", ["entry", "commit"])
def test_a_leader_that_dies_before_the_entry_or_after_the_commit_leaves_it_to_the_next_one(
    replicas: Replicas, where: str
) -> None:
    replicas.start()
    for _ in range(3):
        replicas.feed()
    replicas.wait_for("rows", lambda: fed_and_committed(replicas))
    (replicas.home / where).touch()
    code, said = replicas.ask("drain", "--no-wait")
    assert (code, said["result"]) == (0, "asked"), said
    replicas.wait_for("it stands still", (replicas.home / f"at-{where}").exists)
    assert replicas.status()["status"] == "DRAINING"
    marks = [last_watermark(replicas, each) for each in ("checkpoint", "sessions")]
    assert (marks == [END_OF_TIME] * 2) is (where == "commit")
    replicas.feed()  # too late for a job that is being drained
    os.killpg(replicas.leader(), signal.SIGKILL)
    (replicas.home / where).unlink()
    assert replicas.start().wait(PATIENCE) == 0
    assert replicas.status()["status"] == "FINISHED"
    replicas.fed -= 5
    assert replicas.rows() == windows(replicas)
    assert sessions(replicas) == [f"0:{replicas.fed}"]
    assert last_watermark(replicas, "checkpoint") == last_watermark(replicas, "sessions") == END_OF_TIME


@pytest.mark.parametrize("replicas", [CONTINUOUS], indirect=True)
def test_a_query_without_a_boundary_is_not_drained_and_runs_on(replicas: Replicas) -> None:
    replicas.start()
    commits = replicas.home / "checkpoint" / "commits"
    replicas.wait_for("an epoch", lambda: list(commits.glob("[0-9]*")))
    code, said = replicas.ask("drain")
    assert code == 10, said
    assert "without an end between its batches" in said["text"]
    known = len(list(commits.glob("[0-9]*")))
    replicas.wait_for("it runs on", lambda: len(list(commits.glob("[0-9]*"))) > known)
    assert replicas.status()["status"] == "RUNNING"
