"""The job's document: tokens checked on every write, nothing started over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from understudy.documents.memory import MemoryDocumentStore, MemoryServer
from understudy.documents.model import Content
from understudy.errors import DocumentEmptied, IdentityConflict, LeadershipLost
from understudy.fencing.token import Token
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job import Floor, JobStore, Status
from understudy.ha.replicas import Replica, ReplicaStore

NAME = "flights-flights"
CODE = Generation(1, "c0de")


def with_store(check: Callable[[MemoryDocumentStore, JobStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await check(store, JobStore(store, NAME, "flights", "flights.py"))

    asyncio.run(run())


def known(epoch: int) -> Floor:
    async def floor() -> int:
        return epoch

    return floor


def test_each_start_under_one_epoch_is_one_attempt_more() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        tokens = [(await jobs.begin_attempt(epoch, "a", known(0), CODE)).token for epoch in (1, 1, 1, 2, 2)]
        assert tokens == [Token(1, 1), Token(1, 2), Token(1, 3), Token(2, 1), Token(2, 2)]

    with_store(check)


def test_a_document_restored_from_a_backup_repeats_no_attempt() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        first = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        backup = store.server.stored[NAME][1]
        second = (await jobs.begin_attempt(2, "a", known(1), CODE, first)).token
        third = (await jobs.begin_attempt(2, "a", known(1), CODE, second)).token
        store.server.overwrite(NAME, backup)
        again = (await jobs.begin_attempt(2, "a", known(1), CODE, third)).token
        assert [second, third, again] == [Token(2, 1), Token(2, 2), Token(2, 3)]

    with_store(check)


def test_a_lower_epoch_begins_nothing() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        await jobs.begin_attempt(5, "a", known(0), CODE)
        with pytest.raises(LeadershipLost, match=r"under token 5\.1"):
            await jobs.begin_attempt(4, "b", known(5), CODE)

    with_store(check)


def test_a_predecessor_in_the_same_epoch_ends_nothing() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        old = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await jobs.begin_attempt(1, "a", known(1), CODE)
        with pytest.raises(LeadershipLost):
            await jobs.end(old, Status.FINISHED, "")

    with_store(check)


def test_a_finished_job_begins_no_further_attempt() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await jobs.end(token, Status.FINISHED, "the script ended")
        again = await jobs.begin_attempt(2, "b", known(1), CODE)
        assert (again.status, again.token) == (Status.FINISHED, token)

    with_store(check)


def test_a_failed_job_that_is_resumed_runs_under_higher_tokens_with_all_of_its_restarts() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(3, "a", known(0), CODE)).token
        await jobs.claims(token, ("checkpoint",))
        await jobs.failed_once(token, 10.0, 100.0, "died")
        await jobs.end(token, Status.FAILED, "too often")
        assert (await jobs.begin_attempt(4, "b", known(3), CODE)).status is Status.FAILED
        assert (await jobs.resume()).reason == "too often"
        resumed = await jobs.read()
        assert resumed is not None
        assert (resumed.status, resumed.failures, resumed.roots) == (Status.RUNNING, (), ("checkpoint",))
        with pytest.raises(LeadershipLost):
            await jobs.begin_attempt(2, "b", known(3), CODE)
        again = await jobs.begin_attempt(4, "b", known(3), CODE)
        assert (again.status, again.token) == (Status.RUNNING, Token(4, 1))

    with_store(check)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.FINISHED])
def test_no_other_job_is_resumed(status: Status) -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await jobs.failed_once(token, 10.0, 100.0, "died")
        before = await jobs.end(token, status, "")
        assert await jobs.resume() == before == await jobs.read()

    with_store(check)


def test_a_job_whose_document_is_gone_is_not_resumed() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        with pytest.raises(DocumentEmptied):
            await jobs.resume()

    with_store(check)


def test_a_failed_that_is_sent_once_more_does_not_undo_a_resume() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await jobs.failed_once(token, 10.0, 100.0, "died")
        await jobs.end(token, Status.FAILED, "too often")
        await jobs.resume()
        assert (await jobs.end(token, Status.FAILED, "too often")).status is Status.RUNNING

    with_store(check)


def test_a_missing_document_is_a_new_job_only_while_nothing_was_ever_granted() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        with pytest.raises(DocumentEmptied):
            await jobs.begin_attempt(8, "a", known(7), CODE)

    with_store(check)


def test_an_emptied_document_is_not_started_over() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        await jobs.begin_attempt(1, "a", known(0), CODE)
        seen = await store.read(NAME)
        assert seen is not None
        await store.replace(seen, Content({"job": None}))
        with pytest.raises(DocumentEmptied):
            await jobs.begin_attempt(2, "a", known(1), CODE)
        with pytest.raises(DocumentEmptied):
            await jobs.read()

    with_store(check)


def test_foreign_entries_survive_and_old_failures_are_forgotten() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        seen = await store.read(NAME)
        assert seen is not None
        await store.replace(seen, Content({"theirs": "kept"}))
        for now in (10.0, 50.0):
            await jobs.failed_once(token, now, 100.0, "died")
        job = await jobs.failed_once(token, 130.0, 100.0, "died")
        assert job.failures == (50.0, 130.0)
        current = await store.read(NAME)
        assert current is not None
        assert current.entries["theirs"] == "kept"

    with_store(check)


def test_that_a_job_has_begun_outlives_its_document_and_everybody_who_led_it() -> None:
    def replica(role: str) -> Replica:
        return Replica("a", role, False, "", 0, 0.0, "", "", 1, 1, "a", 0, "", 0.0)

    async def run() -> None:
        replicas = ReplicaStore(MemoryDocumentStore(MemoryServer()), "flights-replicas")
        await replicas.join("flights")
        await replicas.publish(replica("standby"))
        assert not await replicas.begun()
        await replicas.publish(replica("leader"))
        await replicas.leave("a")
        assert await replicas.begun()
        assert await replicas.job() == "flights"

    asyncio.run(run())


def test_a_cluster_id_belongs_to_one_job_for_ever() -> None:
    async def run() -> None:
        replicas = ReplicaStore(MemoryDocumentStore(MemoryServer()), "flights-replicas")
        await replicas.join("flights")
        await replicas.join("flights")
        with pytest.raises(IdentityConflict, match="belongs to job 'flights'"):
            await replicas.join("trains")

    asyncio.run(run())


def test_once_a_newer_generation_has_led_an_older_one_never_does() -> None:
    old, new = Generation(1, "one", "flights/uid"), Generation(2, "two", "flights/uid")

    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        await jobs.begin_attempt(1, "a", known(0), old)
        await jobs.begin_attempt(2, "b", known(1), new)
        with pytest.raises(Superseded, match="generation 2 .two. has led, and this is 1 .one."):
            await jobs.begin_attempt(3, "a", known(2), old)
        standing = await jobs.read()
        assert standing is not None
        assert (standing.token, standing.generation) == (Token(2, 1), new)
        rolled_back = Generation(3, "one", "flights/uid")
        assert (await jobs.begin_attempt(3, "a", known(2), rolled_back)).generation == rolled_back

    with_store(check)


def test_a_deployment_made_again_counts_from_one_and_adopts_the_job() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        await jobs.begin_attempt(1, "a", known(0), Generation(7, "seven", "flights/old"))
        assert (await jobs.begin_attempt(2, "b", known(1), Generation(1, "one", "flights/new"))).token == Token(2, 1)

    with_store(check)


def test_where_nobody_counts_another_digest_is_one_above_the_one_that_led() -> None:
    standing = Generation(4, "four")
    assert Generation(0, "four").numbered(standing) == standing
    assert Generation(0, "five").numbered(standing) == Generation(5, "five")
    assert Generation(2, "two", "flights/uid").numbered(standing) == Generation(2, "two", "flights/uid")
