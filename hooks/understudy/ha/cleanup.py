"""What an ended run and dead replicas leave behind, and which of it may go: a pure plan over facts, and idempotent steps.

Never part of it: checkpoints, sinks, claims, the lock, the documents, and the clean result of a run.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from understudy.blobs.model import BlobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.results import JobResult, JobResultStore


class Place(enum.StrEnum):
    """Which store something is left in."""

    SCRATCH = "scratch"
    RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Leftover:
    """``name`` of a blob; where it ends with a slash, everything below it."""

    place: Place
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Of ``cluster``. ``scratch`` and ``results``: names of what is there, of this cluster and of its job. ``living``: holders of the replicas that have not
    left, as the replicas' document told *after* ``scratch`` was listed: a replica is in that document before it writes anything.
    """

    cluster: str
    scratch: Collection[str] = ()
    living: Collection[str] = ()
    results: Collection[str] = ()


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
    return (*found, *(Leftover(Place.RESULTS, name, "its result is clean by now") for name in dirty))


def expired(results: Iterable[JobResult], keep: int, current: str) -> list[JobResult]:
    """Results that are older than the newest ``keep``; never that of run ``current``."""
    by_age = sorted(results, key=lambda each: each.token)
    return [each for each in by_age[: max(len(by_age) - keep, 0)] if each.run != current]


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Of one cluster id. ``scratch``: the store that ``--scratch`` is, where it can be reached from here. Every method raises ``DocumentError``."""

    cluster: str
    results: JobResultStore
    replicas: ReplicaStore
    scratch: BlobStore | None = None

    async def find(self, own: str = "") -> tuple[Leftover, ...]:
        """``own``: the replica that asks, if it has no driver any more."""
        scratch = await self.scratch.names(scratch_of(self.cluster)) if self.scratch is not None else []
        living = await self.replicas.holders() - {own} if scratch else set()
        return plan(Facts(self.cluster, scratch, living, await self.results.names()))

    async def expired(self, keep: int, current: str) -> tuple[Leftover, ...]:
        """Results of all but the newest ``keep`` runs, and of run ``current``."""
        old = expired(await self.results.all(), keep, current)
        return tuple(
            Leftover(Place.RESULTS, self.results.below(each), f"there are {keep} newer results") for each in old
        )

    async def remove(self, leftover: Leftover) -> None:
        store = self.scratch if leftover.place is Place.SCRATCH else self.results.blobs
        assert store is not None, "nothing was found there"
        await (store.discard if leftover.name.endswith("/") else store.delete)(leftover.name)
