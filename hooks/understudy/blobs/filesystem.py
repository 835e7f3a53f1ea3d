"""Blobs as files below one directory of one machine: published whole by link(2), which fails on a name that exists."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from understudy.blobs.model import check_name, check_prefix
from understudy.errors import DocumentError
from understudy.threads import Threads

T = TypeVar("T")

#: Names of files that are being written; no blob's name begins like this.
_TEMPORARY = ".new-"


class FilesystemBlobStore:
    """A ``BlobStore`` in ``directory``, which is made with its first blob. ``request_timeout`` in seconds.

    Not guaranteed on network filesystems, where link(2) may do what it says it has not done.
    """

    def __init__(self, directory: Path, request_timeout: float) -> None:
        self.directory = directory
        self._timeout = request_timeout
        self._threads = Threads()
        self.place = directory.as_uri()

    async def read(self, name: str) -> bytes | None:
        path = self.directory / check_name(name)
        return await self._call(name, lambda: _read(path))

    async def create(self, name: str, data: bytes) -> bytes:
        path = self.directory / check_name(name)
        return await self._call(name, lambda: _create(path, data))

    async def delete(self, name: str) -> None:
        path = self.directory / check_name(name)
        await self._call(name, lambda: path.unlink(missing_ok=True))

    async def names(self, prefix: str) -> list[str]:
        return await self._call(prefix, lambda: sorted(_below(self.directory, prefix)))

    async def directories(self, prefix: str) -> list[str]:
        directory = self.directory / check_prefix(prefix)
        return await self._call(prefix, lambda: sorted(_directories(directory)))

    async def discard(self, prefix: str) -> int:
        directory = self.directory / check_prefix(prefix)
        return await self._call(prefix, lambda: _discard(directory))

    async def close(self) -> None:
        pass

    async def _call(self, name: str, function: Callable[[], T]) -> T:
        try:
            return await self._threads.call(function, self._timeout)
        except TimeoutError as error:
            raise DocumentError(
                f"no answer within {self._timeout:g} s", where=f"{self.place}/{name}", remedy="Is the disk alive?"
            ) from error
        except OSError as error:
            raise DocumentError(
                error.strerror or str(error), where=f"{self.place}/{name}", remedy="Is the disk alive, and is it ours?"
            ) from error


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _create(path: Path, data: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    found = _read(path)
    return data if found is None else found  # it was deleted meanwhile


def _below(directory: Path, prefix: str) -> list[str]:
    start = directory / prefix
    return [
        Path(at, name).relative_to(directory).as_posix()
        for at, _, files in os.walk(start)
        for name in files
        if not name.startswith(_TEMPORARY)
    ]


def _directories(directory: Path) -> list[str]:
    """Also such as no file is in, which a listing of names would not show."""
    try:
        with os.scandir(directory) as entries:
            return [each.name for each in entries if each.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _discard(directory: Path) -> int:
    count = sum(len(files) for _, _, files in os.walk(directory))
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
    return count
