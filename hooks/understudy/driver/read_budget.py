"""How much of the sources rehearsals may read: a standby must cost a broker or a bucket no more than was agreed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_HOUR = 3600.0


class ReadBudget:
    """Rows and bytes per hour, over the life of one driver. ``now`` gives seconds.

    What was read is paid for afterwards: the first rounds follow each other at any cost, and the next one waits until the average is
    below the limit again. Bytes are those of files; what a broker sends is counted in rows alone.
    """

    def __init__(self, rows: int, byte: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rows_per_hour, self._bytes_per_hour = rows, byte
        self._now = now
        self._began = now()
        self._lock = threading.Lock()
        self._rows = self._bytes = 0

    def spend(self, rows: int, byte: int) -> None:
        with self._lock:
            self._rows += rows
            self._bytes += byte

    def pause(self) -> float:
        """Seconds until more may be read."""
        hours = max(self._rows / self._rows_per_hour, self._bytes / self._bytes_per_hour)
        return max(0.0, self._began + _HOUR * hours - self._now())
