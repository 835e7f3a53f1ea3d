"""Accumulators count what the job does, and nothing of what a standby rehearses."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from pyspark.accumulators import Accumulator, UpdateRequestHandler


def install(rehearsing: Callable[[], bool]) -> None:
    """Drop what tasks report while ``rehearsing()``; what the script itself adds, in its own threads, counts.

    Not told apart: an action of the script's that runs at the same time as a rehearsal.
    """
    thread = threading.local()
    handle, add = UpdateRequestHandler.handle, Accumulator.__iadd__

    @functools.wraps(handle)
    def handled(self: UpdateRequestHandler) -> None:
        thread.hears_tasks = True  # for good: it does nothing else
        handle(self)

    @functools.wraps(add)
    def added(self: Accumulator[Any], term: Any) -> Accumulator[Any]:
        if getattr(thread, "hears_tasks", False) and rehearsing():
            return self
        return add(self, term)

    UpdateRequestHandler.handle = handled  # type: ignore[method-assign]
    Accumulator.__iadd__ = added  # type: ignore[method-assign]
