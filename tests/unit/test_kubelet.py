"""What of a pod's status is evidence that a leader is dead, and what is not: as a real kubelet writes it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from understudy.supervisor.kubelet import holder_id, terminated

UID, START = "3b7c5e3a-6a55-4d0f-8f0b-1f6f2a9d0c11", "5b0f2c58-6d0e-4a7e-9f3b-0b8c6f1f7a01"
HOLDER = holder_id(UID, START)

#: After SIGKILL of the container's first process, restarted in place.
RESTARTED: dict[str, Any] = {
    "metadata": {"name": "flights-6c9d", "uid": UID},
    "spec": {"containers": [{"name": "driver"}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "driver",
                "restartCount": 1,
                "state": {"running": {"startedAt": "2026-11-21T20:00:01Z"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "Error", "message": HOLDER}},
            }
        ],
    },
}


def changed(**changes: Any) -> dict[str, Any]:
    """``RESTARTED`` with ``a__b=value`` put at a, b."""
    pod = copy.deepcopy(RESTARTED)
    for path, value in changes.items():
        *parents, last = path.split("__")
        target: Any = pod
        for each in parents:
            target = target[each]
        target[last] = value
    return pod


def test_a_container_that_ended_with_this_holders_own_message_is_evidence() -> None:
    assert terminated(RESTARTED, HOLDER)


def test_it_counts_before_the_restart_too() -> None:
    ended = RESTARTED["status"]["containerStatuses"][0]["lastState"]
    assert terminated(changed(status__containerStatuses=[{"name": "driver", "state": ended, "lastState": {}}]), HOLDER)


def test_the_successor_in_the_same_container_is_not_dead() -> None:
    """Restarted in place: the report is about the one before."""
    assert not terminated(RESTARTED, holder_id(UID, "77777777-6d0e-4a7e-9f3b-0b8c6f1f7a01"))


def test_another_pod_of_the_same_name_says_nothing() -> None:
    assert not terminated(changed(metadata__uid="ffffffff-6a55-4d0f-8f0b-1f6f2a9d0c11"), HOLDER)


def test_a_kubelet_that_lost_sight_of_the_container_says_nothing() -> None:
    lost = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": HOLDER}}
    assert not terminated(changed(status__containerStatuses=[{"name": "driver", "state": lost}]), HOLDER)


@pytest.mark.parametrize("shared", ["hostPID", "shareProcessNamespace"])
def test_where_processes_outlive_their_container_its_end_is_no_evidence(shared: str) -> None:
    assert not terminated(changed(**{f"spec__{shared}": True}), HOLDER)


@pytest.mark.parametrize("message", ["", HOLDER[:-1], f"{HOLDER} and more", START])
def test_any_other_message_is_no_evidence(message: str) -> None:
    end = {"terminated": {"exitCode": 137, "reason": "Error", "message": message}}
    assert not terminated(changed(status__containerStatuses=[{"name": "driver", "lastState": end}]), HOLDER)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Unknown", "conditions": [{"type": "Ready", "status": "False", "reason": "NodeLost"}]},
        {
            "containerStatuses": [
                {"name": "driver", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
            ]
        },
    ],
)
def test_phase_conditions_and_restart_counts_are_no_evidence(status: dict[str, Any]) -> None:
    assert not terminated(changed(status=status), HOLDER)
