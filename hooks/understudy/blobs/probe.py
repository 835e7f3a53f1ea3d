"""Whether a store keeps the one promise that results rest on: what was created is not replaced. Found out by trying."""

from __future__ import annotations

import uuid

from understudy.blobs.model import BlobStore
from understudy.errors import EnvironmentProblem


async def probe(store: BlobStore) -> None:
    """Write one name twice, and remove it. A server's own word for what it supports says nothing.

    Raises:
        EnvironmentProblem: the second write has replaced the first.
        DocumentError: the store cannot be used at all.
    """
    name = f"probes/{uuid.uuid4().hex}"
    try:
        first = await store.create(name, b"first")
        second = await store.create(name, b"second")
        read = await store.read(name)
    finally:
        await store.delete(name)
    if (first, second, read) != (b"first", b"first", b"first"):
        raise EnvironmentProblem(
            "the object store replaces what was created, although it is asked not to (If-None-Match)",
            where=store.place,
            remedy="Keep HA storage in a store that honours conditional writes",
        )
