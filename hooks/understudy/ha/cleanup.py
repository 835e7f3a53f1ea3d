"""What an ended run and dead replicas leave behind, and which of it may go: a pure plan over facts, and idempotent steps.

Never part of it: checkpoints, sinks, claims, the lock, the documents, the clean result of a run, and a savepoint that is complete. What the job has
forgotten of those is a plan of its own, which only a person carries out.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from understudy.blobs.model import BlobStore
from understudy.ha.artifacts import ArtifactStore, beyond, unreferenced
from understudy.ha.job import Job
from understudy.ha.replicas import ReplicaStore
from understudy.ha.results import JobResult, JobResultStore
from understudy.ha.savepoints import MANIFEST, REMEMBERED, Proof, number_in, savepoints_of
from understudy.protocol.names import Names


class Place(enum.StrEnum):
    """Which store something is left in."""

    SCRATCH = "scratch"
    RESULTS = "results"
    SAVEPOINTS = "savepoints"
    ARTIFACTS = "artifacts"


@dataclass(frozen=True, slots=True)
class Leftover:
    """``name`` of a blob; where it ends with a slash, everything below it."""

    place: Place
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Of ``cluster``. ``scratch`` and ``results``: names of what is there, of this cluster and of its job. ``living``: holders of the replicas that have not
    left, as the replicas' document told *after* ``scratch`` was listed: a replica is in that document before it writes anything. ``saved``: names of what
    is there of savepoints of ``job``; ``artifacts``: of what was submitted for it, and ``needed``: what its last submission consists of, ``None`` where
    that is not known.
    """

    cluster: str
    scratch: Collection[str] = ()
    living: Collection[str] = ()
    results: Collection[str] = ()
    saved: Collection[str] = ()
    job: Job | None = None
    artifacts: Collection[str] = ()
    needed: Collection[str] | None = None


def scratch_of(cluster: str, holder: str = "") -> str:
    """Where rehearsals of a replica write below ``--scratch``; of all replicas of the cluster without ``holder``."""
    return f"{cluster}/{holder}/" if holder else f"{cluster}/"


def plan(facts: Facts) -> tuple[Leftover, ...]:
    """What may go; in order, and the same for the same facts."""
    below = scratch_of(facts.cluster)
    holders = {name.removeprefix(below).partition("/")[0] for name in facts.scratch if name.startswith(below)}
    # guard: scratch-of-the-living-stays
    dead = sorted(holders - {*facts.living})
    found = [Leftover(Place.SCRATCH, scratch_of(facts.cluster, each), f"replica {each} is gone") for each in dead]
    dirty = JobResultStore.dirty_beside_clean(facts.results)
    dirt = (Leftover(Place.RESULTS, name, "its result is clean by now") for name in dirty)
    return (*found, *dirt, *_failed_savepoints(facts), *_earlier_submissions(facts))


def _failed_savepoints(facts: Facts) -> Iterator[Leftover]:
    """What is there of savepoints that have failed. Such a one is never complete any more: its request has been answered. But where a manifest
    stands, that is of a savepoint which is complete, or was once: a person decides.
    """
    if facts.job is None:
        return
    there = savepoints_there(facts)
    for one in facts.job.savepoints_now:
        name = there.get(one.directory, "")
        if one.state == Proof.FAILED and name and f"{name}{MANIFEST}" not in facts.saved:
            yield Leftover(Place.SAVEPOINTS, name, f"savepoint {one.number} has failed")


def _earlier_submissions(facts: Facts) -> Iterator[Leftover]:
    """A replica fetches the last one when it starts, and keeps what it runs on its own disk."""
    if facts.job is not None and facts.artifacts:
        known, names = facts.job.submissions, Names(facts.cluster, facts.job.job)
        last = "none" if known.current is None else f"submission {known.current.number}"
        for each in unreferenced(facts.artifacts, facts.needed, known, names):
            yield Leftover(Place.ARTIFACTS, each, f"replicas that start run {last}")


