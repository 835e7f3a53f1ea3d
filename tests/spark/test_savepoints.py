"""Savepoints between real replicas: taken while the job runs, proven, forked, and what a leader that dies in the middle leaves."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.replicas import PATIENCE, Replicas
from tests.spark.test_requests import rehearsed, resume

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Two queries: the first of each value, by state that only grows, and every row as it is.
SCRIPT = """
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
out = spark.conf.get("spark.test.out", "out")
rows = spark.readStream.text("in")
for name, frame in {"firsts": rows.dropDuplicates(["value"]), "plain": rows}.items():
    writer = frame.writeStream.format("parquet").queryName(name).trigger(processingTime="100 milliseconds")
    writer.start(out if name == "firsts" else f"{out}-plain")
spark.streams.awaitAnyTermination()
"""

#: Stops a savepoint before anything is copied.
STANDS_STILL = """
import time
from pathlib import Path
from understudy.driver import savepoints

copy = savepoints._copy

def still(*given):
    while Path("still").exists():
        Path("at-still").touch()
        time.sleep(0.05)
    return copy(*given)

savepoints._copy = still
"""

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES: dict[str, tuple[str, ...]] = {
    "hdfs": (),
    "rocksdb": ("--conf", f"spark.sql.streaming.stateStore.providerClass={ROCKSDB}"),
    "rocksdb-changelog": (
        "--conf",
        f"spark.sql.streaming.stateStore.providerClass={ROCKSDB}",
        "--conf",
        f"{CHANGELOG}=true",
    ),
}


@pytest.fixture
def replicas(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    made = Replicas(tmp_path, getattr(request, "param", SCRIPT))
    yield made
    made.stop()


def feed(replicas: Replicas, values: list[int]) -> None:
    replicas.fed += 1
    part = replicas.home / f".{replicas.fed}"
    part.write_text("".join(f"{value}\n" for value in values))
    part.rename(replicas.home / "in" / f"{replicas.fed}.txt")


def start(replicas: Replicas, *options: str, cluster: str = "job") -> Any:
    return replicas.start("--cluster-id", cluster, "--ha-storage", str(replicas.home / "store"), *options)


def ask(replicas: Replicas, what: str, *options: str) -> tuple[int, Any]:
    return replicas.ask(what, "--cluster-id", "job", *options)


def wait_for_rows(replicas: Replicas, firsts: set[int], plain: int, out: str = "out") -> None:
    replicas.wait_for(
        f"{len(firsts)} and {plain} rows in {out}",
        lambda: (
            set(replicas.rows(out)) >= {str(each) for each in firsts}
            and sum(replicas.rows(f"{out}-plain").values()) >= plain
        ),
    )
    assert replicas.rows(out) == {str(each): 1 for each in firsts}


def savepoints(replicas: Replicas) -> dict[int, dict[str, Any]]:
    code, listed = ask(replicas, "savepoints")
    assert code == 0
    return {each["number"]: each for each in listed}


@pytest.mark.parametrize(
    "store", ["hdfs", *(pytest.param(each, marks=pytest.mark.long) for each in STORES if each != "hdfs")]
)
def test_a_fork_of_a_savepoint_goes_on_where_the_job_stood_and_the_job_goes_on_too(
    replicas: Replicas, store: str
) -> None:
    start(replicas, *STORES[store])
    for number in range(4):
        feed(replicas, [number, number + 1])
        wait_for_rows(replicas, set(range(number + 2)), 2 * number + 2)
    code, said = ask(replicas, "savepoint")
    assert (code, said["result"]) == (0, "done"), said
    assert "savepoint 1 is rehearsed: 2 queries" in said["text"]
    one = savepoints(replicas)[1]
    assert one["state"] == "rehearsed"
    assert set(one["batches"]) == {"firsts", "plain"}
    assert min(one["batches"].values()) >= 3

    feed(replicas, [*range(5), 100, 101, 100])
    wait_for_rows(replicas, {*range(5), 100, 101}, 8 + 8)

    home = replicas.home
    code, made = replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")
    assert code == 0, made
    assert {each["query"]: each["batch"] for each in made["queries"]} == one["batches"]
    ours, theirs = (home / "ha" / each / "checkpoints" / each for each in ("job", "copy"))
    ids = [json.loads((base / "firsts" / "metadata").read_text())["id"] for base in (ours, theirs)]
    assert ids[0] != ids[1]
    assert not (theirs / "firsts" / "_understudy").exists()
    code, said = replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")
    assert code == 10, "there is something already"

    start(replicas, *STORES[store], "--conf", "spark.test.out=other", cluster="copy")
    wait_for_rows(replicas, {100, 101}, 8, out="other")
    assert replicas.rows("other-plain") == replicas.rows("out-plain") - _before()
    code, said = replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")
    assert code == 10
    assert "has run under copy already" in said["text"]


def _before() -> Any:
    """What was read before the savepoint."""
    from collections import Counter

    return Counter(str(value) for number in range(4) for value in (number, number + 1))


def test_a_job_is_suspended_at_a_savepoint_and_what_is_torn_or_disposed_of_is_not_forked(replicas: Replicas) -> None:
    start(replicas)
    feed(replicas, [1, 2])
    wait_for_rows(replicas, {1, 2}, 2)
    code, said = ask(replicas, "savepoint", "--then", "suspend")
    assert (code, said["result"]) == (0, "done"), said
    assert said["text"].startswith("the job is SUSPENDED; savepoint 1 is rehearsed")
    assert replicas.status()["status"] == "SUSPENDED"
    assert ask(replicas, "savepoint")[0] == 10, "no leader is there to take one"
    resume(replicas)
    feed(replicas, [2, 3])
    wait_for_rows(replicas, {1, 2, 3}, 4)

    place = Path(savepoints(replicas)[1]["place"].removeprefix("file://"))
    assert (place / "manifest.json").exists()
    commit = place / "firsts" / "commits" / "0"
    commit.write_text(f"{commit.read_text()} ")
    fork = ("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")
    code, said = replicas.ask(*fork)
    assert code == 4, said
    assert "torn" in said["text"]
    copies = replicas.home / "ha" / "copy"
    assert not [each for each in copies.rglob("*") if each.is_file()]

    assert ask(replicas, "dispose", "2")[0] == 2
    assert ask(replicas, "dispose", "1")[0] == 0
    assert not place.exists()
    assert savepoints(replicas) == {}
    assert ask(replicas, "dispose", "1")[0] == 2
    assert replicas.ask(*fork)[0] == 2


@pytest.mark.long
@pytest.mark.parametrize("replicas", [STANDS_STILL + SCRIPT], indirect=True)
def test_a_leader_that_dies_in_the_middle_leaves_no_savepoint_and_the_next_one_says_so(replicas: Replicas) -> None:
    start(replicas)
    start(replicas)
    feed(replicas, [1, 2])
    wait_for_rows(replicas, {1, 2}, 2)
    replicas.wait_for("a standby that has rehearsed", lambda: rehearsed(replicas))
    still = replicas.home / "still"
    still.touch()
    code, said = ask(replicas, "savepoint", "--no-wait")
    assert (code, said["result"]) == (0, "asked"), said
    replicas.wait_for("it stands still", (replicas.home / "at-still").exists)
    assert savepoints(replicas)[1]["state"] == "begun"
    assert ask(replicas, "dispose", "1")[0] == 10, "it is being taken"
    feed(replicas, [3])
    os.killpg(replicas.leader(), signal.SIGKILL)
    still.unlink()
    wait_for_rows(replicas, {1, 2, 3}, 3)
    replicas.wait_for("the next leader answers", lambda: savepoints(replicas)[1]["state"] == "failed")
    assert "died in the middle" in replicas.status()["answer"]["text"]
    assert not list((replicas.home / "store").rglob("manifest.json"))
    assert replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")[0] == 10

    code, said = ask(replicas, "savepoint")
    assert code == 0, said
    assert {number: each["state"] for number, each in savepoints(replicas).items()} == {1: "failed", 2: "rehearsed"}
    assert ask(replicas, "dispose", "1")[0] == 0


@pytest.mark.long
def test_a_job_that_is_drained_leaves_a_savepoint_from_before_and_a_fork_of_it_goes_on(replicas: Replicas) -> None:
    # the quick JVM of tests does not verify classes, and one that S3A needs must not keep a local disk from being copied
    replica = start(replicas, "--conf", "spark.driver.extraJavaOptions=-XX:+BytecodeVerificationRemote")
    feed(replicas, [1, 2])
    wait_for_rows(replicas, {1, 2}, 2)
    code, said = ask(replicas, "drain")
    assert (code, said["result"]) == (0, "done"), said
    assert said["text"].startswith("the job is FINISHED; savepoint 1 was taken before: rehearsed, in file://")
    assert replica.wait(PATIENCE) == 0
    assert replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")[0] == 0
    start(replicas, "--conf", "spark.test.out=other", cluster="copy")
    feed(replicas, [2, 3])
    wait_for_rows(replicas, {3}, 2, out="other")


@pytest.mark.long
def test_into_the_sink_of_the_first_job_a_fork_is_refused(replicas: Replicas) -> None:
    start(replicas)
    feed(replicas, [1])
    wait_for_rows(replicas, {1}, 1)
    assert ask(replicas, "savepoint")[0] == 0
    assert replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")[0] == 0
    assert start(replicas, cluster="copy").wait(PATIENCE) == 5


@pytest.mark.long
def test_a_script_with_another_query_does_not_go_on_from_a_fork(replicas: Replicas) -> None:
    start(replicas)
    feed(replicas, [1])
    wait_for_rows(replicas, {1}, 1)
    assert ask(replicas, "savepoint")[0] == 0
    assert replicas.ask("fork", "--from", "1", "--cluster-id", "copy", "--from-cluster", "job")[0] == 0
    by_length = 'rows.selectExpr("value", "length(value) AS n").dropDuplicates(["n"]).select("value")'
    other = SCRIPT.replace('rows.dropDuplicates(["value"])', by_length)
    assert other != SCRIPT
    (replicas.home / "job.py").write_text(other)
    feed(replicas, [2, 33])
    options = ("--restart-attempts", "1", "--conf", "spark.test.out=other")
    assert start(replicas, *options, cluster="copy").wait(PATIENCE) != 0
    assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in replicas.logs()
    assert not replicas.rows("other")
