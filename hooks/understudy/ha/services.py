"""What a cluster of replicas keeps outside of each of them, whichever backend keeps it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from understudy.blobs.model import BlobStore
from understudy.documents.model import DocumentStore
from understudy.ha.purge import Purge
from understudy.protocol.names import Names


@dataclass(frozen=True, slots=True)
class HighAvailabilityServices:
    """The stores of one cluster id. ``close`` keeps everything, ``close_and_cleanup`` the tombstones of documents.

    ``documents``: the job's and the replicas'. ``lock``: the election's record; the same store, or one of its own. ``claims``: those
    outside of the lock's server, by which a restored or deleted lock never repeats an epoch. ``requests`` counts what was sent to
    a server, by kind. ``blobs``: the HA storage, where there is one. ``scratch``: what ``--scratch`` is, where there is HA storage and it can
    be reached from here.
    """

    documents: DocumentStore
    lock: DocumentStore
    claims: DocumentStore
    requests: Mapping[str, int]
    close: Callable[[], Awaitable[None]]
    blobs: BlobStore | None = None
    scratch: BlobStore | None = None

    async def close_and_cleanup(self, names: Names) -> None:
        """Remove the HA data of one job, and close. Not removed: checkpoints, savepoints, sinks and claims.

        Raises ``RequestRefused`` where the job may still run or has savepoints, and ``DocumentError``; everything is closed in any case.
        """
        purge = Purge(names, self.documents, self.lock, self.blobs, self.scratch)
        try:
            await purge.check()
            async for _ in purge.remove():
                pass
        finally:
            await self.close()
