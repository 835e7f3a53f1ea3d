"""Blocking calls with a time-out.

Not ``asyncio.to_thread``: its pool has a handful of threads, a disk that hangs would use them all up, and the
interpreter joins them at exit. Here a call that hangs costs one daemon thread and does not delay the exit. A system
call cannot be taken back, so a call that timed out *may still have its effect later*.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

#: More requests than this hanging at once means that the disk is gone; another one would hang, too.
_MOST_HANGING = 32


@dataclass(slots=True)
class Threads:
    """Runs blocking calls in daemon threads of their own; a thread costs 0.1 ms, and stores make a few calls per second."""

    running: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)

    async def call(self, function: Callable[[], T], within: float) -> T:
        """What ``function`` returns or raises; ``TimeoutError`` after ``within`` seconds, while it may go on; ``OSError`` where this
        machine gives us no thread now.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def tell(result: T | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result: T | None = None
            failure: BaseException | None = None
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it is raised where the call was made
                failure = error
            with self.guard:
                self.running -= 1
            try:
                loop.call_soon_threadsafe(tell, result, failure)
            except RuntimeError:
                return  # the loop is closed: nothing waits for this answer any more

        with self.guard:
            if self.running >= _MOST_HANGING:
                message = f"{self.running} requests hang already"
                raise TimeoutError(message)
            self.running += 1
        try:
            threading.Thread(target=run, daemon=True, name="document-io").start()
        except RuntimeError as error:  # a limit on processes, which Spark's own may have reached
            with self.guard:
                self.running -= 1
            raise OSError(errno.EAGAIN, f"no request can be made: {error}") from error
        async with asyncio.timeout(within):
            return await answer
