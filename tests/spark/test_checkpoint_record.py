"""A checkpoint that is behind what the job's document says of it is refused before a batch is run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.replicas import PATIENCE, Replicas, everything_once

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path)
    yield made
    made.stop()


def newest(log: Path) -> Path:
    return max((each for each in log.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))


@pytest.mark.parametrize("lost", ["offsets", pytest.param("commits", marks=pytest.mark.long)])
def test_a_log_that_has_lost_entries_is_refused_until_that_is_accepted(replicas: Replicas, lost: str) -> None:
    leader = replicas.start()
    for _ in range(2):
        replicas.feed()
        replicas.wait_for("rows", lambda: everything_once(replicas))
    done = subprocess.run(replicas.command("suspend"), capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "boundary 1" in done.stdout
    checkpoint = replicas.home / "checkpoint"
    last = newest(checkpoint / "commits")
    (shown,) = replicas.status()["checkpoints"]
    assert (shown["batch"], shown["sink"], shown["root"]) == (int(last.name), "parquet", f"file:{checkpoint}")

    for each in (checkpoint / lost).glob(f"*{last.name}*"):
        each.unlink()
    subprocess.run(replicas.command("resume"), capture_output=True, timeout=PATIENCE, check=True)
    assert leader.wait(PATIENCE) == 4
    said = replicas.logs()
    assert f"this job has committed batch {last.name}" in said
    assert f"understudy resume --accept-checkpoint file:{checkpoint}" in said.replace(
        "checkpoint /", "checkpoint file:/"
    )
    assert newest(checkpoint / lost).name != last.name, "nothing was written"
    if lost == "offsets":
        return  # Spark does not go on without them either: its log of the files that were read is ahead

    accept = [*replicas.command("resume"), "--accept-checkpoint", str(checkpoint)]
    subprocess.run(accept, capture_output=True, timeout=PATIENCE, check=True)
    replicas.start()
    replicas.feed()
    replicas.wait_for("it goes on", lambda: int(newest(checkpoint / "commits").name) > int(last.name))
