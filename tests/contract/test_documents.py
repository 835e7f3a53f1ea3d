"""What every backend promises; ``e2e/tests/test_documents.py`` runs it against an API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.contract.backends import Backend
from understudy.documents.model import (
    Conflict,
    Content,
    Document,
    DocumentStore,
    LeaderRecord,
    Outcome,
    Unknown,
    Written,
)
from understudy.documents.settle import shell
from understudy.errors import DocumentError, DocumentUnreadable
from understudy.protocol.names import BURIED

NAME = "flights-lock"
LEADER = LeaderRecord("holder-1", 15.0, "2013-01-01T00:00:00.000000Z", "2013-01-01T00:00:05.000000Z", 3)


def written(outcome: Outcome) -> Document:
    match outcome:
        case Written(document):
            return document
        case Conflict() | Unknown():
            raise AssertionError(outcome)


async def standing(store: DocumentStore, name: str = NAME) -> Document:
    document = await store.read(name)
    assert document is not None
    return document


# compare-and-set


def test_what_was_written_is_what_is_read(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        content = Content({"grant": "{}", "umlaut": "ü→"}, LEADER, {"understudy.dev/is": "lock"})
        document = written(await store.create(NAME, content))
        assert document.entries == content.entries
        assert document.leader == LEADER
        assert document.labels == content.labels
        assert await backend.client().read(NAME) == document

    asyncio.run(run())


def test_a_document_nobody_made_is_none(backend: Backend) -> None:
    async def run() -> None:
        assert await backend.client().read(NAME) is None
        await backend.client().create(f"{NAME}-2", Content({"a": "b"}))
        assert await backend.client().read(NAME) is None

    asyncio.run(run())


def test_a_second_create_is_a_conflict_with_the_first(backend: Backend) -> None:
    async def run() -> None:
        first = written(await backend.client().create(NAME, Content({"by": "first"})))
        assert await backend.client().create(NAME, Content({"by": "second"})) == Conflict(first)
        assert await backend.client().read(NAME) == first

    asyncio.run(run())


def test_a_write_on_an_old_revision_is_a_conflict_and_changes_nothing(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        old = written(await store.create(NAME, Content({"by": "first"})))
        new = written(await backend.client().replace(old, Content({"by": "second"})))
        assert new.revision != old.revision
        assert await store.replace(old, Content({"by": "third"})) == Conflict(new)
        assert await store.bury(old) == Conflict(new)
        assert await store.read(NAME) == new

    asyncio.run(run())


def test_equal_content_is_a_new_revision(backend: Backend) -> None:
    """A renewal that changes nothing must still be seen as a change."""

    async def run() -> None:
        store = backend.client()
        first = written(await store.create(NAME, Content({"a": "b"})))
        second = written(await store.replace(first, Content({"a": "b"})))
        assert second.revision != first.revision
        assert await store.replace(first, Content({"a": "b"})) == Conflict(second)

    asyncio.run(run())


def test_a_write_on_a_deleted_document_is_a_conflict_with_nothing(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        seen = written(await store.create(NAME, Content({"a": "b"})))
        backend.remove(NAME)
        assert await store.replace(seen, Content({"a": "c"})) == Conflict(None)
        assert await store.read(NAME) is None

    asyncio.run(run())


def test_of_sixteen_racing_processes_one_wins_each_revision_and_no_update_is_lost(backend: Backend) -> None:
    writers, rounds = 16, 3
    wins = backend.race(NAME, writers, rounds)
    assert sorted(win.value for win in wins) == list(range(1, writers * rounds + 1))
    assert max(Counter(win.revision for win in wins).values()) == 1
    final = asyncio.run(standing(backend.client()))
    assert final.entries == {"count": str(writers * rounds), **{f"writer-{i}": str(rounds) for i in range(writers)}}


# what others put there


def test_foreign_entries_and_labels_survive_every_write(backend: Backend) -> None:
    async def run() -> None:
        other = backend.client()
        document = written(await other.create(NAME, Content({"theirs": "1"}, LEADER, {"app": "flights"})))
        document = written(await backend.client().replace(document, Content({"ours": "1"}, LEADER, {"ours": "yes"})))
        document = written(await backend.client().replace(document, Content({"ours": None}, None, {"ours": None})))
        assert document.entries == {"theirs": "1"}
        assert document.labels == {"app": "flights"}
        assert document.leader is None
        tombstone = written(await backend.client().bury(document))
        assert tombstone.entries == {"theirs": "1"}
        assert tombstone.labels == {"app": "flights", BURIED: "true"}

    asyncio.run(run())


def test_the_leader_record_is_written_as_it_stands(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        document = written(await store.create(NAME, Content({"a": "b"}, LEADER)))
        assert written(await store.replace(document, Content({"a": "c"}))).leader is None

    asyncio.run(run())


def test_an_unreadable_value_that_names_no_revision_cannot_be_replaced() -> None:
    error = DocumentUnreadable("rubbish", where=NAME)
    with pytest.raises(DocumentUnreadable) as caught:
        shell(error, NAME)
    assert caught.value is error


# tombstones


def test_a_tombstone_keeps_what_stood_there_and_revisions_go_on(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        alive = written(await store.create(NAME, Content({"token": "7"}, LEADER)))
        tombstone = written(await store.bury(alive))
        assert tombstone.buried
        assert not alive.buried
        assert (tombstone.entries, tombstone.leader) == (alive.entries, alive.leader)
        assert await store.read(NAME) == tombstone
        assert await store.replace(alive, Content({"token": "8"})) == Conflict(tombstone)

    asyncio.run(run())


def test_a_tombstone_is_not_free_for_a_create(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        tombstone = written(await store.bury(written(await store.create(NAME, Content({"token": "7"})))))
        assert await store.create(NAME, Content({"token": "1"})) == Conflict(tombstone)

    asyncio.run(run())


def test_a_write_on_the_tombstone_makes_it_a_document_again_with_a_revision_never_seen(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        revisions = [written(await store.create(NAME, Content({"a": "1"}, None, {"keep": "me"})))]
        for _ in range(3):
            revisions.append(written(await store.bury(revisions[-1])))
            revisions.append(written(await store.replace(revisions[-1], Content({"a": "1"}))))
        assert not revisions[-1].buried
        assert revisions[-1].labels == {"keep": "me"}
        assert len({document.revision for document in revisions}) == len(revisions)

    asyncio.run(run())


# sizes and names


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "../a", "a@1", ".a", "a b", "ä", "a" * 254])
def test_what_is_no_name_is_refused(backend: Backend, name: str) -> None:
    async def run() -> None:
        store = backend.client()
        with pytest.raises(DocumentError):
            await store.read(name)
        with pytest.raises(DocumentError):
            await store.create(name, Content())
        with pytest.raises(DocumentError):
            await store.replace(Document(name, {}, None, {}, "1"), Content())

    asyncio.run(run())


def test_names_that_begin_alike_are_different_documents(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        names = ["a", "a-1", "a.1", "a1"]
        for name in names:
            written(await store.create(name, Content({"is": name})))
        assert [(await standing(store, name)).entries["is"] for name in names] == names

    asyncio.run(run())


# no answer


def test_reading_without_an_answer_is_an_error_and_never_none(backend: Backend) -> None:
    async def run() -> None:
        with pytest.raises(DocumentError) as caught:
            await backend.cut_off().read(NAME)
        assert not isinstance(caught.value, DocumentUnreadable)

    asyncio.run(run())


def test_writing_without_an_answer_is_unknown(backend: Backend) -> None:
    async def run() -> None:
        assert isinstance(await backend.cut_off().create(NAME, Content()), Unknown)

    asyncio.run(run())


# hints


@asynccontextmanager
async def watching(backend: Backend) -> AsyncIterator[AsyncIterator[Document | None]]:
    watch = aiter(backend.client().watch(NAME))
    try:
        async with asyncio.timeout(60):
            yield watch
    finally:
        await watch.aclose()  # type: ignore[attr-defined]


def test_a_watcher_is_told_what_stands_there_and_what_changes(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        async with watching(backend) as watch:
            assert await anext(watch) is None
            first = written(await store.create(NAME, Content({"a": "1"})))
            assert await anext(watch) == first
            second = written(await store.replace(first, Content({"a": "1"})))
            assert await anext(watch) == second
            backend.remove(NAME)
            assert await anext(watch) is None

    asyncio.run(run())


def test_a_watcher_that_takes_its_time_is_told_the_last_and_never_an_older_one_after_it(backend: Backend) -> None:
    """As Flink's ``KubernetesSharedInformerITCase.testWatchWithBlockHandler`` asks it. What lies between may be left out."""

    async def run() -> None:
        store = backend.client()
        document = written(await store.create(NAME, Content({"n": "0"})))
        told = [document]
        async with watching(backend) as watch:
            assert await anext(watch) == document
            for n in range(1, 13):
                document = written(await store.replace(document, Content({"n": str(n)})))
                if n % 4 == 0:
                    told.append(await seen_by(watch))
                    await asyncio.sleep(0.05)
            while told[-1] != document:
                told.append(await seen_by(watch))
        numbers = [int(each.entries["n"]) for each in told]
        assert numbers == sorted(set(numbers))

    asyncio.run(run())


async def seen_by(watch: AsyncIterator[Document | None]) -> Document:
    document = await anext(watch)
    assert document is not None
    return document


def test_a_watcher_is_not_told_of_documents_whose_names_begin_alike(backend: Backend) -> None:
    """Flink asks it of znodes (``ZooKeeperUtilsTreeCacheTest.testCallbackNotCalledOnCreationOfSimilarPaths``)."""

    async def run() -> None:
        store = backend.client()
        async with watching(backend) as watch:
            assert await anext(watch) is None
            for other in (f"{NAME}-2", NAME[:-1]):
                written(await store.create(other, Content({"a": "2"})))
            document = written(await store.create(NAME, Content({"a": "1"})))
            assert await anext(watch) == document

    asyncio.run(run())
