"""Reading the counters page: what the fence has let through and refused. ``protocol/counters.py`` describes it.

Programs read counts here and never from the fence's log, which is for people: bounded, rotated, and not written at all on a
full disk.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Self

from understudy.protocol.counters import AFTER_SEQUENCE, PAGE, SEQUENCE_AT, Counts, decode, encode

#: How long a reader waits for a page that is being written, in seconds.
_TORN_AFTER = 0.005


class CountersPage:
    """A reader's mapping. It stays readable when the file has been removed, and takes no descriptor."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._page = mmap.mmap(file.fileno(), PAGE, prot=mmap.PROT_READ)
        self._last = Counts()

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new page without a count. Raises ``FileExistsError``: like its gate, it is never used again."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, encode(Counts()))
        finally:
            os.close(descriptor)
        return cls(path)

    def read(self) -> Counts:
        """As it stands. Never raises: what cannot be read is as it was read before."""
        give_up = time.monotonic() + _TORN_AFTER
        while True:
            raw = self._page[:]
            unmoved = raw[SEQUENCE_AT:AFTER_SEQUENCE] == self._page[SEQUENCE_AT:AFTER_SEQUENCE]
            counts = decode(raw) if unmoved else None
            if counts is not None:
                self._last = counts
                return counts
            if time.monotonic() >= give_up:
                return self._last
            time.sleep(0.0005)
