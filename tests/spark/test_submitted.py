"""Replicas without a script: they wait for what is submitted, run it, and take over from each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.spark.replicas import SCRIPT, Replicas, everything_once
from understudy.cli.main import app
from understudy.supervisor.submitted import WAITS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: The module and the argument are submitted with the script. What each replica finds beside it is not.
SUBMITTED = f"import sys\nfrom told import OUT\nassert sys.argv[1:] == ['one', 'two'], sys.argv\n{SCRIPT}".replace(
    '"out"', "OUT"
)


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, "raise SystemExit('this was not submitted')")
    yield made
    made.stop()


def notes(replicas: Replicas) -> list[str]:
    """Of the replicas of a job that has not begun."""
    done = CliRunner().invoke(app, ["status", "--ha-dir", str(replicas.home / "ha"), "--json"])
    return [each["reason"] for each in json.loads(done.stdout)["replicas"]] if done.stdout else []


def test_what_is_submitted_runs_on_replicas_that_wait_for_it_and_every_row_is_there_once_after_a_kill(
    replicas: Replicas,
) -> None:
    sources = replicas.home / "sources"
    sources.mkdir()
    (sources / "submitted.py").write_text(SUBMITTED)
    (sources / "told.py").write_text("OUT = 'out'\n")
    where = ("--cluster-id", "job", "--ha-storage", str(replicas.home / "storage"))
    for _ in range(2):
        replicas.start("--submitted", *where, script="")
    replicas.wait_for("both wait", lambda: notes(replicas) == [WAITS] * 2)

    command = [*replicas.command("submit"), *where, "--py-files", "told.py", "submitted.py", "one", "two"]
    said = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    for path in sources.iterdir():
        path.unlink()  # nothing of it is needed any more
    replicas.feed()
    replicas.wait_for("first rows", lambda: everything_once(replicas))
    assert replicas.status()["submission"]["number"] == replicas.status()["submission_led"] == 1

    first = replicas.leader()
    os.kill(first, signal.SIGKILL)
    replicas.feed()
    replicas.wait_for("rows after the kill", lambda: everything_once(replicas))
    assert replicas.leader() != first
    assert replicas.rows() == Counter(str(number) for number in range(replicas.fed))
