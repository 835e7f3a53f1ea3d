"""Accumulators count what the job does, and nothing of what a standby rehearses.

The queries of a rehearsal report to none (``UncountedFunctions`` in the JVM). This is for the jobs that a rehearsed function starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.accumulators import Accumulator, UpdateRequestHandler

from understudy.driver.rehearsed_code import RehearsedThreads
from understudy.driver.spark_patches.registry import PatchRegistry


def install(patches: PatchRegistry, rehearsing: Callable[[], bool], rehearsed: RehearsedThreads) -> None:
    """Drop what tasks report while a function is ``rehearsing()``; what the script itself adds, in its own threads, counts, unless
    a rehearsed function adds it.

    Not told apart: an action of the script's that runs at the same time as a rehearsed function.
    """
    thread = threading.local()

    def handled(stock: Callable[[UpdateRequestHandler], None]) -> Callable[[UpdateRequestHandler], None]:
        def handle(self: UpdateRequestHandler) -> None:
            thread.hears_tasks = True  # for good: this thread does nothing else
            stock(self)

        return handle

    def added(stock: Callable[[Any, Any], Accumulator[Any]]) -> Callable[[Any, Any], Accumulator[Any]]:
        def add(self: Accumulator[Any], term: Any) -> Accumulator[Any]:
            if rehearsed.here or (getattr(thread, "hears_tasks", False) and rehearsing()):
                return self
            return stock(self, term)

        return add

    patches.replace("pyspark.accumulators:UpdateRequestHandler.handle", handled)
    patches.replace("pyspark.accumulators:Accumulator.__iadd__", added)
