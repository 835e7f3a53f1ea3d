"""What every backend promises."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.backends import BACKENDS, Backend, make
from understudy.documents.memory import Fault
from understudy.documents.model import (
    BURIED,
    LIMIT,
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
from understudy.errors import DocumentError, DocumentTooLarge, DocumentUnreadable
from understudy.events import Event, Log

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
        content = Content({"grant": "{}", "ümlaut": "→\u0000\ud83d"}, LEADER, {"understudy.dev/is": "lock"})
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
    racers, rounds = 16, 3
    wins = backend.race(NAME, racers, rounds)
    assert sorted(win.value for win in wins) == list(range(1, racers * rounds + 1))
    assert max(Counter(win.revision for win in wins).values()) == 1
    final = asyncio.run(standing(backend.client()))
    assert final.entries == {"count": str(racers * rounds), **{f"racer-{i}": str(rounds) for i in range(racers)}}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["read", "create", "replace", "bury", "lose", "lose-answer"])),
        max_size=25,
    )
)
@pytest.mark.parametrize("kind", BACKENDS)
def test_three_clients_see_one_history(  # noqa: C901 - one story
    kind: str, moves: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against a model: a number that grows with every write that counts, and what each client saw last."""

    async def run() -> None:  # noqa: C901 - one story
        backend = make(kind, tmp_path_factory.mktemp("documents"))
        clients = [backend.client() for _ in range(3)]
        seen: list[Document | None] = [None, None, None]
        saw = [0, 0, 0]
        history = 0
        buried = False
        for step, (who, move) in enumerate(moves):
            content = Content({"step": str(step)})
            before = seen[who]
            store = clients[who]
            if move == "lose":
                store = backend.client(Fault.LOST_REQUEST)
            if move == "lose-answer":
                store = backend.client(Fault.LOST_ANSWER)
            if move == "read":
                seen[who], saw[who] = await store.read(NAME), history
                assert (seen[who] is None) == (history == 0)
                assert seen[who] is None or seen[who].buried == buried  # type: ignore[union-attr]
                continue
            if move == "create" or before is None:
                outcome, fits = await store.create(NAME, content), history == 0
            elif move == "bury":
                outcome, fits = await store.bury(before), saw[who] == history
            else:
                outcome, fits = await store.replace(before, content), saw[who] == history
            match outcome:
                case Written(document):
                    assert fits
                    assert move not in {"lose", "lose-answer"}
                    history += 1
                    buried = move == "bury" and before is not None
                    seen[who], saw[who] = document, history
                case Conflict(current):
                    assert not fits
                    assert current == await store.read(NAME)
                case Unknown():
                    assert move in {"lose", "lose-answer"}
                    if fits and move == "lose-answer":
                        history += 1
                        buried = False

    asyncio.run(run())


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


def test_unknown_fields_of_the_stored_json_survive_every_write(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        written(await store.create(NAME, Content({"a": "b"})))
        stored = {**json.loads(backend.stored(NAME)), "x-operator": {"ticket": [1, 2]}}
        backend.plant(NAME, json.dumps(stored, indent=2).encode())
        document = await standing(store)
        document = written(await store.replace(document, Content({"a": "c"}, LEADER)))
        document = written(await store.bury(document))
        written(await store.replace(document, Content({"a": "d"})))
        assert json.loads(backend.stored(NAME))["x-operator"] == {"ticket": [1, 2]}

    asyncio.run(run())


def test_the_leader_record_is_written_as_it_stands(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        document = written(await store.create(NAME, Content({"a": "b"}, LEADER)))
        assert written(await store.replace(document, Content({"a": "c"}))).leader is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", r"empty \(0 bytes\)"),
        (b" \n", r"empty \(2 bytes\)"),
        (b"\0" * 512, "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"version":1,"version":1,"checksum":""}', "a key occurs twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "not one of ours"),
        (b"{}", "not one of ours"),
        (b'{"version":1,"checksum":"0123456789abcdef"}', "checksum"),
        (b'{"version":1,"checksum":"0123456789abcdef","entries":1e400}', "checksum"),
        (b'{"version":2,"checksum":"0123456789abcdef"}', "newer than 1"),
    ],
)
def test_what_cannot_be_understood_is_neither_missing_nor_free(backend: Backend, data: bytes, reason: str) -> None:
    async def run() -> None:
        store = backend.client()
        before = written(await store.create(NAME, Content({"a": "b"}, LEADER)))
        backend.plant(NAME, data)
        with pytest.raises(DocumentUnreadable, match=reason) as caught:
            await store.read(NAME)
        assert NAME in str(caught.value)
        for attempt in (store.replace(before, Content()), store.bury(before), store.create(NAME, Content())):
            with pytest.raises(DocumentUnreadable):
                await attempt
        assert backend.stored(NAME) == data

    asyncio.run(run())


