"""When a signal reached a pod that can only be reached through kubectl, which is a script here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2e.harness.deployment_under_test import Failed
from e2e.harness.faults import FaultInjector
from e2e.harness.kubectl import Cluster
from e2e.harness.kubectl import Failed as Refused
from testkit.programs import program

POD = {"metadata": {"name": "flights-0", "labels": {}}}
ENDED = "echo 'command terminated with exit code 137' >&2; exit 137"


class OutOfReach(FaultInjector):
    """Somewhere else, where kubectl answers as this script does."""

    def __init__(self, directory: Path, script: str) -> None:
        kubectl = directory / "kubectl"
        program(kubectl, script)
        self.cluster = Cluster(str(kubectl), "config", "kind-a", local=False, owned=False)
        self.namespace = "somewhere"


@pytest.mark.parametrize("end", ["exit 0", ENDED])
def test_it_is_when_the_pod_says_whether_or_not_the_command_outlived_it(tmp_path: Path, end: str) -> None:
    victim = OutOfReach(tmp_path, f"echo 1700000000.25; echo 1700000001.5; {end}")

    assert victim.send_signal(POD, "container") == 1700000000.25


def test_it_is_when_it_was_asked_for_if_the_pod_could_not_say_so_any_more(tmp_path: Path) -> None:
    before = time.time()

    assert before <= OutOfReach(tmp_path, ENDED).send_signal(POD, "container") <= time.time()


def test_a_pod_that_cannot_be_reached_gets_no_signal(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="connection refused"):
        OutOfReach(tmp_path, "echo 'connection refused' >&2; exit 1").send_signal(POD, "container")


def test_a_process_that_is_not_there_gets_no_signal(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="jvm: no such process in flights-0"):
        OutOfReach(tmp_path, "exit 0").send_signal(POD, "jvm")
