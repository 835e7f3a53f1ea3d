"""What rolls a pod out, and what follows its end; another workload with our cluster id is noticed by its leader's renewals, and
by nothing less.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp import web

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.answering import served
from tests.unit.election_builders import virtually
from understudy.election.state import ElectionView, Role
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.protocol.token import Token
from understudy.supervisor.ended import conflict_with
from understudy.supervisor.inputs import ConflictingRun, ConflictingWorkload
from understudy.supervisor.workload import AfterExit, Rollout, find_conflicting_workload

FREE = ElectionView(Role.STANDBY, None, 0, 0, False, None, "", "", 0.0, "r0", "", None, None)
THEIRS = replace(FREE, leader="them", workload="other/uid", revision="r1")


def watched(*views: ElectionView) -> str | None:
    """What is found when one of ``views`` after the other is seen, and the last one from then on."""

    async def run() -> str | None:
        left = list(views)

        def look() -> ElectionView:
            return left.pop(0) if len(left) > 1 else left[0]

        try:
            return await asyncio.wait_for(find_conflicting_workload(look, "ours/uid", 1.0), 60)
        except TimeoutError:
            return None

    return virtually(run())


def test_a_leader_of_another_workload_that_renews_is_an_find_conflicting_workload() -> None:
    assert watched(THEIRS, replace(THEIRS, revision="r2")) == "other/uid"


def test_one_that_does_not_renew_may_be_dead_and_its_job_is_adopted() -> None:
    assert watched(THEIRS) is None
    assert watched(THEIRS, FREE) is None


def test_our_own_leader_and_one_whose_workload_is_not_known_are_none() -> None:
    for workload in ("ours/uid", ""):
        known = replace(THEIRS, workload=workload)
        assert watched(known, replace(known, revision="r2")) is None


def rollout_of(pod: Mapping[str, Any], **others: Mapping[str, Any]) -> Rollout:
    """Of a pod ``flights-1``, as an API server tells it; ``others`` by resource."""
    objects = {"pods": pod, **others}

    async def handler(request: web.Request) -> web.Response:
        found = objects.get(request.path.split("/")[-2])
        return web.json_response({"reason": "Forbidden"}, status=403) if found is None else web.json_response(found)

    async def ask(api: Any) -> object:
        return await Rollout.of(api, "flights-1", Log(stream=io.StringIO()))

    return cast(Rollout, asyncio.run(served(handler, ask)))


def pod_of(kind: str, name: str, restart: str) -> dict[str, Any]:
    owners = [{"kind": kind, "name": name, "uid": "u-1", "controller": True}] if kind else []
    spec = {"restartPolicy": restart, "containers": [{"image": "flights:1"}]}
    return {"metadata": {"ownerReferences": owners}, "spec": spec}


def test_a_deployments_pod_is_told_by_its_revision_and_started_again_after_its_end() -> None:
    owner = {"kind": "Deployment", "name": "flights", "uid": "d-1", "controller": True}
    annotations = {"deployment.kubernetes.io/revision": "7"}
    made = rollout_of(
        pod_of("ReplicaSet", "flights-6c9d", "Always"),
        replicasets={"metadata": {"ownerReferences": [owner], "annotations": annotations}},
    )
    assert (made.workload, made.revision, made.after_exit) == ("flights/d-1", 7, AfterExit.RESTART)


@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_a_jobs_pod_is_told_by_its_job_which_takes_its_exit_code_for_the_result(restart: str) -> None:
    """And without a right that others than its own pod's reading need."""
    made = rollout_of(pod_of("Job", "flights-29400120", restart))
    assert (made.workload, made.revision, made.after_exit) == ("flights-29400120/u-1", 0, AfterExit.COUNTED)


@pytest.mark.parametrize(
    ("kind", "restart", "after"),
    [("", "Never", AfterExit.NOTHING), ("", "Always", AfterExit.RESTART), ("StatefulSet", "Always", AfterExit.RESTART)],
)
def test_another_pod_has_no_workload_that_could_conflict(kind: str, restart: str, after: AfterExit) -> None:
    made = rollout_of(pod_of(kind, "flights", restart))
    assert (made.workload, made.revision, made.after_exit) == ("", 0, after)


def conflict(status: Status, led: str, ours: str) -> ConflictingWorkload | ConflictingRun | None:
    """What a replica of run ``ours`` finds while the leader of run ``led``, which another workload has made, renews once a second."""

    async def run() -> ConflictingWorkload | ConflictingRun | None:
        jobs = JobStore(MemoryDocumentStore(MemoryServer()), "t-t", "t", "job.py")
        await jobs.begin_attempt(1, "them", nothing_granted, Generation(), run=led)
        if status is not Status.RUNNING:
            await jobs.end(Token(1, 1), status, "")
        looks = 0

        def look() -> ElectionView:
            nonlocal looks
            looks += 1
            return replace(THEIRS, revision=f"r{looks}")

        try:
            return await asyncio.wait_for(conflict_with(jobs, ours, look, "ours/uid", 1.0), 60)
        except TimeoutError:
            return None

    return virtually(run())


def test_two_jobs_at_once_are_told_by_their_runs() -> None:
    assert conflict(Status.RUNNING, "uid-1", "uid-2") == ConflictingRun("uid-1")


def test_a_deployment_and_a_job_at_once_are_told_by_their_names() -> None:
    assert conflict(Status.RUNNING, "", "uid-2") == ConflictingWorkload("other/uid")
    assert conflict(Status.RUNNING, "uid-1", "") == ConflictingWorkload("other/uid")


def test_a_leader_whose_run_has_ended_is_no_conflict_for_the_next_one() -> None:
    assert conflict(Status.FINISHED, "uid-1", "uid-2") is None
