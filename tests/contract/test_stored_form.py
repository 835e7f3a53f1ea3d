"""What backends promise that keep a document as bytes of our own; an API server's objects have a form that is its own."""

from __future__ import annotations

import asyncio
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.faults import Fault
from tests.contract.backends import BACKENDS, Backend, Servers
from tests.contract.histories import CLIENTS, MOVES, play
from tests.contract.test_documents import LEADER, NAME, standing, written
from tests.contract.test_settling import SENT, lost
from understudy.documents.model import LIMIT, Content
from understudy.documents.settle import settle, shell
from understudy.errors import DocumentTooLarge, DocumentUnreadable
from understudy.events import Event, Log


def test_any_text_comes_back_as_it_was(backend: Backend) -> None:
    async def run() -> None:
        entries = {"ümlaut": "→\u0000\ud83d"}
        written(await backend.client().create(NAME, Content(entries)))
        assert (await standing(backend.client())).entries == entries

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


def test_something_unreadable_is_reported_and_not_taken_for_a_conflict(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_REQUEST)
        backend.plant(NAME, b"rubbish")
        with pytest.raises(DocumentUnreadable):
            await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant")

    asyncio.run(run())


def test_a_watcher_waits_for_better_days_while_nothing_can_be_understood(backend: Backend) -> None:
    async def run() -> None:
        store = backend.client()
        written(await store.create(NAME, Content({"a": "1"})))
        watch = aiter(backend.client().watch(NAME))
        async with asyncio.timeout(60):
            assert await anext(watch) is not None
            backend.plant(NAME, b"rubbish")  # told to every reader
            with pytest.raises(DocumentUnreadable) as caught:
                await store.read(NAME)
            fixed = written(await store.replace(shell(caught.value, NAME), Content({"a": "3"})))
            assert await anext(watch) == fixed
        await watch.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


@settings(max_examples=25)
@given(moves=st.lists(st.tuples(st.integers(0, CLIENTS - 1), st.sampled_from(MOVES)), max_size=25))
@pytest.mark.parametrize("kind", BACKENDS)
def test_all_clients_see_one_history(
    kind: str, moves: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory, servers: Servers
) -> None:
    asyncio.run(play(servers.make(kind, tmp_path_factory.mktemp("documents")), moves))
