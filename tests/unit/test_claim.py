"""Claims: the resource refuses a stale leader."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.faults import Fault
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents import codec
from understudy.documents.model import Conflict, Content, Document, LeaderRecord, Unknown, Written
from understudy.errors import DocumentEmptied, DocumentError, DocumentUnreadable
from understudy.fencing.claim import (
    Claimed,
    Refused,
    Repeated,
    claim,
    is_new,
    local_root_claim,
    min_epoch,
    standing_claim,
    why_refused,
)
from understudy.protocol.claim import ENTRY, Claim
from understudy.protocol.token import Token

NAME = "claim"
OURS = Claim(Token(7, 2), "holder-a", "flights", "flights-job", "file")


def newer(own: Claim = OURS, epoch: int = 8, holder: str = "holder-b") -> Claim:
    return replace(own, token=Token(epoch, 1), holder=holder)


async def stands(store: MemoryDocumentStore) -> Claim | None:
    document = await store.read(NAME)
    return None if document is None else standing_claim(document)


# the order


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token": Token(6, 9)}, "higher-token"),
        ({"token": Token(7, 1)}, "higher-token"),
        ({"token": Token(6, 9), "holder": "holder-b"}, "higher-token"),
        ({"holder": "holder-b"}, "other-holder"),
        ({"cluster": "other", "token": Token(9, 0)}, "other-cluster"),
        ({"job": "other", "token": Token(9, 0)}, "other-job"),
        ({"lock": "lease", "token": Token(9, 0)}, "other-lock"),
        ({"lock": "multi", "token": Token(9, 0)}, "other-lock"),
    ],
)
def test_who_may_not_follow_is_refused_with_the_reason_and_changes_nothing(
    changes: dict[str, object], reason: str
) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        assert isinstance(await claim(store, NAME, OURS), Claimed)
        before = await store.read(NAME)
        refused = await claim(store, NAME, replace(OURS, **changes))  # type: ignore[arg-type]
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.current) == (reason, OURS)
        assert "7.2" in refused.detail
        assert await store.read(NAME) == before

    asyncio.run(run())


@pytest.mark.parametrize("token", [Token(7, 3), Token(8, 0)])
@pytest.mark.parametrize("holder", ["holder-a", "holder-b"])
def test_a_higher_token_follows(token: Token, holder: str) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await claim(store, NAME, OURS)
        own = replace(OURS, token=token, holder=holder)
        claimed = await claim(store, NAME, own)
        assert isinstance(claimed, Claimed)
        assert standing_claim(claimed.document) == own
        assert await store.read(NAME) == claimed.document

    asyncio.run(run())


def test_the_same_claim_is_a_repeat_and_writes_nothing() -> None:
    async def run() -> None:
        server = MemoryServer()
        store = MemoryDocumentStore(server)
        await claim(store, NAME, OURS)
        count = server.counter
        assert isinstance(await claim(store, NAME, OURS), Repeated)
        assert server.counter == count

    asyncio.run(run())


@pytest.mark.parametrize(
    ("standing", "own", "follows"),
    [
        ("lease", "multi", True),
        ("configmap", "multi", True),
        ("multi", "lease", True),
        ("multi", "configmap", True),
        ("lease", "configmap", False),
        ("configmap", "lease", False),
        ("file", "multi", False),
        ("zookeeper", "multi", False),
        ("file", "zookeeper", False),
    ],
)
def test_only_kinds_of_lock_that_exclude_each_other_follow_each_other(standing: str, own: str, follows: bool) -> None:
    first, second = replace(OURS, lock=standing), newer(replace(OURS, lock=own))
    assert (why_refused(second, first) is None) == follows


def test_what_else_stands_in_the_document_is_kept() -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        leader = LeaderRecord("x", 15.0, "", "", 1)
        await store.create(NAME, Content({"theirs": "1"}, leader, {"app": "flights"}))
        claimed = await claim(store, NAME, OURS)
        assert isinstance(claimed, Claimed)
        assert claimed.document.entries["theirs"] == "1"
        assert claimed.document.leader == leader
        assert claimed.document.labels == {"app": "flights"}

    asyncio.run(run())


def test_a_claim_outlives_its_document_being_buried() -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        claimed = await claim(store, NAME, OURS)
        assert isinstance(claimed, Claimed)
        await store.bury(claimed.document)
        assert isinstance(await claim(store, NAME, newer(epoch=6)), Refused)
        again = await claim(store, NAME, OURS)  # on a tombstone it is no repeat: it has to be written to count
        assert isinstance(again, Claimed)
        assert not again.document.buried

    asyncio.run(run())


# what cannot be read


@pytest.mark.parametrize(
    "value",
    [
        "",
        "rubbish",
        codec.encode("grant", 1, OURS.to_body()),
        codec.encode(ENTRY, 2, OURS.to_body()),
        codec.encode(ENTRY, 1, {}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "version": 2}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "token": -1}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "token": 1 << 63}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "token": "7"}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "token": True}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "holder": ""}),
        codec.encode(ENTRY, 1, {**OURS.to_body(), "job": None}),
    ],
)
def test_a_claim_that_cannot_be_understood_is_refused_and_never_free(value: str) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await store.create(NAME, Content({ENTRY: value}))
        before = await store.read(NAME)
        refused = await claim(store, NAME, newer())
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.current) == ("unreadable", None)
        assert await store.read(NAME) == before
        with pytest.raises(DocumentUnreadable):
            await min_epoch(store, NAME)

    asyncio.run(run())


def test_a_document_that_cannot_be_understood_is_refused_and_never_free() -> None:
    async def run() -> None:
        server = MemoryServer()
        store = MemoryDocumentStore(server)
        server.overwrite(NAME, b"rubbish")
        refused = await claim(store, NAME, newer())
        assert isinstance(refused, Refused)
        assert refused.reason == "unreadable"
        assert server.stored[NAME][1] == b"rubbish"

    asyncio.run(run())


# lost answers and races


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.DELAYED])
@pytest.mark.parametrize("before", [None, OURS])
def test_a_claim_whose_answer_got_lost_is_settled(fault: Fault, before: Claim | None) -> None:
    async def run() -> None:
        server = MemoryServer()
        if before is not None:
            await claim(MemoryDocumentStore(server), NAME, before)
        store = MemoryDocumentStore(server)
        store.inject(fault)
        claimed = await claim(store, NAME, newer())
        assert isinstance(claimed, Claimed)
        server.land()
        assert await store.read(NAME) == claimed.document
        assert standing_claim(claimed.document) == newer()

    asyncio.run(run())


def test_an_unknown_outcome_is_an_error_and_claiming_again_settles_it() -> None:
    async def run() -> None:
        server = MemoryServer()
        store = MemoryDocumentStore(server)
        store.inject(*[Fault.DELAYED] * 4)
        with pytest.raises(DocumentError, match="it is unknown whether"):
            await claim(store, NAME, OURS)
        server.land()
        assert isinstance(await claim(store, NAME, OURS), Repeated)

    asyncio.run(run())


def test_an_unreachable_backend_is_an_error() -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        store.reachable = False
        with pytest.raises(DocumentError):
            await claim(store, NAME, OURS)
        with pytest.raises(DocumentError):
            await min_epoch(store, NAME)

    asyncio.run(run())


class Overtaken(MemoryDocumentStore):
    """Another claim lands between this client's reading and its writing, for as long as there is one."""

    def __init__(self, server: MemoryServer, others: list[Claim]) -> None:
        super().__init__(server)
        self.others = others

    async def create(self, name: str, content: Content) -> Written | Conflict | Unknown:
        await self._overtake(name)
        return await super().create(name, content)

    async def replace(self, seen: Document, content: Content) -> Written | Conflict | Unknown:
        await self._overtake(seen.name)
        return await super().replace(seen, content)

    async def _overtake(self, name: str) -> None:
        if self.others:
            await claim(MemoryDocumentStore(self.server), name, self.others.pop(0))