def forgotten(facts: Facts) -> tuple[Leftover, ...]:
    """What is there of savepoints that the job does not know any more: those before the oldest of as many as it remembers, and what a command that was
    interrupted has left without a manifest. Of any other that is complete and unknown the documents may have been restored.
    """
    if facts.job is None or not facts.job.savepoints.readable:
        return ()
    known = facts.job.savepoints.known
    directories = {each.directory for each in known}
    oldest = known[0].number if len(known) >= REMEMBERED else 0
    last = facts.job.checkpoints.counter or 0
    found = []
    for directory, name in savepoints_there(facts).items():
        number = number_in(directory)
        if directory in directories or number is None or number > last:
            continue
        whole = f"{name}{MANIFEST}" in facts.saved
        if number < oldest:
            found.append(Leftover(Place.SAVEPOINTS, name, f"the job has forgotten savepoint {number}"))
        elif not whole:
            found.append(Leftover(Place.SAVEPOINTS, name, f"savepoint {number} is not known, and has no manifest"))
    return tuple(found)


def savepoints_there(facts: Facts) -> dict[str, str]:
    """By directory, in the order of numbers, where each is."""
    if facts.job is None:
        return {}
    base = savepoints_of(facts.cluster, facts.job.job)
    there = {name.removeprefix(base).partition("/")[0] for name in facts.saved if name.startswith(base)}
    numbered = sorted((number, each) for each in there if (number := number_in(each)) is not None)
    return {each: f"{base}{each}/" for _, each in numbered}


def expired(results: Iterable[JobResult], keep: int, current: str) -> list[JobResult]:
    """Results that are older than the newest ``keep``; never that of run ``current``."""
    by_age = sorted(results, key=lambda each: each.token)
    return [each for each in by_age[: max(len(by_age) - keep, 0)] if each.run != current]


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Of one cluster id. ``scratch``: the store that ``--scratch`` is, where it can be reached from here. Every method raises ``DocumentError``.
    What is asked about savepoints is asked of ``job``, as its document told: what has failed there, or is forgotten, stays so.
    """

    cluster: str
    results: JobResultStore
    replicas: ReplicaStore
    scratch: BlobStore | None = None

    async def find(self, own: str = "", job: Job | None = None) -> tuple[Leftover, ...]:
        """``own``: the replica that asks, if it has no driver any more."""
        scratch = await self.scratch.names(scratch_of(self.cluster)) if self.scratch is not None else []
        living = await self.replicas.holders() - {own} if scratch else set()
        failed = job is not None and any(each.state == Proof.FAILED for each in job.savepoints_now)
        saved = await self._saved(job) if job is not None and failed else []
        results = await self.results.names()
        # asked before they are listed; a job for which nothing was submitted costs no request
        store = self._artifacts(job) if job is not None and job.submissions.last else None
        needed = await store.needed(job.submissions) if store is not None and job is not None else None
        artifacts = await store.there() if store is not None else []
        return plan(Facts(self.cluster, scratch, living, results, saved, job, artifacts, needed))

    async def broken_off(self, job: Job) -> int:
        """The highest number of a submission of which files are there, and which was never given: it failed, or is under way; 0 for none.

        Once that number is taken back (``artifacts.take_back``), ``find`` finds them.
        """
        store = self._artifacts(job)
        return beyond(await store.there(), job.submissions, store.names)

    def _artifacts(self, job: Job) -> ArtifactStore:
        return ArtifactStore(self.results.blobs, Names(self.cluster, job.job))

    async def forgotten(self, job: Job) -> tuple[Leftover, ...]:
        return forgotten(Facts(self.cluster, saved=await self._saved(job), job=job))

    async def _saved(self, job: Job) -> list[str]:
        return await self.results.blobs.names(savepoints_of(self.cluster, job.job))

    async def expired(self, keep: int, current: str) -> tuple[Leftover, ...]:
        """Results of all but the newest ``keep`` runs, and of run ``current``."""
        old = expired(await self.results.all(), keep, current)
        return tuple(
            Leftover(Place.RESULTS, self.results.below(each), f"there are {keep} newer results") for each in old
        )

    async def remove(self, leftover: Leftover) -> None:
        store = self.scratch if leftover.place is Place.SCRATCH else self.results.blobs
        assert store is not None, "nothing was found there"
        if leftover.place is Place.SAVEPOINTS:
            await store.delete(f"{leftover.name}{MANIFEST}")  # first, so that a savepoint is whole or none
        await (store.discard if leftover.name.endswith("/") else store.delete)(leftover.name)