def test_one_flipped_character_is_noticed(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        written(await store.create(NAME, Content({"count": "41"}, LEADER)))
        backend.plant(NAME, backend.stored(NAME).replace(b'"41"', b'"42"'))
        with pytest.raises(DocumentUnreadable, match="checksum"):
            await store.read(NAME)

    asyncio.run(run())


def test_a_document_copied_under_another_name_is_noticed(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        written(await store.create(NAME, Content({"a": "b"})))
        backend.plant("other-lock", backend.stored(NAME))
        with pytest.raises(DocumentUnreadable, match=NAME):
            await store.read("other-lock")

    asyncio.run(run())


def test_its_rightful_holder_replaces_an_unreadable_document_by_compare_and_set(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        written(await store.create(NAME, Content({"a": "b"})))
        backend.plant(NAME, b"rubbish")
        with pytest.raises(DocumentUnreadable) as first:
            await store.read(NAME)
        backend.plant(NAME, b"other rubbish")
        with pytest.raises(DocumentUnreadable):  # it changed since
            await store.replace(shell(first.value, NAME), Content({"a": "c"}))
        with pytest.raises(DocumentUnreadable) as second:
            await store.read(NAME)
        document = written(await store.replace(shell(second.value, NAME), Content({"a": "c"}, LEADER)))
        assert document.entries == {"a": "c"}
        assert await backend.client().read(NAME) == document

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


def test_a_document_that_is_too_large_is_refused_before_anything_is_sent(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        with pytest.raises(DocumentTooLarge):
            await store.create(NAME, Content({"a": "x" * LIMIT}))
        assert await store.read(NAME) is None
        document = written(await store.create(NAME, Content({"a": "x" * (LIMIT // 2)})))
        with pytest.raises(DocumentTooLarge):  # together they are too large, though neither is
            await store.replace(document, Content({"b": "x" * (LIMIT // 2)}))
        assert await store.read(NAME) == document

    asyncio.run(run())


def test_past_half_of_the_limit_it_warns_once(backend: Backend) -> None:
    async def run() -> None:
        events: list[Event] = []
        store = backend.client(log=Log(stream=io.StringIO(), listeners=[events.append]))
        document = written(await store.create(NAME, Content({"a": "x" * 1000})))
        assert not events
        large, small = Content({"a": "x" * (LIMIT // 2)}), Content({"a": "x"})
        document = written(await store.replace(document, large))
        document = written(await store.replace(document, large))
        assert [event.event for event in events] == ["document-large"]
        document = written(await store.replace(document, small))
        written(await store.replace(document, large))
        assert [event.facts["document"] for event in events] == [NAME, NAME]

    asyncio.run(run())


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


def test_a_watcher_is_told_what_stands_there_and_what_changes(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        watch = aiter(backend.client().watch(NAME))
        async with asyncio.timeout(60):
            assert await anext(watch) is None
            first = written(await store.create(NAME, Content({"a": "1"})))
            assert await anext(watch) == first
            second = written(await store.replace(first, Content({"a": "1"})))
            assert await anext(watch) == second
            backend.plant(NAME, b"rubbish")  # told to whoever reads; a watcher waits for better days
            with pytest.raises(DocumentUnreadable) as caught:
                await store.read(NAME)
            third = written(await store.replace(shell(caught.value, NAME), Content({"a": "3"})))
            assert await anext(watch) == third
            backend.remove(NAME)
            assert await anext(watch) is None
        await watch.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
