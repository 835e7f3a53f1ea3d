"""What a running job is asked for, between real replicas: suspend, resume, hand over, cancel. No row is lost or repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.spark.replicas import PATIENCE, SCRIPT, Replicas, everything_once

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: A batch that stays in the script's own code while ``hold`` is there, and appends what it has seen as its last act.
FOREACH = """
import json, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()

def write(batch, number):
    rows = sorted(row.value for row in batch.collect())
    with open("began", "a") as began:
        began.write(f"{number}\\n")
    while Path("hold").exists():
        time.sleep(0.05)
    with open("written", "a") as written:
        written.write(json.dumps([number, rows]) + "\\n")

query = (
    spark.readStream.text("in").writeStream.foreachBatch(write)
    .option("checkpointLocation", "checkpoint").trigger(processingTime="100 milliseconds").start()
)
query.awaitTermination()
"""


@pytest.fixture
def replicas(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    made = Replicas(tmp_path, getattr(request, "param", SCRIPT))
    yield made
    made.stop()


def resume(replicas: Replicas) -> str:
    done = subprocess.run(replicas.command("resume"), capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout


def drivers(replicas: Replicas) -> int:
    """How many processes the replicas have that are no supervisors."""
    return sum(
        len(psutil.Process(each.pid).children(recursive=True)) for each in replicas.started if each.poll() is None
    )


def rehearsed(replicas: Replicas) -> bool:
    return any(each["rehearsed"] for each in replicas.status()["replicas"])


def test_a_job_is_suspended_goes_on_is_handed_over_and_is_canceled(replicas: Replicas) -> None:
    replicas.start()
    replicas.start()
    replicas.feed()
    replicas.wait_for(
        "rows, and a standby that has rehearsed", lambda: everything_once(replicas) and rehearsed(replicas)
    )

    code, said = replicas.ask("suspend")
    assert (code, said["result"]) == (0, "done"), said
    assert replicas.status()["status"] == "SUSPENDED"
    replicas.wait_for("no driver is left", lambda: drivers(replicas) == 0)
    code, said = replicas.ask("hand-over")
    assert code == 10, said
    replicas.feed()
    time.sleep(3.0)
    assert not everything_once(replicas)
    assert [each.poll() for each in replicas.started] == [None, None]

    os.killpg(replicas.started[0].pid, signal.SIGKILL)
    replicas.start()
    time.sleep(3.0)
    assert replicas.status()["status"] == "SUSPENDED"

    assert "goes on; it was SUSPENDED" in resume(replicas)
    replicas.wait_for("rows after the pause", lambda: everything_once(replicas) and rehearsed(replicas))

    before = replicas.leader()
    code, said = replicas.ask("hand-over")
    assert (code, said["result"]) == (0, "done"), said
    replicas.feed()
    replicas.wait_for("rows of another leader", lambda: everything_once(replicas) and replicas.leader() != before)
    assert psutil.pid_exists(before), "the replica that led goes on as a standby"

    code, said = replicas.ask("cancel")
    assert (code, said["result"]) == (0, "done"), said
    assert replicas.status()["status"] == "CANCELED"
    assert [each.wait(PATIENCE) for each in replicas.started[1:]] == [0, 0]
    code, said = replicas.ask("cancel")
    assert code == 10
    assert replicas.start().wait(PATIENCE) == 0, "a job that was canceled does not run again"
    rows = replicas.rows()
    assert set(rows.values()) == {1}
    assert len(rows) == replicas.fed


def test_a_job_that_is_declared_suspended_before_its_first_start_begins_once_it_is_declared_running(
    replicas: Replicas,
) -> None:
    (replicas.home / "ha" / "job" / "documents").mkdir(parents=True)
    code, said = replicas.ask("ensure", "suspended")
    assert (code, said["text"]) == (0, "is SUSPENDED; it has not begun"), said
    replicas.start()
    replicas.wait_for("a replica", lambda: len(replicas.status()["replicas"]) == 1)
    replicas.feed()
    time.sleep(5.0)
    assert replicas.status()["status"] == "SUSPENDED"
    assert not replicas.rows()
    code, said = replicas.ask("ensure", "running")
    assert code == 0, said
    assert "it was SUSPENDED" in said["text"]
    replicas.wait_for("rows", lambda: everything_once(replicas))
    code, said = replicas.ask("ensure", "suspended")
    assert code == 0, said
    assert replicas.status()["status"] == "SUSPENDED"
    assert set(replicas.rows().values()) == {1}


@pytest.mark.long
def test_a_job_that_is_suspended_warm_keeps_a_standby_that_goes_on_at_once(replicas: Replicas) -> None:
    replicas.start()
    replicas.start()
    replicas.feed()
    replicas.wait_for(
        "rows, and a standby that has rehearsed", lambda: everything_once(replicas) and rehearsed(replicas)
    )
    code, said = replicas.ask("suspend", "--warm")
    assert (code, said["result"]) == (0, "done"), said
    replicas.feed()
    time.sleep(5.0)
    shown = replicas.status()
    assert (shown["status"], shown["leader"]) == ("SUSPENDED", None)
    assert not everything_once(replicas)
    assert rehearsed(replicas)
    resume(replicas)
    replicas.wait_for("rows after the pause", lambda: everything_once(replicas))
    # Either may lead: the one that led has a driver again, which may have rehearsed by now.
    leads = replicas.started.index(next(each for each in replicas.started if each.pid == replicas.leader()))
    log = (replicas.home / f"replica-{leads}.log").read_text()
    assert log.rindex(" attached:") < log.rindex(" rehearsed:") < log.rindex(" acquired:"), "one that had rehearsed"
    assert set(replicas.rows().values()) == {1}


@pytest.mark.long
@pytest.mark.parametrize("replicas", [FOREACH], indirect=True)
def test_the_scripts_own_code_comes_to_its_end_before_a_job_is_suspended(replicas: Replicas) -> None:
    def lines(name: str) -> list[str]:
        path = replicas.home / name
        return path.read_text().splitlines() if path.exists() else []

    replicas.start()
    replicas.feed()
    replicas.wait_for("a batch", lambda: lines("written"))
    hold = replicas.home / "hold"
    for _ in range(3):
        hold.touch()
        begun = f"{len(lines('began'))}"
        replicas.feed()
        replicas.wait_for("a batch in the script's code", lambda number=begun: number in lines("began"))
        code, said = replicas.ask("suspend", "--timeout", "0.5")
        assert code == 11, said
        assert "job.py:" in said["text"]
        assert replicas.status()["status"] == "RUNNING"
        assert replicas.ask("suspend", "--no-wait")[0] == 0
        time.sleep(1.0)
        assert replicas.status()["status"] == "RUNNING"
        hold.unlink()
        replicas.wait_for("the job is SUSPENDED", lambda: replicas.status()["status"] == "SUSPENDED")
        assert len(lines("began")) == len(lines("written"))
        resume(replicas)
    replicas.feed()
    replicas.wait_for(
        "the last rows", lambda: sum(len(json.loads(each)[1]) for each in lines("written")) >= replicas.fed
    )
    batches = [json.loads(each) for each in lines("written")]
    assert [number for number, _ in batches] == list(range(len(batches))), "no batch ran twice"
    assert sorted(row for _, rows in batches for row in rows) == sorted(map(str, range(replicas.fed)))


@pytest.mark.long
def test_a_leader_that_dies_in_the_middle_leaves_the_request_to_the_next_one(replicas: Replicas) -> None:
    replicas.start()
    replicas.start()
    replicas.feed()
    replicas.wait_for(
        "rows, and a standby that has rehearsed", lambda: everything_once(replicas) and rehearsed(replicas)
    )
    leader = replicas.leader()
    os.kill(leader, signal.SIGSTOP)  # it cannot take the request up any more
    code, said = replicas.ask("suspend", "--no-wait")
    assert (code, said["result"]) == (0, "asked"), said
    os.killpg(leader, signal.SIGKILL)
    replicas.wait_for("the next leader answers", lambda: replicas.status()["status"] == "SUSPENDED")
    resume(replicas)
    replicas.feed()
    replicas.wait_for("rows after the pause", lambda: everything_once(replicas))
    assert set(replicas.rows().values()) == {1}
