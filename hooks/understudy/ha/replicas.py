"""The replicas' document: who stands by, how ready, since when. What status prints and what a leader chooses a successor from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Self

from understudy.documents import codec
from understudy.documents.model import Content, Document, DocumentStore, Written
from understudy.errors import DocumentError, DocumentUnreadable, IdentityConflict
from understudy.fencing.claim import NO_FORMER_LOCKS
from understudy.ha import ownership
from understudy.ha.moved import Moved
from understudy.protocol import typed
from understudy.protocol.names import REPLICAS_LABELS

_KIND = "replica"
_CLUSTER_KIND = "cluster"
_CLUSTER = ownership.CLUSTER
_VERSION = 1
_PREFIX = "replica."
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replica says of itself. ``since`` and ``rehearsed_at`` are wall-clock seconds, for people.

    ``inode`` and ``boot`` identify its proof of life: evidence counts only for this very file, of this very boot. ``address`` is
    where its probes and metrics are served, as host:port, empty if nowhere. ``script_since`` is when its script began, s since 1970;
    0 where that is not told. ``queries``: how many a leader's script runs, or a standby has rehearsed; 0 where that is not told.
    ``beats`` grows with each write where other replicas hear of a death from nothing else; 0 elsewhere, and of an older release.
    """

    holder: str
    role: str
    rehearsed: bool
    how: str
    rounds: int
    rehearsed_at: float
    held: str
    reason: str
    generation: int
    pid: int
    host: str
    inode: int
    boot: str
    since: float
    address: str = ""
    script_since: float = 0.0
    queries: int = 0
    beats: int = 0

    @property
    def name(self) -> str:
        """Short, for people: the pod, or the beginning of the id."""
        return self.host if "_" in self.holder else self.holder[:8]

    @classmethod
    def decode(cls, text: str) -> Replica:
        """Raises ``DocumentUnreadable``."""
        try:
            return typed.build_known(cls, codec.decode(_KIND, text)[1])
        except ValueError as error:
            raise DocumentUnreadable(str(error)) from None


def is_of_a_replica(entry: str) -> bool:
    """Whether it is what one replica says of itself."""
    return entry.startswith(_PREFIX)


def lacks_queries(rehearsed: int, running: int, held: str) -> str:
    """What a standby that has rehearsed fewer queries than the leader runs is short of, in words; empty where it is of none.

    0 of either is what is not told: by a replica of an older image, or not yet.
    """
    if not 0 < rehearsed < running:
        return ""
    return f"rehearsed {rehearsed} of {running} queries" + (f", held at {held}" if held else "")


def running_queries(replicas: Iterable[Replica]) -> int:
    """How many queries the leader's script runs, as far as it has said so."""
    return max((each.queries for each in replicas if each.role == "leader"), default=0)


@dataclass(frozen=True, slots=True)
class _Bound:
    """What a cluster id is bound to: its job, and whether anybody has ever led it. It outlives every replica."""

    job: str
    begun: bool = False

    def encode(self) -> dict[str, str]:
        return {_CLUSTER: codec.encode(_CLUSTER_KIND, _VERSION, asdict(self))}

    @classmethod
    def of(cls, document: Document | None) -> Self | None:
        """``None`` before any replica joined. Raises ``DocumentUnreadable``."""
        if document is None or (text := document.entries.get(_CLUSTER)) is None:
            return None
        _, body = codec.decode(_CLUSTER_KIND, text, where=document.name)
        job = body.get("job")
        if not isinstance(job, str):
            raise DocumentUnreadable(f"the job of this cluster id is {job!r}", where=document.name, remedy="Restore it")
        return cls(job, body.get("begun") is True)


def bound(document: Document | None) -> tuple[str, bool] | None:
    """The job that a cluster id is bound to, and whether it has ever been led; ``None`` before any replica joined.

    Raises ``DocumentUnreadable``.
    """
    found = _Bound.of(document)
    return None if found is None else (found.job, found.begun)


def entries_of(document: Document | None) -> dict[str, str]:
    """What stands there of each replica, by its holder, whether it can be read or not."""
    entries = {} if document is None else document.entries
    return {key.removeprefix(_PREFIX): text for key, text in entries.items() if is_of_a_replica(key)}


def readable_replicas(document: Document | None) -> list[Replica]:
    """Everyone who said something, unreadable entries left out."""
    found = []
    for text in entries_of(document).values():
        with suppress(DocumentUnreadable):
            found.append(Replica.decode(text))
    return found


