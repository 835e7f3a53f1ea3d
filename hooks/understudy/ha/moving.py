"""Moves the HA data of one cluster id to other services, or to another kind of lock, while nothing runs.

What moves: the job's and the replicas' documents, and the highest epoch that was granted. The lock is left as a tombstone, and a free one is
made at the new place. Claims stay where they are: those of a former kind of lock are followed from then on (``ha/moved.py``).

The order makes each of its requests a point at which it may break off. The new place first refuses every start; then the old place does; then
its locks are buried by compare-and-set on what was seen while no replica led, which decides; then the data are copied; and with the last
write the new place is open. Repeating it goes on from any of these points. Before the old place refuses, breaking off changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from understudy.documents.model import Content, Document, DocumentStore, LeaderRecord
from understudy.documents.nonce import unique
from understudy.documents.settle import read_or_shell, write_once
from understudy.election.records import GRANT, Free, GrantEntry, Held, lock_state_of
from understudy.errors import DocumentUnreadable, JobNotBegun, RequestRefused
from understudy.fencing.claim import NO_FORMER_LOCKS, min_epoch
from understudy.ha import ownership
from understudy.ha.components import PREFIX as COMPONENT
from understudy.ha.job import Job
from understudy.ha.moved import ENTRY, Moved, State
from understudy.ha.replicas import bound, entries_of, is_of_a_replica
from understudy.protocol.claim import ENTRY as CLAIM
from understudy.protocol.names import BURIED, LOCK_LABELS, REPLICAS_LABELS, Names

_MOVER = "understudy claims move"
#: Kinds of lock in one Kubernetes cluster that the lock ``multi`` holds.
_HELD_BY = {"multi": {"lease", "configmap"}}
_REPEAT = "Repeat it: it goes on where it was broken off"


@dataclass(frozen=True, slots=True)
class Place:
    """One end of a move. ``locks``: by kind, each store in which a replica may hold the lock there. ``kinds``: those that claims may name, which
    ``multi`` adds to. ``claims``: this machine's, where they can be read. ``words`` name the place to a person.
    """

    documents: DocumentStore
    locks: Mapping[str, DocumentStore]
    kinds: tuple[str, ...]
    words: str
    claims: DocumentStore | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """From ``source`` to ``target``, where locks of ``lock`` are in ``lock_store``. ``same``: both places have the same documents, and only the
    lock's kind changes. ``ended``: a person says that replicas which have left entries run no more. ``now``: seconds since 1970.
    """

    names: Names
    source: Place
    target: Place
    lock: str
    lock_store: DocumentStore
    same: bool
    now: float
    ended: bool = False
    unique: Callable[[], str] = unique
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> AsyncIterator[str]:
        """Each step, in words, once it is done; nothing where all of it was done before.

        Raises:
            RequestRefused: a replica runs or leads, or other data are at the new place; nothing was changed by this call.
            IdentityConflict: the name of the lock is another document's at the new place.
            JobNotBegun: there is nothing to move.
            DocumentError: it was broken off, and may be repeated.
        """
        begun = await self._begun()
        if begun is None:
            return
        move, decided = begun
        locks = await self._left_locks(move)
        if not decided:
            await self._mark(self.target, self._moved(State.ARRIVING, move))
            yield f"{self.target.words}: no replica starts there yet"
            if not self.same:
                await self._mark(self.source, self._moved(State.GONE, move))
                yield f"{self.source.words}: no replica starts there any more"
        for store, seen in locks:
            await self._bury(store, seen, move)
            yield f"the lock there is a tombstone: {self.names.lock}"
        epoch = await self._highest_epoch()
        if not self.same and await self._copy_job():
            yield f"copied {self.names.job_document}"
        if await self._free_lock(epoch):
            yield f"made the lock {self.names.lock}, above epoch {epoch}"
        await self._open(move, epoch)
        yield f"{self.target.words}: replicas may start"

    # ---- what was done before

    async def _begun(self) -> tuple[str, bool] | None:
        """The id of the move, and whether the old place refuses already; ``None`` where all is done. Raises ``RequestRefused``."""
        there = await self.source.documents.read(self.names.replicas)
        left = Moved.of(there)
        if self.same:
            return await self._begun_here(there, left)
        here = await self.target.documents.read(self.names.replicas)
        arrived = Moved.of(here)
        if left is not None and left.state == State.GONE:
            if arrived is None or arrived.move != left.move:
                raise self._refused(
                    f"the job has moved to {left.place} before", "Name that place, or move it from there"
                )
            return None if arrived.state == State.HERE else (left.move, True)
        if left is not None and left.state == State.ARRIVING:
            raise self._refused(f"the job is being moved there from {left.place}", "Repeat that move first")
        self._refuse_running(there)
        await self._refuse_occupied(here, arrived)
        return self.unique(), False

    async def _begun_here(self, document: Document | None, moved: Moved | None) -> tuple[str, bool] | None:
        if moved is not None and moved.state == State.ARRIVING:
            if moved.lock != self.lock:
                raise self._refused(f"the job is being moved to {moved.ours}", "Repeat that move first")
            return moved.move, True
        if moved is not None and moved.state == State.GONE:
            raise self._refused(f"the job has moved to {moved.place}", "Move it from there")
        if moved is not None and moved.lock == self.lock and not await self._left_locks(moved.move, look=False):
            return None
        self._refuse_running(document)
        return self.unique(), False

    def _refuse_running(self, document: Document | None) -> None:
        if document is not None and document.buried:
            raise self._refused("the HA data of this cluster id were removed for good", "Choose another --cluster-id")
        if bound(document) is None:
            raise JobNotBegun(
                "no replica has ever run there", where=self.source.words, remedy="There is nothing to move"
            )
        if (running := entries_of(document)) and not self.ended:
            raise self._refused(
                f"replicas run: {', '.join(sorted(running))}",
                "End them first. Where they were killed, and you know that none runs, add --replicas-ended",
            )

    async def _refuse_occupied(self, here: Document | None, arrived: Moved | None) -> None:
        if arrived is not None and arrived.state == State.ARRIVING and arrived.place != self.source.words:
            raise self._refused(f"the job is being moved there from {arrived.place}", "Repeat that move first")
        if arrived is None or arrived.state == State.HERE:
            job = await self.target.documents.read(self.names.job_document)
            if bound(here) is not None or (here is not None and here.buried) or (job is not None and job.entries):
                raise self._refused(
                    f"there is other HA data already: {self.target.words}",
                    "Choose another place, or another --cluster-id",
                )
        ownership.refuse_foreign(await self._unrenewed(self.lock_store), GRANT)

    # ---- the steps

    def _moved(self, state: State, move: str, epoch: int = 0, former: Mapping[str, int] = NO_FORMER_LOCKS) -> Moved:
        ours, other = (self.source, self.target) if state is State.GONE else (self.target, self.source)
        return Moved(state, move, other.words, ours.words, self.lock, epoch, dict(former), self.now)

    async def _mark(self, place: Place, moved: Moved) -> None:
        """Write ``moved`` where a start finds it. Refused where a replica has come meanwhile."""
        name = self.names.replicas
        seen = await place.documents.read(name)
        if place is self.source or self.same:
            self._refuse_running(seen)
        if (before := Moved.of(seen)) is not None:  # what was followed at this place stays known until the move is over
            moved = replace(moved, former=before.former, epoch=before.epoch)
        content = Content({ENTRY: moved.encode()}, None if seen is None else seen.leader, REPLICAS_LABELS)
        await _write(place.documents, name, seen, content)

    async def _left_locks(self, move: str, *, look: bool = True) -> list[tuple[DocumentStore, Document | None]]:
        """Locks that are left and no tombstones of this move yet, as they were seen while no replica renewed them. Raises ``RequestRefused``."""
        found = []
        for kind, store in self.source.locks.items():
            if self.same and kind in _HELD_BY.get(self.lock, {self.lock}):
                continue
            seen = await self._unrenewed(store) if look else await read_or_shell(store, self.names.lock)
            if not _is_left(seen, move):
                found.append((store, seen))
        if look and self.same:
            await self._unrenewed(self.lock_store)
        return found

    async def _unrenewed(self, store: DocumentStore) -> Document | None:
        """The lock in ``store``, watched for one lease where it is held. Raises ``RequestRefused`` if it is renewed.

        One that cannot be read is renewed by no replica, and can be replaced.
        """
        name = self.names.lock
        before = await read_or_shell(store, name)
        match lock_state_of(before):
            case Held(_, _, holder, lease_seconds):
                await self.sleep(lease_seconds)
                after = await read_or_shell(store, name)
                if after is None or before is None or after.revision != before.revision:
                    raise self._refused(f"replica {holder} leads the job", "End its replicas first; checkpoints stay")
            case _:
                pass
        return before

    async def _bury(self, store: DocumentStore, seen: Document | None, move: str) -> None:
        entries = {ENTRY: self._moved(State.GONE, move).encode()}
        leader = None if seen is None else seen.leader
        content = Content(entries, leader, {**LOCK_LABELS, BURIED: "true"})
        await _write(store, self.names.lock, seen, content)

    async def _highest_epoch(self) -> int:
        """Above it the new place begins."""
        documents = [
            await read_or_shell(store, self.names.lock) for store in (*self.source.locks.values(), self.lock_store)
        ]
        epochs = [lock_state_of(each).epoch for each in documents]
        for place in (self.source, self.target):
            moved = Moved.of(await place.documents.read(self.names.replicas))
            epochs.append(0 if moved is None else moved.epoch)
            if place.claims is not None:
                epochs.append(await min_epoch(place.claims, CLAIM))
        job = await self.source.documents.read(self.names.job_document)
        return max(*epochs, 0 if job is None else Job.of(job).token.epoch)

    async def _copy_job(self) -> bool:
        """Whether there was something to copy."""
        name = self.names.job_document
        document, seen = await self.source.documents.read(name), await self.target.documents.read(name)
        if document is None:
            return False
        entries = {key: text for key, text in document.entries.items() if not key.startswith(COMPONENT)}
        return await self._copy(name, seen, entries, document.labels)

    async def _copy(
        self, name: str, seen: Document | None, entries: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Whether it did not stand there before."""
        if seen is not None and seen.entries == entries and not seen.buried:
            return False
        gone = dict.fromkeys(seen.entries if seen is not None else ())
        content = Content({**gone, **entries}, None, {**labels, BURIED: None})
        await _write(self.target.documents, name, seen, content)
        return True

    async def _free_lock(self, epoch: int) -> bool:
        """A lock that was released at ``epoch``: the first replica takes it above. Whether it did not stand there before."""
        seen = await read_or_shell(self.lock_store, self.names.lock)
        state = lock_state_of(seen)
        free = isinstance(state, Free) and state.epoch == epoch and ENTRY not in state.document.entries
        if free or (seen is None and epoch == 0):
            return False
        grant = GrantEntry(epoch, _MOVER, self.unique(), released=True, lock=self.lock)
        transitions = 0 if seen is None or seen.leader is None else seen.leader.transitions
        # a Lease takes microseconds and nothing else
        stamp = datetime.fromtimestamp(self.now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        leader = LeaderRecord("", 1.0, stamp, stamp, transitions)
        content = Content({GRANT: grant.encode(), ENTRY: None}, leader, {**LOCK_LABELS, BURIED: None})
        await _write(self.lock_store, self.names.lock, seen, content)
        return True

    async def _open(self, move: str, epoch: int) -> None:
        """The last write: from now on replicas may start at the new place."""
        name = self.names.replicas
        document, seen = await self.source.documents.read(name), await self.target.documents.read(name)
        assert document is not None, "it says where the job has gone"
        before = Moved.of(document)
        former = {} if before is None else dict(before.former)
        former |= dict.fromkeys(self.source.kinds, epoch)
        former.pop(self.lock, None)
        here = self._moved(State.HERE, move, epoch, former)
        kept = {key: text for key, text in document.entries.items() if not is_of_a_replica(key)}
        await self._copy(name, seen, {**kept, ENTRY: here.encode()}, document.labels)

    def _refused(self, what: str, remedy: str) -> RequestRefused:
        return RequestRefused(what, where=_MOVER, remedy=remedy)


def _is_left(lock: Document | None, move: str) -> bool:
    """Whether it is this move's tombstone already."""
    with suppress(DocumentUnreadable):
        moved = Moved.of(lock)
        return lock is not None and lock.buried and moved is not None and moved.move == move
    return False


async def _write(store: DocumentStore, name: str, seen: Document | None, content: Content) -> None:
    """Raises ``DocumentError`` unless it has landed."""
    await write_once(store, name, seen, content, remedy="See what writes it, then repeat it", repeat=_REPEAT)
