"""Foreign blocking code as a simulated process: a thread that runs only while the loop waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.loop import Process, SimulatedLoop

_here = threading.local()
#: The real ones, before any of them is simulated.
_Thread, _sleep = threading.Thread, time.sleep


class _Over(BaseException):
    """The bench is taken down; nothing may catch this."""


class Puppet:
    """``run`` is a coroutine of the process: it gives the thread its turns, and waits in its place for what it waits for."""

    def __init__(self, loop: SimulatedLoop, process: Process, call: Callable[[], object]) -> None:
        self.loop, self.process, self._call = loop, process, call
        self.error: BaseException | None = None
        self.done = self._over = False
        self._asked: Callable[[], Awaitable[Any]] | None = None
        self._answer: Any = None
        self._theirs, self._ours = threading.Semaphore(0), threading.Semaphore(0)
        context = process.context.copy()
        self._thread = _Thread(target=lambda: context.run(self._main), daemon=True)
        self._thread.start()

    def _main(self) -> None:
        _here.puppet = self
        self._theirs.acquire()
        try:
            if not self._over:
                self._call()
        except _Over:
            pass
        except BaseException as error:  # noqa: BLE001 - every end of it is what the bench wants to know
            self.error = error
        self.done = True
        self._ours.release()

    async def run(self) -> None:
        while True:
            self._turn()
            if self.done:
                return
            assert self._asked is not None
            try:
                self._answer = await self._asked()
            except Exception as error:  # noqa: BLE001 - raised over there
                self._answer = error

    def _turn(self) -> None:
        self._theirs.release()
        self._ours.acquire()

    def wait_for(self, what: Callable[[], Awaitable[Any]]) -> Any:
        """In the thread: blocks until the loop has it."""
        self._asked = what
        self._ours.release()
        self._theirs.acquire()
        if self._over:
            raise _Over
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def take_down(self) -> None:
        self._over = True
        if not self.done:
            self._turn()
        self._thread.join()


def puppet() -> Puppet:
    """The one whose thread this is."""
    found: Puppet = _here.puppet
    return found


def sleep(seconds: float) -> None:
    """In the place of ``time.sleep``."""
    if getattr(_here, "puppet", None) is None:
        _sleep(seconds)
    else:
        puppet().wait_for(lambda: asyncio.sleep(seconds))
