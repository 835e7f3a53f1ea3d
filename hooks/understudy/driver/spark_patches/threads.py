"""Threads that a rehearsed function of ``foreachBatch`` uses: what they write is part of its rehearsal, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from understudy.driver.rehearsed_code import RehearsedThreads
from understudy.driver.spark_patches.registry import PatchRegistry


def install(patches: PatchRegistry, rehearsed: RehearsedThreads) -> None:
    """Not covered: pools of ``multiprocessing.pool`` whose threads have run before, and child processes."""

    def starting(stock: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        def start(self: threading.Thread) -> None:
            if rehearsed.here:
                self.run = rehearsed.carry(self.run)  # type: ignore[method-assign] # for this thread alone
            stock(self)

        return start

    def submitting(stock: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
        def submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
            work = rehearsed.carry(fn)
            with rehearsed.outside():  # a thread that the pool starts for it serves other work afterwards
                return stock(self, work, *arguments, **options)

        return submit

    patches.replace("threading:Thread.start", starting)
    patches.replace("concurrent.futures.thread:ThreadPoolExecutor.submit", submitting)
