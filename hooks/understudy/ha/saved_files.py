"""The files of a savepoint, and a fork of them: new checkpoints, of queries with other ids.

The driver's JVM writes the list of what it has copied (``FileList.java``): a line for each file, ``SHA-256 length name``, in the order of names.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from understudy.blobs.digest import is_whole, sha256
from understudy.blobs.model import BlobStore
from understudy.errors import DocumentUnreadable, RequestRefused
from understudy.ha.at_once import for_each
from understudy.ha.savepoints import LIST, MANIFEST, Manifest, Savepoint
from understudy.protocol.savepoint import SavedQuery

#: Spark's file with the query's id.
_METADATA = "metadata"
#: Stands at the new place while a fork is made there. Directories of queries are beside it.
_CLAIM = "_fork"
_OTHER = "Use another savepoint: this one cannot be trusted"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """``name``: below the query's directory. ``length`` in bytes."""

    sha256: str
    length: int
    name: str

    def is_(self, data: bytes | None) -> bool:
        return is_whole(data, self.sha256, self.length)


async def read_manifest(store: BlobStore, one: Savepoint, cluster: str, job: str) -> Manifest:
    """The manifest of ``one``, in ``store``, which is its place. Raises ``DocumentUnreadable`` where it is gone, or another's."""
    where = f"{store.place}/{MANIFEST}"
    data = await store.read(MANIFEST)
    if data is None:
        raise DocumentUnreadable("the savepoint has no manifest: it was removed, or lost", where=where, remedy=_OTHER)
    manifest = Manifest.decode(data, where)
    if (manifest.cluster, manifest.job, manifest.number) != (cluster, job, one.number):
        found = f"savepoint {manifest.number} of job {manifest.job} of cluster {manifest.cluster}"
        raise DocumentUnreadable(f"the manifest is of {found}", where=where, remedy=_OTHER)
    return manifest


async def refuse_another(store: BlobStore, one: Savepoint) -> None:
    """Raises ``RequestRefused`` where the manifest at the place of ``one``, which has failed, is not its own: earlier releases gave a number, and a
    directory, again where the documents were lost.
    """
    where = f"{store.place}/{MANIFEST}"
    if (data := await store.read(MANIFEST)) is None:
        return
    try:
        manifest = Manifest.decode(data, where)
        ours = (manifest.number, manifest.at) == (one.number, one.at)
    except DocumentUnreadable:
        ours = False
    if not ours:
        raise RequestRefused(
            f"savepoint {one.number} has failed, and this manifest is of another one",
            where=where,
            remedy="Move that directory away to keep it, or remove it by hand; then dispose again",
        )


async def files_of(store: BlobStore, query: SavedQuery) -> list[SavedFile]:
    """What was copied of ``query``. Raises ``DocumentUnreadable`` where the list is not the manifest's."""
    if query.batch < 0:
        return []
    name = f"{query.directory}{LIST}"
    data = await store.read(name)
    if data is None or sha256(data) != query.digest:
        what = "is gone" if data is None else "is not the one of the manifest"
        raise DocumentUnreadable(
            f"the savepoint is torn: the list of its files {what}", where=f"{store.place}/{name}", remedy=_OTHER
        )
    lines = (line.split(" ", 2) for line in data.decode().splitlines())
    return [SavedFile(sha256, int(length), file) for sha256, length, file in lines]


def directory_for(query: SavedQuery, manifest: Manifest) -> str:
    """Where a fork has ``query``, below the base of the new checkpoints: where a query of that name looks for its own, if that can be a directory there."""
    name = query.query
    alone = sum(each.query == name for each in manifest.queries) == 1
    return name if alone and not {"", ".", ".."} & {*name.split("/")} else query.directory


async def fork(source: BlobStore, manifest: Manifest, target: BlobStore, below: Callable[[str], BlobStore]) -> None:
    """Copy every query of ``manifest``, in ``source``, to a directory of ``target``, under a new id. ``below``: the store that such a directory is, since
    the name of a query need not be one of a blob.

    The files with the ids are last: a query does not start from a directory without. Raises ``RequestRefused`` where something is at the new place
    already, or another fork is being made there; ``DocumentUnreadable`` where a file is not as the savepoint lists it; and ``DocumentError``. What was
    copied is removed again then, and nothing else.
    """
    claim = uuid.uuid4().hex.encode()
    if await target.create(_CLAIM, claim) != claim:
        raise RequestRefused(
            "another fork is being made there, or was interrupted",
            where=f"{target.place}/{_CLAIM}",
            remedy="Name another --checkpoints; or, if none is under way, remove what it has left there, and this file",
        )
    copied: list[tuple[BlobStore, str]] = []
    try:
        # asked under the claim: another fork may have come to its end meanwhile
        stores = {each.directory: below(directory_for(each, manifest)) for each in manifest.queries}
        await _refuse_filled(stores.values())
        await _copy_queries(source, manifest, stores, copied)
    except BaseException:
        await for_each(lambda each: each[0].delete(each[1]), copied)
        await target.delete(_CLAIM)
        raise
    await target.delete(_CLAIM)


async def _refuse_filled(stores: Iterable[BlobStore]) -> None:
    for store in stores:
        if await store.names(""):
            raise RequestRefused("it is not empty", where=store.place, remedy="Name another --checkpoints")


async def _copy_queries(
    source: BlobStore, manifest: Manifest, stores: Mapping[str, BlobStore], copied: list[tuple[BlobStore, str]]
) -> None:
    """``stores``: by the query's directory. ``copied`` gets each file that is ours, or may be. Raises what ``fork`` does."""

    async def create(store: BlobStore, name: str, data: bytes) -> None:
        copied.append((store, name))
        if await store.create(name, data) != data:
            copied.remove((store, name))
            raise RequestRefused(
                "something else was written there meanwhile",
                where=f"{store.place}/{name}",
                remedy="Name another --checkpoints, where nothing runs",
            )

    for query in manifest.queries:
        files = [each for each in await files_of(source, query) if each.name != _METADATA]

        async def copy(file: SavedFile, directory: str = query.directory) -> None:
            await create(stores[directory], file.name, await _read(source, f"{directory}/{file.name}", file))

        await for_each(copy, files)
    for query in manifest.queries:
        if query.batch >= 0:
            await create(stores[query.directory], _METADATA, json.dumps({"id": str(uuid.uuid4())}).encode())


async def _read(source: BlobStore, name: str, file: SavedFile) -> bytes:
    """Raises ``DocumentUnreadable`` where it is not as ``file`` has it."""
    data = await source.read(name)
    if data is None or not file.is_(data):
        what = "is gone" if data is None else "is not as it was copied"
        where = f"{source.place}/{name}"
        raise DocumentUnreadable(f"the savepoint is torn: this file {what}", where=where, remedy=_OTHER)
    return data


async def discard(store: BlobStore) -> None:
    """Remove all of a savepoint, whose place ``store`` is: the manifest first, so that it is whole or none. Raises ``DocumentError``."""
    await store.delete(MANIFEST)
    await for_each(store.delete, await store.names(""))
