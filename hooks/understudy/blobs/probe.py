"""Whether a store keeps the one promise that results rest on: what was created is not replaced. Found out by trying."""

from __future__ import annotations

import uuid

from understudy.blobs.model import BlobStore
from understudy.errors import EnvironmentProblem

#: One blob for every trial there ever is: a replica that is killed in the middle of one leaves no other.
NAME = "probe"


async def probe(store: BlobStore) -> None:
    """Write one name twice, with two texts. It stays, since the first writer has to win for ever.

    A server's own word for what it supports says nothing.

    Raises:
        EnvironmentProblem: the second write has replaced the first.
        DocumentError: the store cannot be used at all.
    """
    first = await store.create(NAME, uuid.uuid4().bytes)
    second = await store.create(NAME, uuid.uuid4().bytes)
    if not first == second == await store.read(NAME):
        raise EnvironmentProblem(
            "the object store replaces what was created, although it is asked not to (If-None-Match)",
            where=store.place,
            remedy="Keep HA storage in a store that honours conditional writes",
        )
