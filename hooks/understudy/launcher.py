"""A thread that starts processes on behalf of other threads, and lives as long as this process.

The kernel ties PR_SET_PDEATHSIG to the thread that forked: a JVM started from a worker thread of the script would be killed when
that thread ends. Started from here it dies with the process.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class _Launcher:
    """Serves one process: a fork keeps only the thread that forked."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        # A daemon: it must not keep alive a process whose script has ended.
        threading.Thread(target=self._work, name="understudy-launcher", daemon=True).start()

    def run(self, make: Callable[[], T]) -> T:
        made: list[T] = []
        failed: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                made.append(make())
            except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
                failed.append(error)
            finally:
                done.set()

        self._asked.put(work)
        done.wait()
        if failed:
            raise failed[0]
        return made[0]

    def _work(self) -> None:
        while True:
            self._asked.get()()


_lock = threading.Lock()
_launcher: _Launcher | None = None


def from_lasting_thread(make: Callable[[], T]) -> T:
    """What ``make`` returns or raises, called in a thread that ends with this process and no sooner."""
    global _launcher  # noqa: PLW0603 - one process has one
    with _lock:
        if _launcher is None or _launcher.pid != os.getpid():
            _launcher = _Launcher()
    return _launcher.run(make)


def _forked() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)
