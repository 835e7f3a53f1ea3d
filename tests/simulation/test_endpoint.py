"""The endpoint of probes and metrics is a component of the replica that leads: what whole replicas write of it, and when."""

from __future__ import annotations

import asyncio
from functools import partial

from tests.simulation.world import World
from tests.simulation.written import leading, until, world
from understudy.election.retrieval import ComponentLeader
from understudy.ha.components import ENDPOINT
from understudy.ha.job import Job
from understudy.protocol.token import NONE, Token
from understudy.supervisor.election import Endpoint


def note(one: World, found: list[tuple[Token, ComponentLeader | None]], name: str) -> None:
    """The token and the endpoint of each version of the job's document, as it lands."""
    document = one.api.documents.document(name) if name == one.settings(1).names.job_document else None
    if document is not None and (job := Job.of(document)).token != NONE:
        found.append((job.token, job.leader_of(ENDPOINT)))


def test_the_claim_of_a_job_says_where_its_leader_serves_and_no_other_write_is_needed() -> None:
    found: list[tuple[Token, ComponentLeader | None]] = []

    async def script(one: World) -> None:
        one.api.documents.listeners.append(partial(note, one, found))
        pod, _ = await leading(one)
        await asyncio.sleep(100.0)
        expected = ComponentLeader(Token(1, 0), pod.holder, f"{pod.holder}:8080")
        assert {endpoint for _, endpoint in found} == {expected}, "from the first write of this token on"

    world().run(script)


def test_after_a_takeover_the_document_names_the_endpoint_of_the_new_leader_alone() -> None:
    async def script(one: World) -> None:
        first, _ = await leading(one)
        first.die()
        await until(one, lambda: any(pod.leads for pod in one.pods if pod is not first))
        second = next(pod for pod in one.pods if pod.leads)
        job = one.holds.job
        assert job is not None
        assert [(name, each.address) for name, each in job.components.known] == [(ENDPOINT, f"{second.holder}:8080")]

    world(replicas=2).run(script)


def test_a_component_that_starts_after_the_claim_is_written_under_it_once() -> None:
    async def script(one: World) -> None:
        pod, _ = await leading(one)
        assert pod.replica is not None
        late = pod.replica._components.election("late")
        late.start(Endpoint(late, "late:1"))
        await until(one, lambda: one.holds.job is not None and one.holds.job.leader_of("late") is not None)
        assert one.holds.job is not None
        assert one.holds.job.leader_of("late") == ComponentLeader(Token(1, 0), pod.holder, "late:1")
        assert one.holds.job.leader_of(ENDPOINT) is not None, "and the other one stays"

    world().run(script)


def test_a_write_under_a_grant_that_is_not_the_jobs_changes_nothing() -> None:
    async def script(one: World) -> None:
        pod, _ = await leading(one)
        assert pod.replica is not None
        before = one.api.documents.document(one.settings(1).names.job_document)
        assert not await pod.replica._components._write("late", Token(7, 0), "late:1")
        assert one.api.documents.document(one.settings(1).names.job_document) == before

    world().run(script)
