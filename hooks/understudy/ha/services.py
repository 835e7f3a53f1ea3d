"""What a cluster of replicas keeps outside of each of them, whichever backend keeps it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from understudy.blobs.model import BlobStore
from understudy.documents.model import DocumentStore


@dataclass(frozen=True, slots=True)
class HighAvailabilityServices:
    """The stores of one cluster id. They keep everything when they are closed.

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
