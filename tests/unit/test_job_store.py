"""The job's document: tokens checked on every write, nothing started over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents import codec
from understudy.documents.model import Content, Document, Written
from understudy.election.records import GRANT
from understudy.errors import DocumentEmptied, DocumentUnreadable, IdentityConflict, LeadershipLost
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore, MinEpoch
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.names import Names
from understudy.protocol.token import Token

NAME, CODE = "flights-flights", Generation(1, "c0de")


def with_store(check: Callable[[MemoryDocumentStore, JobStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await check(store, JobStore(store, NAME, "flights", "flights.py"))

    asyncio.run(run())


def known(epoch: int) -> MinEpoch:
    async def min_epoch() -> int:
        return epoch

    return min_epoch


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


def test_foreign_entries_survive() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        job = await jobs.begin_attempt(1, "a", known(0), CODE)
        seen = await store.read(NAME)
        assert seen is not None
        await store.replace(seen, Content({"theirs": "kept"}))
        await jobs.failed_once(job.token, 10.0, 100.0, "died")
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


async def record(store: MemoryDocumentStore) -> tuple[Document, dict[str, object]]:
    document = await store.read(NAME)
    assert document is not None
    return document, codec.decode("job", document.entries["job"])[1]


async def rewritten(store: MemoryDocumentStore, generation: dict[str, object] | None = None, **fields: object) -> None:
    """The record as a newer release would leave it."""
    document, body = await record(store)
    assert isinstance(body["generation"], dict)
    body |= {**fields, "generation": {**body["generation"], **(generation or {})}}
    sent = Content({"job": codec.encode("job", 1, body)}, document.leader)
    assert isinstance(await store.replace(document, sent), Written)


def test_what_a_newer_release_put_into_the_record_survives_our_writes() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await rewritten(store, savepoint={"number": 3}, generation={"image": "flights:2"})
        await jobs.serving(token, 10.0)
        await jobs.failed_once(token, 11.0, 60.0, "died")
        _, body = await record(store)
        assert body["savepoint"] == {"number": 3}
        assert body["generation"] == {"number": 1, "digest": "c0de", "workload": "", "image": "flights:2"}
        await jobs.begin_attempt(2, "b", known(1), Generation(2, "new"))
        _, body = await record(store)
        assert body["savepoint"] == {"number": 3}
        assert body["generation"] == {"number": 2, "digest": "new", "workload": ""}

    with_store(check)


def test_a_status_of_a_newer_release_is_shown_and_neither_led_nor_changed() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await rewritten(store, status="REBALANCING")
        before = store.server.stored[NAME]
        job = await jobs.read()
        assert job is not None
        assert (job.status.value, job.status.known, job.status.terminal) == ("REBALANCING", False, False)
        for write in (
            jobs.begin_attempt(2, "b", known(1), CODE),
            jobs.end(token, Status.FINISHED, ""),
            jobs.committed(token, 1.0),
            jobs.resume(),
        ):
            with pytest.raises(DocumentUnreadable, match="status is 'REBALANCING', which this release does not know"):
                await write
        assert store.server.stored[NAME] == before

    with_store(check)


def test_an_empty_status_is_no_status() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        await jobs.begin_attempt(1, "a", known(0), CODE)
        await rewritten(store, status="")
        with pytest.raises(DocumentUnreadable, match="has one amiss"):
            await jobs.read()

    with_store(check)


def test_two_cluster_ids_whose_documents_have_one_name_are_told_apart() -> None:
    """``a`` with ``b-c`` and ``a-b`` with ``c``; ``a`` with ``b-lock`` or ``b-replicas``, and ``a-b``'s own documents."""

    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await JobStore(store, Names("a", "b-c").job_document, "b-c", "x.py").begin_attempt(1, "h", known(0), CODE)
        with pytest.raises(IdentityConflict, match="holds job 'b-c' of another cluster id, not 'c'"):
            await JobStore(store, Names("a-b", "c").job_document, "c", "y.py").begin_attempt(1, "i", known(0), CODE)

        await ReplicaStore(store, Names("a-b", "c").replicas).join("c")
        late = JobStore(store, Names("a", "b-replicas").job_document, "b-replicas", "x.py")
        for ask in (late.read(), late.begin_attempt(1, "h", known(0), CODE)):
            with pytest.raises(IdentityConflict, match="a replicas' document of another cluster id"):
                await ask

        await JobStore(store, Names("d", "e-replicas").job_document, "e-replicas", "x.py").begin_attempt(
            1, "h", known(0), CODE
        )
        with pytest.raises(IdentityConflict, match="a job's document of another cluster id"):
            await ReplicaStore(store, Names("d-e", "f").replicas).join("f")

        lock = await store.create(Names("g-h", "i").lock, Content({GRANT: "…"}))
        assert isinstance(lock, Written)
        with pytest.raises(IdentityConflict, match="a lock of another cluster id"):
            await JobStore(store, Names("g", "h-lock").job_document, "h-lock", "x.py").read()

    asyncio.run(run())


