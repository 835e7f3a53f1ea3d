"""The lock ``multi``: a ConfigMap and a Lease held together, for a fleet that moves from one kind to the other.

Two stores appear as one. A write goes to the ConfigMap first and to the Lease second, and counts only when both took it. So
the second one decides between electors of this kind; the first keeps those away that know only ConfigMaps.

=========================================  ===================================================================================
what stands in first and second            what is seen
=========================================  ===================================================================================
the same                                   that
a write of ``multi`` in first only         the second: the first is on its way, or was left behind by a crash
someone else's live record in first        that record, as long as *either* changes: both have to be quiet for the longer lease
nothing, or released, in first             the second; but the first, where another kind released a higher epoch there
something unreadable in first              that: it is not free
=========================================  ===================================================================================

A write that wins the first and loses the second puts the first back as it was. A crash in between leaves a record by
which no process leads; the next writer replaces it by compare-and-set, like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from understudy.documents.model import Conflict, Content, Document, DocumentStore, Outcome, Unknown, Written, conflict
from understudy.documents.settle import shell
from understudy.election.records import GRANT, Free, Held, Unwritten, lock_state_of, view_grant
from understudy.errors import DocumentUnreadable

KIND = "multi"
#: Requests that a write takes, one after the other; of reads there are no more.
REQUESTS = 2
_BETWEEN = "|"


@dataclass(frozen=True, slots=True)
class _Both(Document):
    """What is seen of both. ``first``: that half as it stood, with which a write that loses the second one puts it back."""

    first: Document | None = None


@dataclass(frozen=True, slots=True)
class MultiStore:
    """A ``DocumentStore`` of locks over two others. ``Unknown`` about either half is ``Unknown`` about both."""

    first: DocumentStore
    second: DocumentStore

    async def read(self, name: str) -> Document | None:
        halves, broken = [], None
        for store in (self.first, self.second):
            try:
                halves.append(await store.read(name))
            except DocumentUnreadable as error:
                broken = error
                halves.append(shell(error, name))
        if broken is not None:
            # The rightful holder replaces both by compare-and-set.
            broken.revision = _revisions(*halves)
            raise broken
        return _seen(*halves)

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._write(name, None, None, content, before=None)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        # What was decided on are these two revisions and no later ones; contents are only needed to put the first back.
        one, two = seen.revision.split(_BETWEEN)
        before = seen.first if isinstance(seen, _Both) else None
        return await self._write(seen.name, _half(seen, one), _half(seen, two), content, before)

    async def bury(self, seen: Document) -> Outcome:
        one, two = (_half(seen, revision) for revision in seen.revision.split(_BETWEEN))
        if one is not None and not isinstance(buried := await self.first.bury(one), Written):
            return await self._failed(seen.name, buried)
        if two is not None and not isinstance(buried := await self.second.bury(two), Written):
            return await self._failed(seen.name, buried)
        now = await self.read(seen.name)
        return Unknown("buried, and gone since") if now is None else Written(now)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        changed = asyncio.Event()

        async def follow(store: DocumentStore) -> None:
            async for _ in store.watch(name):
                changed.set()

        watches = [asyncio.create_task(follow(store)) for store in (self.first, self.second)]
        try:
            while True:
                waits = asyncio.create_task(changed.wait())
                await asyncio.wait({waits, *watches}, return_when=asyncio.FIRST_COMPLETED)
                waits.cancel()
                for watch in watches:
                    if watch.done():
                        watch.result()
                        return
                changed.clear()
                yield await self.read(name)
        finally:
            for watch in watches:
                watch.cancel()

    async def _write(
        self, name: str, one: Document | None, two: Document | None, content: Content, before: Document | None
    ) -> Outcome:
        first = await _put(self.first, name, one, content)
        if not isinstance(first, Written):
            return await self._failed(name, first)
        second = await _put(self.second, name, two, content)
        match second:
            case Written():
                return Written(_both(first.document, second.document, second.document))
            case Conflict():
                await self._put_back(first.document, before)
        return await self._failed(name, second)

    async def _put_back(self, written: Document, before: Document | None) -> None:
        """A first half that is left behind keeps electors of its kind away until its lease has run out; so it is not left."""
        if before is None:
            grant = view_grant(written)
            assert grant is not None
            assert written.leader is not None
            no_leader = replace(written.leader, holder="", lease_seconds=1.0)
            content = Content({GRANT: replace(grant, released=True).encode()}, no_leader, dict(written.labels))
        else:
            gone = dict.fromkeys(written.entries.keys() - before.entries.keys())
            content = Content({**gone, **before.entries}, before.leader, dict(before.labels))
        await self.first.replace(written, content)

    async def _failed(self, name: str, outcome: Outcome) -> Outcome:
        match outcome:
            case Conflict():
                return await conflict(self, name)
            case _:
                return outcome


def _seen(one: Document | None, two: Document | None) -> Document | None:
    if one is None and two is None:
        return None
    grant = view_grant(one)
    ours = one is not None and grant is not None and grant.lock == KIND and _holder(one) in ("", grant.holder)
    first, second = lock_state_of(one), lock_state_of(two)
    if not ours and isinstance(first, Free) and isinstance(second, Free | Unwritten) and first.epoch > second.epoch:
        shown = one  # the fleet went to ConfigMaps for a while, and the second knows nothing of that
    elif one is None or ours or isinstance(first, Free | Unwritten):
        shown = two
    elif two is not None and isinstance(first, Held) and isinstance(second, Held):
        shown = _neither(one, two)
    else:
        shown = one
    if shown is None:
        # The second half is missing: no process leads by the first alone, but its epoch counts.
        assert one is not None
        shown = replace(one, leader=None, entries={})
    return _both(one, two, shown)


def _neither(one: Document, two: Document) -> Document:
    """Held by two at once, and neither knows the other's kind: a candidate has to wait for both."""
    assert one.leader is not None
    assert two.leader is not None
    record = replace(
        one.leader,
        holder=f"{one.leader.holder}{_BETWEEN}{two.leader.holder}",
        lease_seconds=max(one.leader.lease_seconds, two.leader.lease_seconds),
        renewed=f"{one.leader.renewed}{_BETWEEN}{two.leader.renewed}",
    )
    higher = max((one, two), key=lambda each: lock_state_of(each).epoch)
    return replace(higher, leader=record)


def _both(one: Document | None, two: Document | None, shown: Document) -> Document:
    return _Both(shown.name, shown.entries, shown.leader, shown.labels, _revisions(one, two), one)


def _revisions(one: Document | None, two: Document | None) -> str:
    return _BETWEEN.join("" if each is None else each.revision for each in (one, two))


def _half(seen: Document, revision: str) -> Document | None:
    return replace(seen, revision=revision) if revision else None


def _holder(document: Document) -> str:
    return "" if document.leader is None else document.leader.holder


async def _put(store: DocumentStore, name: str, seen: Document | None, content: Content) -> Outcome:
    return await (store.create(name, content) if seen is None else store.replace(seen, content))
