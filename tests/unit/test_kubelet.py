"""What of a pod's status is evidence that a leader is dead, and what is not: as a real kubelet writes it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from understudy.documents.api_server import Answer
from understudy.errors import DocumentError
from understudy.events import Log
from understudy.supervisor.kubelet import KubeletWatch, holder_id, terminated

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


class Pods:
    """What the API server answers: a list, then a watch's events; ``stored`` is what it says when asked for one pod."""

    def __init__(self, listed: list[dict[str, Any]], *events: dict[str, Any], stored: Answer | None = None) -> None:
        self._listed, self._events, self._stored = listed, events, stored

    def path(self, resource: str, name: str = "", group: str = "") -> str:
        del group
        return f"/{resource}/{name}" if name else f"/{resource}"

    async def request(self, method: str, path: str, **query: str) -> Answer:
        del query
        assert method == "GET"
        if path != "/pods":
            assert self._stored is not None
            return self._stored
        return Answer(200, {"metadata": {"resourceVersion": "1"}, "items": self._listed})

    async def watch(self, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        del path, query
        for event in self._events:
            yield event
        await asyncio.sleep(3600)


class Broken(Pods):
    """The first watch breaks with ``error``; what was missed is in the list of the next."""

    def __init__(self, error: Exception) -> None:
        super().__init__([RUNNING], stored=Answer(200, RESTARTED))
        self._error: Exception | None = error

    async def watch(self, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        if self._error is not None:
            error, self._error = self._error, None
            self._listed = [RESTARTED]
            raise error
        async for event in super().watch(path, **query):
            yield event


LEAVES = "the leader leaves"


def told(pods: Pods, *, own: str = "ours", holder: str = HOLDER, within: float = 0.2) -> tuple[list[str], list[str]]:
    """Who was reported dead, and who doomed, we with the reason, by a watch over ``pods``."""
    dead: list[str] = []
    doomed: list[str] = []

    def leaving() -> None:
        doomed.append(LEAVES)

    async def watch() -> None:
        api: Any = pods
        watching = KubeletWatch(api, "flights", own, lambda: holder, dead.append, doomed.append, leaving, Log())
        with suppress(TimeoutError):
            await asyncio.wait_for(watching.run(), within)

    asyncio.run(watch())
    return dead, doomed


RUNNING = changed(status__containerStatuses=[{"name": "driver", "state": {"running": {}}, "lastState": {}}])
GOING = changed(metadata__deletionTimestamp="2026-11-21T20:00:00Z")


def test_an_end_that_is_listed_or_watched_is_told_once() -> None:
    stored = Answer(200, RESTARTED)
    assert told(Pods([RESTARTED], stored=stored)) == ([HOLDER], [])
    modified = {"type": "MODIFIED", "object": RESTARTED}
    assert told(Pods([RUNNING], modified, modified, stored=stored)) == ([HOLDER], [])


def test_an_end_that_the_server_does_not_confirm_deposes_nobody() -> None:
    """Made up and taken back, or replayed by a watch: the pod as it is stored runs, or is another one."""
    for stored in (Answer(200, RUNNING), Answer(404, {}), Answer(403, {})):
        assert told(Pods([RESTARTED], stored=stored)) == ([], [])


def test_the_last_word_of_a_pod_that_was_deleted_counts() -> None:
    deleted = {"type": "DELETED", "object": GOING}
    assert told(Pods([RUNNING], deleted, stored=Answer(404, {}))) == ([HOLDER], [])


def test_the_deletion_of_the_own_pod_is_told_once_so_is_the_leaders_and_that_of_others_is_not() -> None:
    going = {**RUNNING, "metadata": GOING["metadata"]}
    modified = {"type": "MODIFIED", "object": going}
    for pods in (Pods([RUNNING], modified, modified), Pods([going])):
        assert told(pods, own=UID) == ([], ["the deletion of its pod"])
    for pods in (Pods([RUNNING], modified, modified), Pods([going])):
        assert told(pods) == ([], [LEAVES])
    assert told(Pods([RUNNING], modified), holder="another-pod_start") == ([], [])
    assert told(Pods([RUNNING], modified), holder="") == ([], [])
    assert told(Pods([RUNNING]), own=UID) == ([], [])


@pytest.mark.parametrize("error", [ValueError("half a line"), KeyError("object"), DocumentError("torn"), OSError()])
def test_a_watch_that_breaks_begins_again(error: Exception) -> None:
    """If a proxy sends anything else: without the kubelet's word every takeover waits for a lease."""
    assert told(Broken(error), within=1.6) == ([HOLDER], [])
