"""Runs of a job, between real replicas: an ended one never runs again, one under way goes on, another id begins a new one."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.spark.replicas import PATIENCE, Replicas
from understudy.cli.main import app

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import time
from pathlib import Path
import understudy
with understudy.current().step() as token:
    with Path("ran").open("a") as ran:
        ran.write(f"{token}\\n")
    while not Path("may-end").exists():
        time.sleep(0.05)
"""


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, SCRIPT)
    yield made
    made.stop()


def ended(replicas: Replicas, *options: str) -> tuple[int, str]:
    """The exit code of a replica that is started now, and what it said."""
    code = replicas.start(*options).wait(PATIENCE)
    return code, (replicas.home / f"replica-{len(replicas.started) - 1}.log").read_text()


def test_what_has_finished_stays_so_where_every_document_is_lost(replicas: Replicas) -> None:
    storage = ("--ha-storage", str(replicas.home / "results"), "--run-id")
    (replicas.home / "may-end").touch()
    assert ended(replicas, *storage, "one")[0] == 0
    (kept,) = (replicas.home / "results").rglob("result*.json")
    assert kept.relative_to(replicas.home / "results") == Path("job-results/job/job/one/result.json")
    asked = ["result", "--ha-storage", str(replicas.home / "results"), "--cluster-id", "job", "--run-id"]
    assert CliRunner().invoke(app, [*asked, "one"]).stdout == "run one of job job: FINISHED: the script ended\n"

    shutil.rmtree(replicas.home / "ha")
    code, said = ended(replicas, *storage, "one")
    assert code == 0
    assert "recalled: the job's record was gone" in said
    assert "job job is FINISHED: the script ended (run one, ended 20" in said
    assert len(ran(replicas)) == 1

    shutil.rmtree(replicas.home / "ha")
    assert ended(replicas, *storage, "two")[0] == 0
    first, second = ran(replicas)
    assert first < second, "tokens go on above those of a run whose documents are lost"
    assert CliRunner().invoke(app, [*asked, "two"]).exit_code == 0


def ran(replicas: Replicas) -> list[int]:
    path = replicas.home / "ran"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.long
def test_a_run_that_has_ended_never_runs_again_and_one_under_way_goes_on(replicas: Replicas) -> None:
    first = replicas.start("--run-id", "one")
    replicas.wait_for("the first run", lambda: ran(replicas))
    code, said = ended(replicas, "--run-id", "two")
    assert code == 5
    assert "--run-id: run one of this job is under way, and its leader lives" in said
    assert (replicas.status()["run"], replicas.status()["status"], first.poll()) == ("one", "RUNNING", None)

    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = replicas.start("--run-id", "two")
    replicas.wait_for("the second run", lambda: len(ran(replicas)) == 2)
    shown = replicas.status()
    assert (shown["run"], shown["status"], shown["run_ended"]) == ("two", "RUNNING", None)
    code, said = ended(replicas, "--run-id", "one")
    assert code == 5
    assert "run one of job job is SUPERSEDED" in said

    (replicas.home / "may-end").touch()
    assert second.wait(PATIENCE) == 0
    assert replicas.status()["run_ended"] > replicas.status()["run_began"]
    for options in ((), ("--run-id", "two")):
        code, said = ended(replicas, *options)
        assert code == 0
        assert "job job is FINISHED: the script ended (run two, ended 20" in said
        assert "to begin a new run, start it with --run-id" in said
    assert len(ran(replicas)) == 2

    assert ended(replicas, "--run-id", "three")[0] == 0
    assert ended(replicas, "--run-id", "two")[0] == 0
    assert len(ran(replicas)) == 3
    assert ran(replicas) == sorted(set(ran(replicas))), "each run has higher tokens"
    assert (replicas.status()["run"], replicas.status()["status"]) == ("three", "FINISHED")