class ReplicaStore:
    def __init__(self, store: DocumentStore, name: str) -> None:
        self._store = store
        self.name = name
        self._moved: Moved | None = None  # as the start found it: nothing is moved while a replica runs

    @property
    def former_locks(self) -> Mapping[str, int]:
        """Kinds of lock from which the job was moved before this start, each with the highest epoch it granted."""
        return NO_FORMER_LOCKS if self._moved is None else self._moved.former

    @property
    def epoch_before(self) -> int:
        """The highest epoch that was granted before the job was moved here; 0 if it never was."""
        return 0 if self._moved is None else self._moved.epoch

    async def join(self, job: str) -> None:
        """Bind the cluster id to its job, for ever.

        Raises ``IdentityConflict`` for another job, and where the data have been moved elsewhere or have not arrived.
        """
        for _ in range(_TRIES):
            document = await self._store.read(self.name)
            ownership.refuse_removed(document)
            ownership.refuse_foreign(document, _CLUSTER)
            self._moved = _here(document, self.name)
            if (bound := _Bound.of(document)) is not None:
                if bound.job != job:
                    raise IdentityConflict(
                        f"this cluster id belongs to job {bound.job!r}, not {job!r}",
                        where="--cluster-id",
                        remedy=f"Use --job-id {bound.job}, or another --cluster-id",
                    )
                return
            if await self._write(document, _Bound(job).encode()):
                return
        raise DocumentError("could not be written", where=self.name, remedy="Look at the backend")

    async def job(self, *, removed: bool = False) -> str | None:
        """The job this cluster id is bound to; ``None`` before any replica joined. ``removed``: also where the data were removed for good.

        Raises ``IdentityConflict`` where the data have been moved elsewhere, have not arrived, or were removed.
        """
        document = await self._store.read(self.name)
        _here(document, self.name)
        if not removed:
            ownership.refuse_removed(document)
        bound = _Bound.of(document)
        return None if bound is None else bound.job

    async def begun(self) -> bool:
        """Whether anybody has ever led this cluster id's job, as far as its leaders came to say so."""
        bound = _Bound.of(await self._store.read(self.name))
        return bound is not None and bound.begun

    async def publish(self, replica: Replica, gone: Iterable[str] = ()) -> None:
        """Put one's own entry in, and take the entries of replicas out that are known to be dead.

        A leader says with it that the job has begun.
        """
        changes: dict[str, str | None] = {_PREFIX + holder: None for holder in gone}
        changes[_PREFIX + replica.holder] = codec.encode(_KIND, _VERSION, asdict(replica))
        await self._change(changes, begins=replica.role == "leader")

    async def leave(self, holder: str) -> None:
        await self.take_out([holder])

    async def take_out(self, holders: Iterable[str]) -> None:
        """Remove what these replicas said of themselves."""
        await self._change({_PREFIX + holder: None for holder in holders})

    async def read(self) -> list[Replica]:
        """Everyone who said something, unreadable entries left out: they are hints, and no decision rests on one alone."""
        return readable_replicas(await self._store.read(self.name))

    async def holders(self) -> set[str]:
        """Of everyone who said something, readable or not."""
        return {*entries_of(await self._store.read(self.name))}

    async def _change(self, changes: dict[str, str | None], *, begins: bool = False) -> None:
        for _ in range(_TRIES):
            document = await self._store.read(self.name)
            if begins:
                changes |= _beginning(document)
            there = {} if document is None else document.entries
            if all(text is None and key not in there for key, text in changes.items()):
                return  # one that was refused has said nothing, and writes nothing as it leaves
            if await self._write(document, changes):
                return
        raise DocumentError("could not be written", where=self.name, remedy="Look at the backend")

    async def _write(self, document: Document | None, changes: Mapping[str, str | None]) -> bool:
        content = Content(changes, leader=None, labels=REPLICAS_LABELS)
        outcome = (
            await self._store.create(self.name, content)
            if document is None
            else await self._store.replace(document, content)
        )
        return isinstance(outcome, Written)


def _here(document: Document | None, name: str) -> Moved | None:
    """How the data have come here, if they were moved. Raises ``IdentityConflict`` where they are not here, and ``DocumentUnreadable``."""
    moved = Moved.of(document)
    if moved is not None:
        moved.refuse_unless_here(name)
    return moved


def _beginning(document: Document | None) -> dict[str, str]:
    """What has to be written for ``begun``; nothing where the entry is gone or damaged, and kept for a person."""
    with suppress(DocumentUnreadable):
        bound = _Bound.of(document)
        if bound is not None and not bound.begun:
            return replace(bound, begun=True).encode()
    return {}
