"""When a pod was struck that can only be reached through kubectl, which is a script here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2e.deployed import Failed
from e2e.kubectl import Cluster
from e2e.kubectl import Failed as Refused
from e2e.strikes import Stricken
from tests.unit.programs import program

POD = {"metadata": {"name": "flights-0", "labels": {}}}
ENDED = "echo 'command terminated with exit code 137' >&2; exit 137"


class Struck(Stricken):
    """Somewhere else, where kubectl answers a strike as this script does."""

    def __init__(self, directory: Path, script: str) -> None:
        kubectl = directory / "kubectl"
        program(kubectl, script)
        self.cluster = Cluster(str(kubectl), "config", "kind-a", local=False, owned=False)
        self.namespace = "somewhere"


@pytest.mark.parametrize("end", ["exit 0", ENDED])
def test_it_is_when_the_pod_says_whether_or_not_the_command_outlived_it(tmp_path: Path, end: str) -> None:
    struck = Struck(tmp_path, f"echo 1700000000.25; echo 1700000001.5; {end}")

    assert struck.strike(POD, "container") == 1700000000.25


def test_it_is_when_it_was_asked_for_if_the_pod_could_not_say_so_any_more(tmp_path: Path) -> None:
    before = time.time()

    assert before <= Struck(tmp_path, ENDED).strike(POD, "container") <= time.time()


def test_a_pod_that_cannot_be_reached_was_not_struck(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="connection refused"):
        Struck(tmp_path, "echo 'connection refused' >&2; exit 1").strike(POD, "container")


def test_a_process_that_is_not_there_was_not_struck(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="jvm: no such process in flights-0"):
        Struck(tmp_path, "exit 0").strike(POD, "jvm")