def test_roots_are_kept_of_the_newest_two_tokens_that_claimed_any() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        async def attempt(epoch: int, *claims: tuple[str, ...]) -> tuple[str, ...]:
            token = (await jobs.begin_attempt(epoch, "a", known(0), CODE)).token
            for roots in claims:
                await jobs.claims(token, roots)
            job = await jobs.read()
            assert job is not None
            return job.roots

        assert await attempt(1, ("/old",), ("/first", "/old")) == ("/first", "/old")
        assert await attempt(1, ("/first",)) == ("/first", "/old")
        assert await attempt(2) == ("/first", "/old"), "a claim of nothing makes nothing drop out"
        assert await attempt(3, ("/first",), ("/first", "/second")) == ("/first", "/second")
        assert await attempt(4, ()) == ("/first", "/second")

    with_store(check)


def test_roots_an_older_image_lists_count_as_claimed_under_its_token() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        document = await store.read(jobs.name)
        assert document is not None
        _, body = codec.decode("job", document.entries["job"])
        older = codec.encode("job", 1, {**body, "roots": ["/a", "/b"]})
        assert isinstance(await store.replace(document, Content({"job": older, "roots": None})), Written)
        job = await jobs.read()
        assert job is not None
        assert (job.roots, job.claimed.by_token) == (("/a", "/b"), ((int(token), ("/a", "/b")),))
        await jobs.begin_attempt(2, "a", known(1), CODE)
        await jobs.claims(Token(2, 1), ("/a",))
        assert (await jobs.begin_attempt(3, "a", known(2), CODE)).roots == ("/a", "/b")
        assert (await jobs.claims(Token(3, 1), ("/a",))).roots == ("/a",)

    with_store(check)


def test_a_generation_whose_script_has_not_come_up_keeps_no_earlier_one_from_leading() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        good, bad = Generation(1, "good"), Generation(2, "bad")
        first = await jobs.begin_attempt(1, "a", known(0), good, came_up=False)
        assert first.generation == good, "the first there ever is gives way to none"
        failing = await jobs.begin_attempt(2, "b", known(1), bad, came_up=False)
        assert failing.generation == good
        again = await jobs.begin_attempt(3, "a", known(2), good)
        assert (again.token, again.generation) == (Token(3, 1), good)
        late = await jobs.begin_attempt(4, "b", known(3), bad, came_up=False)
        await jobs.led(late.token, bad)
        with pytest.raises(Superseded):
            await jobs.begin_attempt(5, "a", known(4), good)

    with_store(check)


def test_the_record_tells_under_which_token_a_root_was_claimed_last() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        for epoch, roots in ((1, ("/a", "/b")), (2, ("/a",))):
            token = (await jobs.begin_attempt(epoch, "a", known(0), CODE)).token
            await jobs.claims(token, roots)
        job = await jobs.begin_attempt(3, "a", known(0), CODE)
        assert job.claimed.tokens == {"/a": int(Token(2, 1)), "/b": int(Token(1, 1))}

    with_store(check)


def test_of_what_an_older_image_lists_it_is_only_known_that_it_was_claimed() -> None:
    """The older image may have died between its start and its claims: the token it ran under need not stand there."""

    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        await jobs.begin_attempt(1, "a", known(0), CODE)
        document = await store.read(jobs.name)
        assert document is not None
        _, body = codec.decode("job", document.entries["job"])
        older = codec.encode("job", 1, {**body, "roots": ["/a", "/b"]})
        assert isinstance(await store.replace(document, Content({"job": older, "roots": None})), Written)
        job = await jobs.begin_attempt(2, "a", known(0), CODE)
        assert job.claimed.tokens == {"/a": 0, "/b": 0}
        await jobs.claims(job.token, ("/a",))
        again = await jobs.read()
        assert again is not None
        assert again.claimed.tokens == {"/a": int(job.token), "/b": 0}

    with_store(check)


def test_an_accepted_root_is_no_longer_recorded() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        for epoch in (1, 2):
            token = (await jobs.begin_attempt(epoch, "a", known(0), CODE)).token
            await jobs.claims(token, ("/a", "/b"))
        await jobs.resume(("/a",))
        job = await jobs.begin_attempt(3, "a", known(0), CODE)
        assert (job.roots, job.claimed.tokens, job.status) == (("/b",), {"/b": int(Token(2, 1))}, Status.RUNNING)

    with_store(check)
