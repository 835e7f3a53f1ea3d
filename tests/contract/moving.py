"""What tests of a move share: two places, a job that was led at one of them, and clients that die before any of their requests."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.backends import PATIENT, Bucket, Filesystem, Memory, Servers
from tests.doubles.epochs import nothing_granted
from understudy.clock import BootClock
from understudy.config.timings import Timings
from understudy.documents.model import Content, Document, DocumentStore, LeaderRecord, Outcome, Written
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.election.multi import MultiStore
from understudy.election.records import GRANT, GrantEntry
from understudy.errors import IdentityConflict
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.moved import Moved, refuse_left_lock
from understudy.ha.moving import Move, Place
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.names import LOCK_LABELS, Names

NAMES = Names("flights", "flights")
EPOCH = 5
#: As an API server takes it.
THEN = "2026-11-26T00:00:00.000000Z"
SHORT = Timings(lease=3.0, renew=2.0, retry=0.1, request=0.8, kill=0.05, write_timeout=0.9)


class Killed(BaseException):
    pass


@dataclass
class Requests:
    """Counts them, and dies before the one of number ``last``; 0 for never."""

    last: int = 0
    sent: int = 0

    def next(self) -> None:
        self.sent += 1
        if self.sent == self.last:
            raise Killed


@dataclass(frozen=True)
class Counted:
    """A store whose requests are counted with those of others."""

    store: DocumentStore
    requests: Requests

    async def read(self, name: str) -> Document | None:
        self.requests.next()
        return await self.store.read(name)

    async def create(self, name: str, content: Content) -> Outcome:
        self.requests.next()
        return await self.store.create(name, content)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        self.requests.next()
        return await self.store.replace(seen, content)

    async def bury(self, seen: Document) -> Outcome:
        self.requests.next()
        return await self.store.bury(seen)

    def watch(self, name: str) -> AsyncIterator[Document | None]:
        return self.store.watch(name)


@dataclass(frozen=True)
class End:
    """A place that a job may be at. ``locks``: by kind, with what a replica that is told this kind is given."""

    words: str
    documents: DocumentStore
    locks: dict[str, DocumentStore]

    def place(self, requests: Requests, words: str) -> Place:
        held = {kind: Counted(store, requests) for kind, store in self.locks.items() if kind != "multi"}
        return Place(Counted(self.documents, requests), held, tuple(self.locks), words)


def one(words: str, store: DocumentStore, kind: str) -> End:
    return End(words, store, {kind: store})


def api_server() -> End:
    """ConfigMaps and Leases, with the manners of an API server."""
    configmaps, leases = Memory().client(), Memory().client()
    locks = {"lease": leases, "configmap": configmaps, "multi": MultiStore(configmaps, leases)}
    return End("--ha kubernetes", configmaps, locks)


@dataclass
class Ends:
    """Two places, each with the kind of lock there. They may be one, and then the kind alone changes."""

    old: End
    old_lock: str
    new: End
    new_lock: str

    @property
    def back(self) -> Ends:
        return Ends(self.new, self.new_lock, self.old, self.old_lock)

    def move(self, requests: Requests | None = None, *, ended: bool = False) -> Move:
        counted = requests or Requests()
        return Move(
            NAMES,
            self.old.place(counted, self.old.words),
            self.new.place(counted, f"{self.new.words} --lock {self.new_lock}"),
            self.new_lock,
            Counted(self.new.locks[self.new_lock], counted),
            self.old is self.new,
            1000.0,
            ended,
        )

    async def moved(self, requests: Requests | None = None, *, ended: bool = False) -> list[str]:
        return [each async for each in self.move(requests, ended=ended).run()]


PAIRS = ("filesystem, s3", "filesystem, kubernetes", "lease, configmap", "lease, multi")


def make_ends(pair: str, directory: Path, servers: Servers) -> Ends:
    if pair == "lease, configmap":
        here = api_server()
        return Ends(here, "lease", here, "configmap")
    if pair == "lease, multi":
        here = api_server()
        return Ends(here, "lease", here, "multi")
    disk = one("--ha filesystem", Filesystem(directory).client(), "file")
    if pair == "filesystem, kubernetes":
        return Ends(disk, "file", api_server(), "configmap")
    made = servers.make("s3", directory)
    assert isinstance(made, Bucket)
    return Ends(disk, "file", one("--ha s3", made.client(), "s3"), "s3")


def replica(holder: str) -> Replica:
    return Replica(holder, "leader", False, "", 0, 0.0, "", "", 1, 1, "a", 0, "", 0.0)


async def begin(end: End, kind: str, *, released: bool = True) -> Job:
    """A job that was led at ``end``, in epoch 5, and whose replicas have ended."""
    replicas = ReplicaStore(end.documents, NAMES.replicas)
    await replicas.join("flights")
    await replicas.publish(replica("a"))
    await replicas.leave("a")
    jobs = JobStore(end.documents, NAMES.job_document, "flights", "job.py")
    begun = await jobs.begin_attempt(EPOCH, "a", nothing_granted, Generation())
    await jobs.claims(begun.token, ("/checkpoint",))
    grant = GrantEntry(EPOCH, "a", "nonce", released=released, lock=kind)
    leader = LeaderRecord("" if released else "a", 1.0, THEN, THEN, 0)
    made = await end.locks[kind].create(NAMES.lock, Content({GRANT: grant.encode()}, leader, LOCK_LABELS))
    assert isinstance(made, Written)
    job = await jobs.read()
    assert job is not None
    return job


async def started(end: End, kind: str) -> ReplicaStore:
    """As a replica does before anything else. Raises ``IdentityConflict`` where it may not."""
    replicas = ReplicaStore(end.documents, NAMES.replicas)
    await replicas.join("flights")
    refuse_left_lock(await end.locks[kind].read(NAMES.lock), NAMES.lock)
    return replicas


async def may_start(end: End, kind: str) -> bool:
    if await end.documents.read(NAMES.replicas) is None:
        return False  # it may, as a new job; a replica that did would be in the way of the move
    try:
        await started(end, kind)
    except IdentityConflict:
        return False
    return True


async def job_at(end: End) -> Job | None:
    return await JobStore(end.documents, NAMES.job_document, "flights", "job.py").read()


async def check_arrived(ends: Ends, job: Job) -> None:
    replicas = await started(ends.new, ends.new_lock)
    assert await job_at(ends.new) == job
    assert replicas.epoch_before >= EPOCH
    if ends.old_lock != ends.new_lock:
        assert replicas.former_locks[ends.old_lock] >= EPOCH
    assert ends.new_lock not in replicas.former_locks
    if ends.new_lock != "multi":  # which takes over from the Lease in any case
        with pytest.raises(IdentityConflict, match="the job has moved to .*--lock"):
            await started(ends.old, ends.old_lock)


async def check_one_starts(ends: Ends) -> None:
    """Once the move has begun. Before it, and under ``multi``, other things keep the second kind away."""
    begun = Moved.of(await ends.old.documents.read(NAMES.replicas)) is not None
    at_both = await may_start(ends.old, ends.old_lock) and await may_start(ends.new, ends.new_lock)
    assert not (begun and at_both) or "multi" in {ends.old_lock, ends.new_lock}


class Candidate:
    def __init__(self) -> None:
        self.grants: list[Grant] = []

    def granted(self, grant: Grant) -> None:
        self.grants.append(grant)

    def renewed(self, sent_at: float) -> None:
        pass

    def lost(self, reason: str) -> None:
        raise AssertionError(reason)


async def lead(end: End, kind: str) -> int:
    """The epoch that an elector is granted; it releases the lock."""
    candidate = Candidate()
    store, log = end.locks[kind], Log(stream=io.StringIO())
    holder = f"holder-{kind}"
    elector = Elector(
        store, NAMES.lock, holder, SHORT, BootClock(), candidate, log, min_epoch=nothing_granted, lock_kind=kind
    )
    elector.ready(True)
    running = asyncio.ensure_future(elector.run())
    async with asyncio.timeout(PATIENT):
        while not candidate.grants:  # noqa: ASYNC110 - the elector appends
            await asyncio.sleep(0.01)
        assert await elector.release(None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return candidate.grants[0].epoch
