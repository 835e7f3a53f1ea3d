"""Blobs as objects of a bucket, created by a conditional PUT (``If-None-Match: *``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from obstore import delete_async, get_async, head_async, list_with_delimiter_async, put_async
from obstore import list as list_objects
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from understudy.blobs.model import check_name, check_prefix
from understudy.s3.client import Prefix
from understudy.s3.settings import S3Settings

#: Requests that failed before anything certain was answered are sent again so often, within a request's time.
_RETRIES = 3
#: Empty objects that are looked at, at the same time.
_AT_ONCE = 16


class S3BlobStore:
    """A ``BlobStore`` below ``prefix`` of a bucket. ``request_timeout`` in seconds, retries included.

    Not guaranteed on a server that ignores the condition of a PUT; ``probe`` finds one.
    """

    def __init__(self, bucket: str, prefix: str, settings: S3Settings, request_timeout: float) -> None:
        self._at = Prefix(bucket, prefix, settings, request_timeout, retries=_RETRIES, patience=2 * request_timeout)
        self.place = self._at.place
        self._looks = asyncio.Semaphore(_AT_ONCE)

    async def read(self, name: str) -> bytes | None:
        try:
            return await self._at.ask(name, _read(self._at.store, self._at.path(check_name(name))))
        except FileNotFoundError:
            return None

    async def create(self, name: str, data: bytes) -> bytes:
        path = self._at.path(check_name(name))
        while True:
            try:
                await self._at.ask(name, put_async(self._at.store, path, data, mode="create"))
            except AlreadyExistsError:
                pass  # by another writer; or by us, and the answer was lost
            else:
                return data
            found = await self.read(name)
            if found is not None:  # else it was deleted meanwhile
                return found

    async def delete(self, name: str) -> None:
        try:
            await self._at.ask(name, delete_async(self._at.store, self._at.path(check_name(name))))
        except FileNotFoundError:
            return

    async def names(self, prefix: str) -> list[str]:
        return sorted([each.removeprefix(self._at.prefix) async for page in self._pages(prefix) for each in page])

    async def directories(self, prefix: str) -> list[str]:
        path = self._at.path(check_prefix(prefix))
        found = await self._at.ask(prefix, list_with_delimiter_async(self._at.store, path))
        return sorted(each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])

    async def discard(self, prefix: str) -> int:
        """A page of names, and a request that deletes them, in turns: each within its own time."""
        count = 0
        async for paths in self._pages(check_prefix(prefix)):
            if paths:
                await self._at.ask(prefix, delete_async(self._at.store, paths))
            count += len(paths)
        return count

    async def _pages(self, prefix: str) -> AsyncIterator[list[str]]:
        """Paths of blobs, a page of the server's at a time: each has the time of a request."""
        pages = list_objects(self._at.store, self._at.path(prefix))
        while (page := await self._at.ask(prefix, anext(pages, None))) is not None:
            empty = [each["path"] for each in page if not each["size"]]
            found = await asyncio.gather(*(self._is_marker(each) for each in empty))
            markers = {path for path, is_one in zip(empty, found, strict=True) if is_one}
            yield [each["path"] for each in page if each["path"] not in markers]

    async def _is_marker(self, path: str) -> bool:
        """Whether it is a directory to S3A and no blob: S3A leaves an empty object ``path/`` where it has deleted the last file below. The client lists
        it without the slash, and can neither read nor delete it.
        """
        async with self._looks:
            try:
                await self._at.ask(path.removeprefix(self._at.prefix), head_async(self._at.store, path))
            except FileNotFoundError:
                return True
            return False

    async def close(self) -> None:
        pass


async def _read(store: S3Store, path: str) -> bytes:
    return bytes(await (await get_async(store, path)).bytes_async())
