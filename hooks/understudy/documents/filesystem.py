"""Documents as numbered files in one directory of one machine; ``numbered`` says why that is safe.

Every request runs in a thread of its own and has a time-out. A write that timed out is ``Unknown``: its thread gives up if it
still can, but a link(2) under way lands whenever the disk wakes up. An error of the disk during a write is ``Unknown`` as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from understudy.documents import codec, record
from understudy.documents.directory import check_directory
from understudy.documents.model import Conflict, Content, Document, Outcome, Unknown, Written, check_name
from understudy.documents.notices import Notices
from understudy.documents.numbered import KEEP, Numbered
from understudy.documents.record import Record
from understudy.documents.size import SizeCheck
from understudy.errors import DocumentError, DocumentUnreadable
from understudy.events import Log
from understudy.threads import Threads

__all__ = ["FilesystemDocumentStore", "check_directory"]

#: Seconds between two looks of a watcher: with inotify (which reports no deleted files here), and without inotify.
_LOOK, _LOOK_ALONE = 1.0, 0.1

#: A file name holds 255 bytes, and the number needs some.
_NAME_LIMIT = 230


class FilesystemDocumentStore:
    """A ``DocumentStore`` in ``directory``, which is made if it is missing; see ``check_directory`` for what it must offer.

    ``request_timeout`` is in seconds. ``keep`` must be the same in all processes that share the directory. ``at_step`` is for
    tests. Several stores, in one process or many, may share a directory.
    """

    def __init__(
        self,
        directory: Path,
        request_timeout: float,
        *,
        log: Log | None = None,
        keep: float = KEEP,
        at_step: Callable[[str], None] | None = None,
    ) -> None:
        self.directory = directory
        self._timeout = request_timeout
        self._size = SizeCheck(log)
        self._threads = Threads()
        self._files = Numbered(directory, keep=keep)
        if at_step is not None:
            self._files.at_step = at_step
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DocumentError(f"cannot be made: {error.strerror}", where=str(directory)) from error

    async def read(self, name: str) -> Document | None:
        _check(name)
        try:
            return await self._threads.call(lambda: self._read(name), self._timeout)
        except TimeoutError as error:
            raise DocumentError(
                f"no answer within {self._timeout} s", where=self._where(name), remedy="Is the disk alive?"
            ) from error
        except OSError as error:
            raise DocumentError(
                f"cannot be read: {error}", where=self._where(name), remedy="Is the disk alive?"
            ) from error

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._write(_check(name), None, lambda old: old.changed(content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._write(_check(seen.name), seen, lambda old: old.changed(content))

    async def bury(self, seen: Document) -> Outcome:
        return await self._write(_check(seen.name), seen, Record.buried)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        """The document now and after changes; changes in quick succession are told once. Never raises for a sick disk."""
        _check(name)
        changed = asyncio.Event()
        notices = Notices(self.directory, f"{name}@", changed)
        told: str | None = ""
        try:
            while True:
                with contextlib.suppress(DocumentError):  # only a hint: who needs to know why reads, and is told
                    document = await self.read(name)
                    revision = None if document is None else document.revision
                    if revision != told:
                        told = revision
                        yield document
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK if notices.heard else _LOOK_ALONE):
                        await changed.wait()
                changed.clear()
        finally:
            notices.close()

    async def _write(self, name: str, seen: Document | None, change: Callable[[Record], Record]) -> Outcome:
        abandoned = threading.Event()
        try:
            return await self._threads.call(lambda: self._swap(name, seen, change, abandoned), self._timeout)
        except TimeoutError as error:
            return Unknown(f"{self._where(name)}: no answer within {self._timeout} s ({error})")
        except OSError as error:
            return Unknown(f"{self._where(name)}: {error}")
        finally:
            abandoned.set()

    # What follows blocks, and runs in a thread.

    def _read(self, name: str) -> Document | None:
        found = self._files.read(name)
        return None if found is None else self._load(name, *found).document(name, _revision(*found))

    def _load(self, name: str, number: int, data: bytes) -> Record:
        return record.load(name, data, where=str(self._files.path(name, number)), revision=_revision(number, data))

    def _swap(
        self, name: str, seen: Document | None, change: Callable[[Record], Record], abandoned: threading.Event
    ) -> Outcome:
        looked = self._files.clock()
        found = self._files.read(name)
        if (None if found is None else _revision(*found)) != (None if seen is None else seen.revision):
            return Conflict(None if found is None else self._load(name, *found).document(name, _revision(*found)))
        number, old = 0, Record()
        if found is not None:
            number = found[0]
            # Nothing of an unreadable document can be kept; only its rightful holder, who names its revision, comes here.
            with contextlib.suppress(DocumentUnreadable):
                old = self._load(name, *found)
        new = change(old)
        data = record.dump(name, new)
        self._size.check(name, len(data))
        self._files.at_step("looked")
        if not self._files.publish(name, number + 1, data, looked, abandoned.is_set):
            return Conflict(self._read(name))
        self._files.collect(name, number + 1)
        return Written(new.document(name, _revision(number + 1, data)))

    def _where(self, name: str) -> str:
        return str(self.directory / name)


def _revision(number: int, data: bytes) -> str:
    """The number orders; the digest tells a document that was restored or edited in place from the one that was seen."""
    return f"{number}-{codec.digest(data)}"


def _check(name: str) -> str:
    check_name(name)
    if len(name) > _NAME_LIMIT:
        raise DocumentError(
            f"a name of {len(name)} characters is too long", where=name, remedy=f"Use at most {_NAME_LIMIT}"
        )
    return name
