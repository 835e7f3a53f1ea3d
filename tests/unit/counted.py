"""A counters page as a JVM leaves it. A real one's is read in ``tests/spark/test_fence_counters.py``."""

from __future__ import annotations

from pathlib import Path

from understudy.fencing.counters import CountersPage
from understudy.protocol.counters import Counts, encode


def page(path: Path, *, refused: int = 0, committed_ms: int = 0) -> CountersPage:
    made = CountersPage.create(path)
    with path.open("r+b") as out:
        out.write(encode(Counts(refused=refused, committed_at=committed_ms / 1000, committed_batch=0)))
    return made