def test_a_claim_that_was_overtaken_is_judged_again_by_what_stands_there_now() -> None:
    async def run() -> None:
        store = Overtaken(MemoryServer(), [newer(epoch=5), newer(epoch=6)])
        assert isinstance(await claim(store, NAME, OURS), Claimed)
        store = Overtaken(MemoryServer(), [newer(epoch=5), newer(epoch=8)])
        refused = await claim(store, NAME, OURS)
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.current) == ("higher-token", newer(epoch=8))

    asyncio.run(run())


TOKENS = st.builds(Token, st.integers(0, 3), st.integers(0, 2))
CLAIMS = st.lists(st.builds(newer, epoch=st.integers(1, 4), holder=st.sampled_from("abc")), max_size=12)


@settings(max_examples=60)
@given(CLAIMS, st.lists(st.sampled_from([None, *Fault]), max_size=8))
def test_the_token_that_stands_never_falls_and_belongs_to_one_holder(
    claims: list[Claim], faults: list[Fault | None]
) -> None:
    async def run() -> None:
        server = MemoryServer()
        store = MemoryDocumentStore(server)
        store.inject(*faults)
        owners: dict[Token, str] = {}
        highest = Token(0, 0)
        for own in claims:
            try:
                outcome = await claim(store, NAME, own)
            except DocumentError:
                server.land()
            else:
                if not isinstance(outcome, Refused):
                    assert owners.setdefault(own.token, own.holder) == own.holder
                    assert await stands(store) == own
            now = await stands(store)
            if now is not None:
                owners.setdefault(now.token, now.holder)
                assert now.token >= highest
                highest = now.token

    asyncio.run(run())


def test_of_sixteen_that_claim_at_once_the_highest_stands_and_each_token_has_one_holder() -> None:
    async def run() -> None:
        server = MemoryServer()
        wanted = [newer(epoch=epoch, holder=holder) for epoch, holder in itertools.product(range(1, 9), "ab")]
        outcomes = await asyncio.gather(*(claim(MemoryDocumentStore(server), NAME, own) for own in wanted))
        won = [own.token for own, outcome in zip(wanted, outcomes, strict=True) if isinstance(outcome, Claimed)]
        assert len(won) == len(set(won))
        now = await stands(MemoryDocumentStore(server))
        assert now is not None
        assert now.token == Token(8, 1)

    asyncio.run(run())


