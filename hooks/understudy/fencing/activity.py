"""The activity page: how much of the user's code runs that the gate cannot hold. ``protocol/activity.py`` describes the page.

Slots are taken under a POSIX lock on the file, which a fork does not inherit and a JVM takes as well. Every doubt (no slot free,
no ``/proc``) counts as busy: a driver that is killed too early costs a restart, one that is left alone too long costs rows.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from understudy.processes import started_at
from understudy.protocol import activity as layout
from understudy.protocol.activity import Slot


class Activity:
    """``set`` counts for the calling process, ``running`` is the sum over those that live.

    Raised *before* the gate is asked, so between a close deadline and a kill deadline nothing new can slip in unseen.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self._descriptor = os.open(path, flags, 0o600)
        if create:
            os.ftruncate(self._descriptor, layout.PAGE)
        self._page = mmap.mmap(self._descriptor, layout.PAGE)
        self._pid, self._at = 0, 0  # whose slot, and where it begins; 0: none was free
        self._shared = 0  # what this process has added to the count without a slot

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def running(self) -> int:
        return layout.running(self._page, started_at)

    def set(self, count: int) -> None:
        """Not for two threads at once: their order would not be that of their counts."""
        if self._pid != os.getpid():
            self._take_slot()
        if self._at:
            layout.put_count(self._page, self._at, count)
        else:
            self._add_shared(count - self._shared)
            self._shared = count

    def _take_slot(self) -> None:
        pid, self._shared = os.getpid(), 0
        started = started_at(pid)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            self._at = 0
            if started is not None and (free := next(filter(self._free, layout.SLOTS), 0)):
                layout.put_slot(self._page, free, Slot(pid, started, 0))
                self._at = free
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._pid = pid

    def _free(self, at: int) -> bool:
        owner = layout.slot(self._page, at)
        return not owner.pid or started_at(owner.pid) != owner.started

    def _add_shared(self, change: int) -> None:
        """It stays if this process dies: from then on the driver counts as busy."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            layout.put_shared(self._page, layout.shared(self._page) + change)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
