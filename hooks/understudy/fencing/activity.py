"""The activity page: how much of the user's code runs that the gate cannot hold, counted by process.

A driver is several processes: its Python, the JVM, and what the script forks. Each counts in a slot of its own, so that a child
neither overwrites its parent's count nor keeps the driver busy once it is dead.

Layout, little-endian, 4096 bytes, beside the gate (``<gate>.activity``), zeroed by the supervisor:

====== ======= =========================================================================================
offset type    meaning
====== ======= =========================================================================================
0      u64     count of processes that found no slot
32 · n u64 ×3  slot n, from 1 to 127: pid, start time of that process (field 22 of ``/proc/<pid>/stat``), count
====== ======= =========================================================================================

A slot belongs to the process with that pid *and* that start time. What stands in the slot of a dead process does not count, and
another process may take the slot. Slots are taken under a POSIX lock on the file, which a fork does not inherit and a JVM takes
as well. Every doubt (no slot free, no ``/proc``) counts as busy: better killed than loose.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path

from understudy.processes import started_at

ACTIVITY_PAGE = 4096
_COUNT = struct.Struct("<Q")
_SLOT = struct.Struct("<QQQ")
_SLOT_BYTES = 32
_COUNT_IN_SLOT = 16
_SLOTS = range(_SLOT_BYTES, ACTIVITY_PAGE, _SLOT_BYTES)


class Activity:
    """``set`` counts for the calling process, ``running`` is the sum over those that live.

    Raised *before* the gate is asked, so between a close deadline and a kill deadline nothing new can slip in unseen.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self._descriptor = os.open(path, flags, 0o600)
        if create:
            os.ftruncate(self._descriptor, ACTIVITY_PAGE)
        self._page = mmap.mmap(self._descriptor, ACTIVITY_PAGE)
        self._pid, self._at = 0, 0  # whose slot, and where it begins; 0: none was free
        self._shared = 0  # what this process has added to the count without a slot

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def running(self) -> int:
        (count,) = _COUNT.unpack_from(self._page, 0)
        for at in _SLOTS:
            pid, started, here = _SLOT.unpack_from(self._page, at)
            if here and started_at(pid) == started:
                count += here
        return int(count)

    def set(self, count: int) -> None:
        """Not for two threads at once: their order would not be that of their counts."""
        if self._pid != os.getpid():
            self._take_slot()
        if self._at:
            _COUNT.pack_into(self._page, self._at + _COUNT_IN_SLOT, count)
        else:
            self._add_shared(count - self._shared)
            self._shared = count

    def _take_slot(self) -> None:
        pid, self._shared = os.getpid(), 0
        started = started_at(pid)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            self._at = 0 if started is None else next((at for at in _SLOTS if self._free(at)), 0)
            if self._at:
                _SLOT.pack_into(self._page, self._at, pid, started, 0)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._pid = pid

    def _free(self, at: int) -> bool:
        pid, started, _ = _SLOT.unpack_from(self._page, at)
        return not pid or started_at(pid) != started

    def _add_shared(self, change: int) -> None:
        """It stays if this process dies: from then on the driver counts as busy."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            (count,) = _COUNT.unpack_from(self._page, 0)
            _COUNT.pack_into(self._page, 0, count + change)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
