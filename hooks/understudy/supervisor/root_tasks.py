"""Every task that lives as long as its replica, each with an owner that awaits it.

A *needed* task (the elector) that ends with an error ends the replica, with that error as the reason. A *watcher* (evidence, the
pulse, notes in documents) is begun again with back-off, and the failure is said once. So no task dies unseen.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from understudy.errors import DocumentError, InternalError, LeadershipLost, UnderstudyError
from understudy.events import Log
from understudy.supervisor.restart import backoff

T = TypeVar("T")
Run = Callable[[], Coroutine[Any, Any, None]]

#: Seconds before a watcher that failed is begun again; twice as many after each further failure, up to a minute.
_AGAIN = 1.0
#: A watcher that ran for so many seconds has recovered: its next failure is said again, and is the first one.
_RECOVERED = 60.0
#: Seconds until a task that was cancelled and goes on is cancelled again. Before Python 3.12 ``asyncio.wait_for`` loses a cancellation that comes
#: with its result, so the house does without it; a library may not.
_CANCEL_AGAIN = 2.0


class RootTasks:
    """Not guaranteed: that a cancelled task ends at once; ``close`` returns when the last one has. One that has taken its cancellation for
    something else is cancelled again.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._replaced: set[asyncio.Task[None]] = set()
        self._broken = asyncio.Event()
        self._reason: UnderstudyError | None = None

    def need(self, name: str, run: Run) -> None:
        """Run a task without which the replica must not go on. It may return."""
        self._keep(name, self._needed(name, run))

    def watch(self, name: str, run: Run) -> None:
        """Run a task that is begun again when it fails, in place of an earlier one of this name. It is over when it returns."""
        self._keep(name, self._watched(name, run))

    async def guard(self, main: Coroutine[Any, Any, T]) -> T:
        """What ``main`` returns or raises. When a needed task fails, ``main`` is cancelled and that task's error raised."""
        task, broken = asyncio.ensure_future(main), asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait({task, broken}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _over(task)
            raise
        finally:
            broken.cancel()
        await _over(task)
        if self._reason is not None and (task.cancelled() or task.exception() is not None):
            raise self._reason
        return task.result()

    async def close(self) -> None:
        """End every task, and return when all have ended."""
        await _over(*self._tasks.values(), *self._replaced)

    def _keep(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        if (before := self._tasks.get(name)) is not None:
            before.cancel()
            self._replaced.add(before)
            before.add_done_callback(self._replaced.discard)
        self._tasks[name] = asyncio.create_task(run, name=name)

    async def _needed(self, name: str, run: Run) -> None:
        try:
            await run()
        except UnderstudyError as error:
            self._end(error)
        except (Exception, LeadershipLost) as error:  # noqa: BLE001 - any other error ends the whole replica
            self._end(internal(error, name))

    async def _watched(self, name: str, run: Run) -> None:
        failures, loop = 0, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await run()
            except DocumentError as error:
                reason = str(error)
            except UnderstudyError as error:  # a wrong setting, another's claim: trying again changes nothing
                self._end(error)
                return
            except (Exception, LeadershipLost) as error:  # noqa: BLE001 - a watcher lives on after any other error
                reason = described(error)
            else:
                return
            failures = 1 if loop.time() - began >= _RECOVERED else failures + 1
            if failures == 1:
                self._log.say("task-failed", f"{name} is begun again: {reason}", task=name)
            await asyncio.sleep(backoff(failures, _AGAIN))

    def _end(self, error: UnderstudyError) -> None:
        self._reason = self._reason or error
        self._broken.set()


async def _over(*tasks: asyncio.Task[Any]) -> None:
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # it is known: else the loop says that it was never asked for


def internal(error: BaseException, where: str) -> InternalError:
    """``error`` as the reason for which a replica ends."""
    made = InternalError(
        described(error),
        where=where,
        remedy="This replica ends, and another may lead. Start it again, and report this line if it comes back",
    )
    made.__cause__ = error
    return made


def described(error: BaseException) -> str:
    """The error, and the line of code it came from: the only trace a log line has room for."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
