"""Compare-and-set on one machine's disk, without a lock that a frozen process could hold.

A document ``name`` is the file ``name@n`` with the highest n. Its successor is written to a temporary file, synced, and
published by link(2) under n + 1: the kernel lets one of several win, and the file appears whole or not at all. Nothing is
renamed or overwritten, so a process killed or frozen anywhere leaves the old or the new document and blocks no other.

Two things make it work although superseded files are removed:

*A listing may miss files that come or go while it runs*, but never one that is there all the time. So a superseded file is kept
for ``keep`` seconds, and a listing that took longer than half of it is not trusted: its reader may have been frozen.

*A writer that was frozen before its link(2)* finds its number free again once n + 1 was superseded and removed, and would
publish into the past. So a writer whose look at the documents is older than half of ``keep`` looks again, before the link and
after it; a higher number seen after it means Conflict. Meanwhile no reader is misled: readers take the highest number.
(A link that took that long may have counted and been superseded; that is reported as Conflict, too. ``settle`` tells.)

Durations only, all on CLOCK_BOOTTIME, each measured within one process: it goes on during suspend and is never set.

Not guaranteed: anything on a network filesystem, where neither link(2) nor listings keep these promises, and anything to a
process that works on a directory others delete or restore under it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds for which a superseded file is kept. The same for every process that shares a directory.
KEEP = 10.0

#: Pause between two searches for temporary files whose writers are dead.
_SWEEP_EVERY = 30.0

#: More than this is no document of ours; reading stops there.
_READ_LIMIT = 8 << 20

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_TEMPORARY = re.compile(r"\.[0-9a-f]{32}\.tmp")


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _pass(_step: str) -> None:
    return


def never() -> bool:
    return False


@dataclass(slots=True)
class Numbered:
    """The files of one directory. Every method blocks, and may be called from several threads.

    ``at_step`` is called with the name of each step of a publication as it is reached: tests stop or kill the process there.
    """

    directory: Path
    keep: float = KEEP
    clock: Callable[[], float] = boottime
    at_step: Callable[[str], None] = _pass
    _first_seen: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    _swept: float = float("-inf")

    def path(self, name: str, number: int) -> Path:
        return self.directory / f"{name}@{number}"

    def highest(self, name: str) -> int:
        """The highest number of ``name``, 0 if there is none. Raises ``OSError``, also when listing is too slow to be trusted."""
        for _ in range(3):
            started = self.clock()
            numbers = self._list(name)
            if self.clock() - started < self.keep / 2:
                highest = max(numbers, default=0)
                self._note(name, highest)
                return highest
        message = f"listing {self.directory} took longer than {self.keep / 2} s, three times"
        raise OSError(message)

    def read(self, name: str) -> tuple[int, bytes] | None:
        """The highest number and its bytes. Raises ``OSError``."""
        for _ in range(100):
            looked = self.clock()
            number = self.highest(name)
            if number == 0:
                return None
            # When we stood still since the listing, the file was perhaps superseded and removed; and the one there now may be
            # a thawed writer's, published into the past.
            with contextlib.suppress(FileNotFoundError):
                data = _bytes(self.path(name, number))
                if not self._old(looked):
                    return number, data
        message = f"files of {name} in {self.directory} vanish as fast as they are listed"
        raise OSError(message)

    def publish(
        self, name: str, number: int, data: bytes, looked: float, abandoned: Callable[[], bool] = never
    ) -> bool:
        """Make ``data`` the document under ``number``; ``False`` if another one is there, or higher, or it was abandoned.

        ``looked`` is when (on ``clock``) the look began that found ``number - 1`` to be the highest. ``abandoned`` is
        called last before the link: a request whose caller has given up should rather not land late. After an
        ``OSError`` it is unknown whether it landed.
        """
        while True:
            with self._temporary(data) as temporary:
                if abandoned():
                    return False
                if self._old(looked):
                    looked = self.clock()
                    if self.highest(name) != number - 1:
                        return False
                self.at_step("linking")
                try:
                    os.link(temporary, self.path(name, number))
                except FileExistsError:
                    return False
                except FileNotFoundError:
                    if not self.directory.is_dir():
                        raise
                    continue  # we stood still before the temporary file was locked, and it was swept
                self.at_step("linked")
                if self._old(looked) and self.highest(name) > number:
                    # The file stays: it may have counted and been superseded a moment ago, and then a listing that is
                    # under way relies on it. Readers take the highest number, and the next collect removes this one.
                    return False
                _sync(self.directory)
                self.at_step("directory-synced")
                return True

    def collect(self, name: str, highest: int) -> None:
        """Remove what has been superseded for ``keep`` seconds, and now and then what dead writers left behind."""
        self._note(name, highest)
        now = self.clock()
        seen = self._first_seen[name]
        settled = max((number for number, since in seen if now - since >= self.keep), default=0)
        self._first_seen[name] = [(number, since) for number, since in seen if number >= settled]
        with contextlib.suppress(OSError):  # the next one removes it
            if settled:
                for number in self._list(name):
                    if number < settled:
                        self.path(name, number).unlink(missing_ok=True)
            if now - self._swept >= _SWEEP_EVERY:
                self._swept = now
                self.sweep()

    def sweep(self) -> None:
        """Remove temporary files of dead writers. Skips locked files: their writers are alive or frozen."""
        for entry in os.scandir(self.directory):
            if _TEMPORARY.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        Path(entry.path).unlink()
                    finally:
                        os.close(descriptor)

    def _old(self, looked: float) -> bool:
        return self.clock() - looked >= self.keep / 2

    def _list(self, name: str) -> list[int]:
        prefix = f"{name}@"
        with os.scandir(self.directory) as entries:
            tails = [entry.name[len(prefix) :] for entry in entries if entry.name.startswith(prefix)]
        return [int(tail) for tail in tails if _NUMBER.fullmatch(tail)]

    def _note(self, name: str, highest: int) -> None:
        seen = self._first_seen.setdefault(name, [])
        if seen and seen[-1][0] > highest:
            seen.clear()  # files were deleted or restored: our old notes would make us remove restored ones
        if not seen or seen[-1][0] < highest:
            seen.append((highest, self.clock()))

    @contextlib.contextmanager
    def _temporary(self, data: bytes) -> Iterator[Path]:
        path = self.directory / f".{uuid.uuid4().hex}.tmp"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            self.at_step("temporary-made")
            with contextlib.suppress(BlockingIOError):  # a sweeper holds it: the link will say so
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, data)
            self.at_step("temporary-written")
            os.fsync(descriptor)
            self.at_step("temporary-synced")
            yield path
        finally:
            with contextlib.suppress(OSError):  # a sweeper removes it once our lock is gone
                path.unlink(missing_ok=True)
            os.close(descriptor)
            self.at_step("temporary-removed")


def _bytes(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_READ_LIMIT)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