# roots and the minimum epoch


def plant(root: Path, number: int, text: str) -> None:
    (root / "_understudy").mkdir(parents=True, exist_ok=True)
    (root / "_understudy" / f"claim@{number}").write_text(text)


def test_a_root_nobody_claimed_has_no_claim(tmp_path: Path) -> None:
    assert local_root_claim(tmp_path / "missing") is None
    assert local_root_claim(tmp_path) is None
    (tmp_path / "_understudy").mkdir()
    (tmp_path / "_understudy" / ".claim-0.tmp").write_text("half a cl")
    assert local_root_claim(tmp_path) is None


def test_the_highest_number_is_the_claim_of_a_root(tmp_path: Path) -> None:
    plant(tmp_path, 9, json.dumps(newer(epoch=9).to_body()))
    plant(tmp_path, 10, json.dumps(newer(epoch=10).to_body()))
    assert local_root_claim(tmp_path) == newer(epoch=10)


def test_a_claim_as_the_jvm_writes_it_is_read(tmp_path: Path) -> None:
    text = '{"version":1,"token":30064771074,"holder":"holder-a","cluster":"flights","job":"flights-job","lock":"file"}'
    plant(tmp_path, 1, text)
    assert local_root_claim(tmp_path) == OURS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("{", "not JSON"),
        ("[]", "no claim"),
        ("{}", "lacks a field"),
        (json.dumps({**OURS.to_body(), "version": 2}), "version 2"),
        (json.dumps({**OURS.to_body(), "token": -5}), "token"),
    ],
)
def test_a_root_whose_claim_cannot_be_understood_is_an_error_that_names_the_file(
    tmp_path: Path, text: str, reason: str
) -> None:
    plant(tmp_path, 1, json.dumps(OURS.to_body()))
    plant(tmp_path, 2, text)
    with pytest.raises(DocumentUnreadable, match=reason) as caught:
        local_root_claim(tmp_path)
    assert "claim@2" in str(caught.value)


def test_a_root_that_cannot_be_read_is_an_error_and_not_unclaimed(tmp_path: Path) -> None:
    (tmp_path / "_understudy").touch()
    with pytest.raises(DocumentError):
        local_root_claim(tmp_path)


def test_the_min_epoch_is_the_highest_that_was_claimed_anywhere(tmp_path: Path) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        roots = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
        assert await min_epoch(store, NAME) == 0
        assert await min_epoch(store, NAME, roots) == 0
        plant(roots[1], 1, json.dumps(newer(epoch=4).to_body()))
        assert await min_epoch(store, NAME, roots) == 4
        await claim(store, NAME, OURS)
        assert await min_epoch(store, NAME, roots) == 7
        plant(roots[2], 1, json.dumps(newer(epoch=9).to_body()))
        assert await min_epoch(store, NAME, roots) == 9
        document = await store.read(NAME)
        assert document is not None
        await store.bury(document)
        assert await min_epoch(store, NAME, roots[:1]) == 7

    asyncio.run(run())


def test_an_unreadable_root_leaves_the_min_epoch_unknown(tmp_path: Path) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await claim(store, NAME, OURS)
        plant(tmp_path, 1, "rubbish")
        with pytest.raises(DocumentUnreadable):
            await min_epoch(store, NAME, [tmp_path])

    asyncio.run(run())


def test_a_root_on_a_disk_that_hangs_leaves_the_min_epoch_unknown(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "_understudy").mkdir()
        fifo = tmp_path / "_understudy" / "claim@1"
        os.mkfifo(fifo)  # opening it hangs
        with pytest.raises(DocumentError, match="within"):
            await min_epoch(MemoryDocumentStore(MemoryServer()), NAME, [tmp_path], within=0.05)
        os.close(os.open(fifo, os.O_RDWR))

    asyncio.run(run())


# new, or emptied

EMPTY = Document(NAME, {}, None, {"app": "flights"}, "1")


@pytest.mark.parametrize("document", [None, EMPTY])
def test_where_nothing_was_granted_what_is_not_there_is_new(document: Document | None) -> None:
    assert is_new(NAME, document, 0)


@pytest.mark.parametrize(("document", "how"), [(None, "missing"), (EMPTY, "empty")])
def test_where_an_epoch_was_granted_what_is_not_there_was_emptied(document: Document | None, how: str) -> None:
    with pytest.raises(DocumentEmptied, match=f"is {how}, but an epoch of at least 7 "):
        is_new(NAME, document, 7)


@pytest.mark.parametrize("min_epoch", [0, 7])
@pytest.mark.parametrize(
    "document",
    [
        replace(EMPTY, entries={"grant": "{}"}),
        replace(EMPTY, leader=LeaderRecord("x", 15.0, "", "", 1)),
        replace(EMPTY, labels={"understudy.dev/buried": "true"}),
    ],
)
def test_what_has_content_is_neither(document: Document, min_epoch: int) -> None:
    assert not is_new(NAME, document, min_epoch)
