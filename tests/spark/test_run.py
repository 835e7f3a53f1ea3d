"""``understudy run`` as a user starts it: takeovers between real replicas, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.replicas import PATIENCE, SCRIPT, Replicas, everything_once
from understudy.documents import codec

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path)
    yield made
    made.stop()


def test_a_standby_takes_over_from_a_killed_leader_and_a_stopped_one_and_every_row_is_there_once(
    replicas: Replicas,
) -> None:
    replicas.start("--listen", "127.0.0.1:0")
    replicas.start("--listen", "127.0.0.1:0")
    replicas.feed()
    replicas.wait_for("first rows", lambda: everything_once(replicas))
    replicas.wait_for("where the leader serves its probes", lambda: replicas.status()["endpoint"])
    endpoint = replicas.status()["endpoint"]
    assert "leads with epoch" in readiness(endpoint)
    replicas.wait_for("a rehearsed standby", lambda: any(each["rehearsed"] for each in replicas.status()["replicas"]))
    first, epoch = replicas.leader(), replicas.status()["epoch"]

    os.kill(first, signal.SIGKILL)  # its driver and its JVM die with it
    for _ in range(5):
        replicas.feed()
    replicas.wait_for("rows after SIGKILL", lambda: everything_once(replicas))
    assert replicas.status()["epoch"] > epoch
    second, epoch = replicas.leader(), replicas.status()["epoch"]
    assert second != first
    replicas.wait_for("another endpoint", lambda: replicas.status()["endpoint"] not in {"", endpoint})
    assert "leads with epoch" in readiness(replicas.status()["endpoint"])

    replicas.start()
    os.kill(second, signal.SIGTERM)
    for _ in range(5):
        replicas.feed()
    replicas.wait_for("rows after SIGTERM", lambda: everything_once(replicas))
    assert replicas.status()["epoch"] > epoch
    stopped = next(process for process in replicas.started if process.pid == second)
    assert stopped.wait(20) == 0
    assert replicas.rows() == Counter(str(number) for number in range(replicas.fed))

    assert sum(1 for _ in replicas.temporary.glob("*/blockmgr-*")) >= 1, "Spark's blocks are not where this looks"
    replicas.stop()
    assert [path.name for path in replicas.temporary.iterdir()] == [], "what killed drivers leave goes with them"


def readiness(endpoint: str) -> str:
    """What the replica says that serves its probes there."""
    with urllib.request.urlopen(f"http://{endpoint}/readyz", timeout=10) as answer:
        return str(answer.read().decode())


def refused(replicas: Replicas, *options: str) -> tuple[int, str]:
    process = replicas.start(*options)
    code = process.wait(PATIENCE)
    said = (replicas.home / f"replica-{len(replicas.started) - 1}.log").read_text()
    return code, next(line for line in reversed(said.splitlines()) if line.startswith("understudy: "))


def test_a_script_that_never_starts_a_query_is_refused(tmp_path: Path) -> None:
    replicas = Replicas(tmp_path, "print('nothing to see')\n")
    code, said = refused(replicas)
    assert code == 6
    assert "without starting a query" in said


def test_a_checkpoint_that_another_cluster_has_claimed_is_refused(replicas: Replicas) -> None:
    replicas.feed()
    first = replicas.start("--cluster-id", "one")
    replicas.wait_for("first rows", lambda: everything_once(replicas))
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    code, said = refused(replicas, "--cluster-id", "two")
    assert code == 5
    assert "checkpoint" in said
    assert "Use another checkpoint location or cluster id" in said


@pytest.mark.long
def test_a_finished_job_is_not_run_again_and_a_new_run_of_it_reads_what_came_since(tmp_path: Path) -> None:
    script = SCRIPT.replace(
        "spark.streams.awaitAnyTermination()", "q = spark.streams.active[0]; q.processAllAvailable(); q.stop()"
    )
    replicas = Replicas(tmp_path, script)
    replicas.feed()
    assert replicas.start().wait(PATIENCE) == 0, replicas.last_lines()
    assert replicas.rows() == Counter("01234")
    replicas.feed()
    assert replicas.start().wait(PATIENCE) == 0
    assert "to begin a new run, start it with --run-id" in replicas.logs()
    assert sum(replicas.rows().values()) == 5
    assert replicas.start("--run-id", "next").wait(PATIENCE) == 0, replicas.last_lines()
    assert replicas.rows() == Counter(str(number) for number in range(10)), "from the same checkpoint"
    said = subprocess.run(replicas.command("resume"), capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "--cluster-id: job job of cluster job below" in said.stderr
    assert "has FINISHED" in said.stderr


@pytest.mark.long
def test_a_failed_job_goes_on_where_it_was_once_somebody_has_mended_it_and_says_so(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    script = SCRIPT.replace(
        "spark.streams.await", "import os\nassert not os.path.exists('broken')\nspark.streams.await"
    )
    replicas = Replicas(tmp_path, script)
    replicas.feed()
    try:
        first = replicas.start()
        replicas.wait_for("first rows", lambda: everything_once(replicas))
        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 0
        broken.touch()
        assert replicas.start("--restart-strategy", "fixed-delay", "--restart-attempts", "1").wait(PATIENCE) == 1
        assert replicas.status()["status"] == "FAILED"
        broken.unlink()
        replicas.feed()
        assert replicas.start().wait(PATIENCE) == 1, "a job that has FAILED does not start by itself"
        assert "is FAILED" in replicas.logs()
        assert "understudy resume lets it run again" in replicas.logs()

        said = subprocess.run(replicas.command("resume"), capture_output=True, text=True, check=False)
        assert (said.returncode, "may run again" in said.stdout) == (0, True), said.stderr
        replicas.start()
        replicas.wait_for("the rest", lambda: everything_once(replicas))
        assert replicas.rows() == Counter(str(number) for number in range(replicas.fed))
        again = subprocess.run(replicas.command("resume"), capture_output=True, text=True, check=False)
        assert (again.returncode, "nothing was changed" in again.stdout) == (0, True)
    finally:
        replicas.stop()


def test_a_job_document_nobody_can_read_stops_a_replica_and_stays_as_it_is(replicas: Replicas) -> None:
    documents = replicas.home / "ha" / "job" / "documents"
    documents.mkdir(parents=True)
    torn = documents / "job-job@1"
    torn.write_bytes(codec.canonical({"version": 1}).encode()[:9])
    code, said = refused(replicas)
    assert code == 4
    assert "job-job" in said
    assert torn.read_bytes() == b'{"version'
