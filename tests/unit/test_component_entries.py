"""What a job's document says of the components of its leader: written with the claim, removed by the next, followed without an election."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.doubles.claims import claim
from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.test_components import ONE, TWO, turns
from understudy.clock import BootClock
from understudy.documents.model import Document
from understudy.election.retrieval import ComponentLeader, Retrieval
from understudy.errors import DocumentError
from understudy.ha.components import ENDPOINT, Components
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status, leader_of
from understudy.ha.job_store import JobStore
from understudy.protocol.token import Token
from understudy.supervisor.election import JobComponents, endpoint_address
from understudy.supervisor.hosts import Host


def jobs(server: MemoryServer | None = None) -> tuple[MemoryDocumentStore, JobStore]:
    store = MemoryDocumentStore(MemoryServer() if server is None else server)
    return store, JobStore(store, "flights-flights", "flights", "job.py")


def test_a_claim_writes_what_was_confirmed_in_the_same_write() -> None:
    async def run() -> None:
        documents, store = jobs()
        before = 0 if (first := await documents.read(store.name)) is None else int(first.revision)
        await claim(store, 1, "me", "host:1")
        standing = await documents.read(store.name)
        assert standing is not None
        assert int(standing.revision) == before + 1, "one write"
        assert leader_of(standing, ENDPOINT) == ComponentLeader(ONE, "me", "host:1")
        assert leader_of(standing, "job") == ComponentLeader(Token(1, 1), "me", "")

    asyncio.run(run())


def test_the_next_claim_removes_what_the_leader_before_it_had_confirmed() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        await claim(store, 2, "you", "")
        standing = await documents.read(store.name)
        assert standing is not None
        assert leader_of(standing, ENDPOINT) is None
        assert "component.endpoint" not in standing.entries

    asyncio.run(run())


def test_what_stands_under_an_earlier_epoch_counts_for_nothing() -> None:
    """An older image leads: it keeps entries that it does not know."""

    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        await store.begin_attempt(2, "you", nothing_granted, Generation())
        standing = await documents.read(store.name)
        assert standing is not None
        assert "component.endpoint" in standing.entries
        assert leader_of(standing, ENDPOINT) is None

    asyncio.run(run())


def test_a_leader_of_the_same_epoch_inherits_nothing() -> None:
    """Where a lock was restored, two replicas were granted one epoch."""

    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        standing = await documents.read(store.name)
        assert standing is not None
        job = replace(Job.of(standing), holder="you")
        assert job.leader_of(ENDPOINT) is None
        assert JobComponents("you").taken_along(job).components == Components()

    asyncio.run(run())


def test_a_job_that_has_ended_has_no_leader() -> None:
    async def run() -> None:
        documents, store = jobs()
        job = await claim(store, 1, "me", "host:1")
        await store.end(job.token, Status.FINISHED, "done")
        standing = await documents.read(store.name)
        assert leader_of(standing, ENDPOINT) is None
        assert leader_of(standing, "job") is None

    asyncio.run(run())


def test_a_restart_in_place_keeps_the_entry_of_its_grant() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        await claim(store, 1, "me", "")
        assert leader_of(await documents.read(store.name), ENDPOINT) == ComponentLeader(ONE, "me", "host:1")

    asyncio.run(run())


def test_an_entry_that_cannot_be_read_is_no_leader_and_keeps_no_job_from_running() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        standing = await documents.read(store.name)
        assert standing is not None
        damaged = replace(standing, entries={**standing.entries, "component.endpoint": "{"})
        assert Components.of(damaged) == Components()
        assert leader_of(damaged, ENDPOINT) is None

    asyncio.run(run())


def test_without_a_service_a_claim_takes_nothing_along() -> None:
    job = Job("flights", "job.py", Status.RUNNING, Token(3, 1), Token(0, 0), "me")
    assert JobComponents().taken_along(job) == job


@pytest.mark.parametrize(
    ("listens", "pod", "address"),
    [
        ("::", "10.0.0.1:8080", "10.0.0.1:9090"),
        ("", "[fd00::7]:8080", "[fd00::7]:9090"),
        ("127.0.0.1", "10.0.0.1:8080", "127.0.0.1:9090"),
        ("0.0.0.0", "", "machine:9090"),
        ("127.0.0.1", "", "127.0.0.1:9090"),
        ("::1", "", "[::1]:9090"),
    ],
)
def test_an_endpoint_is_reached_at_what_it_listens_on_or_where_its_replica_is(
    listens: str, pod: str, address: str
) -> None:
    host = Host("h", "machine", pod, None, None, None)  # type: ignore[arg-type]
    assert endpoint_address(host, listens, 9090) == address


# --- retrieval --------------------------------------------------------------------------------------------------------


def test_a_follower_hears_of_each_leader_once() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        followed = Retrieval(documents, store.name, leader_of, BootClock()).follow(ENDPOINT)
        assert await anext(followed) == ComponentLeader(ONE, "me", "host:1")
        await store.committed(Token(1, 1), 5.0)  # changes the document, and no leader
        following = asyncio.ensure_future(anext(followed))
        await turns()
        assert not following.done()
        await claim(store, 2, "you", "host:2")
        assert await following == ComponentLeader(TWO, "you", "host:2")
        await followed.aclose()

    asyncio.run(asyncio.wait_for(run(), 30.0))


class Failing(MemoryDocumentStore):
    """Reads fail while ``away``; the watch goes on."""

    away = False

    async def read(self, name: str) -> Document | None:
        if self.away:
            raise DocumentError("no answer", where=name)
        return await super().read(name)


def test_a_follower_outlives_errors_of_the_store() -> None:
    async def run() -> None:
        server = MemoryServer()
        _, store = jobs(server)
        read = Failing(server)
        await claim(store, 1, "me", "host:1")
        followed = Retrieval(read, store.name, leader_of, BootClock()).follow(ENDPOINT)
        assert await anext(followed) == ComponentLeader(ONE, "me", "host:1")
        read.away = True
        following = asyncio.ensure_future(anext(followed))
        job = await claim(store, 2, "you", "host:2")
        await turns()
        assert not following.done()
        read.away = False
        await store.committed(job.token, 5.0)  # a hint
        assert await following == ComponentLeader(TWO, "you", "host:2")
        await followed.aclose()

    asyncio.run(asyncio.wait_for(run(), 30.0))
