"""A write whose answer got lost, on every backend; ``e2e/tests/test_documents.py`` runs it against an API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from testkit.faults import Fault
from tests.contract.backends import Backend
from tests.contract.test_documents import LEADER, NAME, standing, written
from understudy.documents.model import Conflict, Content, Document, Unknown, Written
from understudy.documents.settle import is_own, settle

SENT = Content({"grant": "nonce-1"}, LEADER, {"is": "lock"})


async def lost(backend: Backend, fault: Fault) -> tuple[Document, Unknown]:
    """A document, and an attempt to replace it by ``SENT`` that met with ``fault``."""
    seen = written(await backend.client().create(NAME, Content({"grant": "nonce-0", "theirs": "1"})))
    outcome = await backend.client(fault).replace(seen, SENT)
    assert isinstance(outcome, Unknown)
    return seen, outcome


def test_a_write_that_landed_is_found_to_be_ones_own(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_ANSWER)
        before = await standing(backend.client())
        assert before.revision != seen.revision
        settled = await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant")
        assert settled == Written(before)

    asyncio.run(run())


def test_a_write_that_got_lost_is_won_by_another_compare_and_set(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_REQUEST)
        assert (await standing(backend.client())).revision == seen.revision
        document = written(await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant"))
        assert document == await backend.client().read(NAME)
        assert document.entries == {"grant": "nonce-1", "theirs": "1"}

    asyncio.run(run())


def test_a_delayed_write_that_lands_after_it_was_settled_changes_nothing(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.DELAYED)
        document = written(await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant"))
        backend.land()
        assert await backend.client().read(NAME) == document

    asyncio.run(run())


def test_a_delayed_write_that_lands_later_counts_if_nobody_was_faster(backend: Backend) -> None:
    """So an unchanged revision proves nothing: only a compare-and-set does."""

    async def run() -> None:
        seen, outcome = await lost(backend, Fault.DELAYED)
        assert (await standing(backend.client())).revision == seen.revision
        backend.land()
        document = await standing(backend.client())
        assert document.revision != seen.revision
        assert await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant") == Written(document)

    asyncio.run(run())


def test_a_delayed_write_loses_to_whoever_was_faster(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.DELAYED)
        other = written(await backend.client().replace(seen, Content({"grant": "nonce-2"})))
        backend.land()
        settled = await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant")
        assert settled == Conflict(other)
        assert await backend.client().read(NAME) == other

    asyncio.run(run())


def test_it_stays_unknown_while_every_attempt_gets_lost(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_REQUEST)
        store = backend.client(Fault.LOST_REQUEST, Fault.LOST_REQUEST, Fault.LOST_REQUEST)
        assert isinstance(await settle(store, NAME, seen, SENT, outcome, nonce_key="grant"), Unknown)
        written(await settle(store, NAME, seen, SENT, outcome, nonce_key="grant"))

    asyncio.run(run())


def test_it_stays_unknown_while_nothing_can_be_read(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_ANSWER)
        settled = await settle(backend.cut_off(), NAME, seen, SENT, outcome, nonce_key="grant")
        assert isinstance(settled, Unknown)

    asyncio.run(run())


def test_the_last_attempt_may_be_the_one_that_lands(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_REQUEST)
        store = backend.client(Fault.LOST_REQUEST, Fault.LOST_ANSWER)
        document = written(await settle(store, NAME, seen, SENT, outcome, nonce_key="grant"))
        assert document.entries["grant"] == "nonce-1"

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.DELAYED])
def test_a_create_is_settled_in_the_same_way(backend: Backend, fault: Fault) -> None:
    async def run() -> None:
        outcome = await backend.client(fault).create(NAME, SENT)
        assert isinstance(outcome, Unknown)
        document = written(await settle(backend.client(), NAME, None, SENT, outcome, nonce_key="grant"))
        backend.land()
        assert await backend.client().read(NAME) == document

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.DELAYED])
def test_a_create_that_lost_is_a_conflict(backend: Backend, fault: Fault) -> None:
    async def run() -> None:
        outcome = await backend.client(fault).create(NAME, SENT)
        other = written(await backend.client().create(NAME, replace(SENT, entries={"grant": "nonce-2"})))
        backend.land()
        assert await settle(backend.client(), NAME, None, SENT, outcome, nonce_key="grant") == Conflict(other)

    asyncio.run(run())


def test_a_document_deleted_meanwhile_is_a_conflict_with_nothing_and_not_made_again(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_REQUEST)
        backend.remove(NAME)
        assert await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant") == Conflict(None)
        assert await backend.client().read(NAME) is None

    asyncio.run(run())


def test_a_conflict_with_ones_own_write_is_a_write(backend: Backend) -> None:
    """A client that retries by itself after a lost answer reports one (boto3 and obstore do)."""

    async def run() -> None:
        seen, _ = await lost(backend, Fault.LOST_ANSWER)
        outcome = await backend.client().replace(seen, SENT)
        assert isinstance(outcome, Conflict)
        document = written(await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant"))
        assert document == await backend.client().read(NAME)

    asyncio.run(run())


@pytest.mark.parametrize(
    "alike",
    [
        replace(SENT, entries={"grant": "nonce-2"}),
        replace(SENT, leader=replace(LEADER, holder="someone-else")),
        replace(SENT, leader=replace(LEADER, transitions=4)),
        replace(SENT, leader=None),
        replace(SENT, labels={"is": "lease"}),
    ],
    ids=["another-nonce", "rewritten-holder", "rewritten-transitions", "removed-record", "another-label"],
)
def test_a_look_alike_is_not_ones_own(backend: Backend, alike: Content) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_REQUEST)
        other = written(await backend.client().replace(seen, alike))
        assert await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant") == Conflict(other)

    asyncio.run(run())


def test_ones_own_write_with_a_foreign_entry_added_since_is_still_ones_own(backend: Backend) -> None:
    async def run() -> None:
        seen, outcome = await lost(backend, Fault.LOST_ANSWER)
        mine = await standing(backend.client())
        now = written(await backend.client().replace(mine, Content({"note": "hello"}, mine.leader)))
        assert await settle(backend.client(), NAME, seen, SENT, outcome, nonce_key="grant") == Written(now)

    asyncio.run(run())


def test_a_key_that_was_to_be_removed_and_stands_there_tells_a_look_alike() -> None:
    sent = replace(SENT, entries={"grant": "nonce-1", "old": None})
    document = Document(NAME, {"grant": "nonce-1"}, LEADER, {"is": "lock"}, "1")
    assert is_own(document, sent, "grant")
    assert not is_own(replace(document, entries={"grant": "nonce-1", "old": "1"}), sent, "grant")
    assert not is_own(None, sent, "grant")


@pytest.mark.parametrize("entries", [{}, {"grant": None}])
def test_a_write_without_a_nonce_cannot_be_told(entries: dict[str, None]) -> None:
    with pytest.raises(ValueError, match="grant"):
        is_own(None, Content(entries), "grant")
