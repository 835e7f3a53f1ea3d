"""A counters page as a JVM leaves it. A real one's is read in ``tests/spark/test_fence_counters.py``."""

from __future__ import annotations

import struct
from pathlib import Path

from understudy.fencing.counters import CountersPage


def page(path: Path, *, refused: int = 0, committed_ms: int = 0) -> CountersPage:
    made = CountersPage.create(path)
    with path.open("r+b") as out:
        for at, value in ((24, refused), (64, committed_ms)):
            out.seek(at)
            out.write(struct.pack("<Q", value))
    return made
