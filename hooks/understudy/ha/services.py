"""What a cluster of replicas keeps outside of each of them, whichever backend keeps it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from understudy.blobs.model import BlobStore
from understudy.documents.model import DocumentStore
from understudy.ha.purge import Purge
from understudy.protocol.names import Names


async def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True, slots=True)
class HighAvailabilityServices:
    """The stores of one cluster id. ``close`` keeps everything, ``close_and_cleanup`` the tombstones of documents.

    ``documents``: the job's and the replicas'. ``lock``: the election's record; the same store, or one of its own. ``claims``: those
    outside of the lock's server, by which a restored or deleted lock never repeats an epoch; ``None`` for files below ``--ha-dir``, which
    a replica makes. ``requests`` counts what was sent to a server, by kind: ``requests``, ``writes``, ``bytes``. ``close`` ends connections, and is
    awaited once. ``blobs``: the HA storage, where there is one. ``scratch``: what ``--scratch`` is, where there is HA storage and it can
    be reached from here; both come from their own options, and services leave them out. ``place``: where the documents are, in words that follow
    "cluster flights", such as "in namespace jobs".
    """

    documents: DocumentStore
    lock: DocumentStore
    claims: DocumentStore | None = None
    requests: Mapping[str, int] = field(default_factory=dict)
    close: Callable[[], Awaitable[None]] = _nothing_to_close
    blobs: BlobStore | None = None
    scratch: BlobStore | None = None
    place: str = ""

    @property
    def floor(self) -> DocumentStore:
        """The claims of a replica's services, which are complete."""
        assert self.claims is not None, "a replica's services have claims"
        return self.claims

    async def close_and_cleanup(self, names: Names) -> None:
        """Remove the HA data of one job, and close. Not removed: checkpoints, savepoints, sinks and claims.

        Raises ``RequestRefused`` where the job may still run or has savepoints, and ``DocumentError``; everything is closed in any case.
        """
        purge = Purge(names, self.documents, [self.lock], self.blobs, self.scratch)
        try:
            await purge.check()
            async for _ in purge.remove():
                pass
        finally:
            await self.close()
