"""Removes the HA data of one job that has ended: what Flink's services do when they are closed and all their data are cleaned up.

Documents become tombstones: tokens must never start again while a frozen replica may hold one, and a replica's rights let it delete no object. So
the cluster id is used up. Never part of it: checkpoints, savepoints, sinks, and claims.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from understudy.blobs.model import BlobStore
from understudy.documents.model import DocumentStore, Written
from understudy.documents.settle import read_or_shell
from understudy.errors import DocumentError, RequestRefused
from understudy.ha.artifacts import artifacts_of_job
from understudy.ha.backup import living_leader
from understudy.ha.cleanup import scratch_of
from understudy.ha.job import Job
from understudy.ha.results import results_of_job
from understudy.ha.savepoints import ROOT
from understudy.protocol.names import Names


@dataclass(frozen=True, slots=True)
class Purge:
    """``locks``: each store in which a replica may hold the lock. ``blobs``: the HA storage, and ``scratch``: what ``--scratch`` is, where the job has
    them.
    """

    names: Names
    documents: DocumentStore
    locks: Collection[DocumentStore]
    blobs: BlobStore | None = None
    scratch: BlobStore | None = None

    async def check(self) -> None:
        """Raises ``RequestRefused`` unless the job has ended and no replica leads, which takes a lease to see; and ``DocumentError``."""
        document = await self.documents.read(self.names.job_document)
        job = None if document is None else Job.of(document)
        if job is not None and not job.status.terminal:
            raise RequestRefused(
                f"the job is {job.status}", where="purge", remedy="End it first: understudy cancel, or drain"
            )
        kept = (
            await self.blobs.names(f"{ROOT}/{self.names.cluster}/{self.names.job}/") if self.blobs is not None else []
        )
        if kept:
            raise RequestRefused(
                f"the job has savepoints: {len(kept)} files, the first is {kept[0]}",
                where="purge",
                remedy="Remove each with understudy dispose: without the job's record it could not be found any more",
            )
        known = [each for each in job.savepoints_now if each.complete] if job is not None else []
        if known:
            raise RequestRefused(
                f"the job has savepoint {known[0].number}, in {known[0].place}",
                where="purge",
                remedy="Remove each with understudy dispose: without the job's record it could not be found any more",
            )
        if leader := await living_leader(self.locks, self.names.lock):
            raise RequestRefused(f"replica {leader} leads the job", where="purge", remedy="End its replicas first")

    async def remove(self, *, dry: bool = False) -> AsyncIterator[str]:
        """Each thing that goes, in words, once it is gone; or would go, if ``dry``. May be repeated, and the job's record goes last: where it breaks off,
        the next one goes on. Raises ``DocumentError``.
        """
        stores = (
            (self.scratch, scratch_of(self.names.cluster), "scratch"),
            (self.blobs, results_of_job(self.names), "results"),
            (self.blobs, artifacts_of_job(self.names), "artifacts"),
        )
        for store, prefix, what in stores:
            if store is not None and (count := len(await store.names(prefix))):
                if not dry:
                    await store.discard(prefix)
                yield f"{what}: {count} below {prefix}"
        for documents, name in (
            (self.documents, self.names.replicas),
            *((lock, self.names.lock) for lock in self.locks),
            (self.documents, self.names.job_document),
        ):
            if await self._bury(documents, name, dry=dry):
                yield f"document {name}, which becomes a tombstone"

    @staticmethod
    async def _bury(documents: DocumentStore, name: str, *, dry: bool) -> bool:
        """Whether there was something to bury."""
        seen = await read_or_shell(documents, name)
        if seen is None or seen.buried:
            return False
        if not dry and not isinstance(await documents.bury(seen), Written):
            raise DocumentError("it was not buried", where=name, remedy="Repeat understudy purge; see what writes it")
        return True
