"""An event loop on which whole processes live: they can be frozen, killed at any await, and have clocks of their own.

Every callback belongs to the process in whose context it was made. What a frozen process was about to do waits until the thaw, as
after SIGSTOP and SIGCONT; what a killed one was about to do never happens, no ``finally`` either, as after SIGKILL. Time jumps to
the next timer. One order of callbacks follows from one sequence of calls, so one seed is one history.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

T = TypeVar("T")

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


@dataclass(slots=True, eq=False)
class Process:
    """One process: its clock shows ``offset + rate · s`` at second ``s`` of the world. ``turns`` counts what it has done."""

    name: str
    offset: float = 0.0
    rate: float = 1.0
    #: Seconds by which its wall clock is wrong; may be stepped at any time.
    wall_error: float = 0.0
    alive: bool = True
    frozen: bool = False
    thawed_at: float = float("-inf")
    turns: int = 0
    #: Instead of this turn, counted as ``turns``, ``stops`` is called: it kills or freezes.
    stops_at: int | None = None
    stops: Callable[[], None] = lambda: None
    signals: dict[int, Callable[[], None]] = field(default_factory=dict)
    context: Context = field(init=False)
    waiting: deque[Handle] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)

    @property
    def runs(self) -> bool:
        return self.alive and not self.frozen

    def takes(self, handle: Handle) -> bool:
        """Whether the process takes this turn now."""
        if self.runs:
            self.turns += 1
            if self.turns != self.stops_at:
                return True
            self.stops()
        if self.alive and self.frozen:
            self.waiting.append(handle)
        return self.runs


def current() -> Process | None:
    return _PROCESS.get()


class Handle:
    """What asyncio gets from ``call_soon`` and ``call_at``."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_when", "process")

    def __init__(
        self,
        process: Process | None,
        context: Context,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        when: float,
    ) -> None:
        self.process, self._context, self._callback, self._args, self._when = process, context, callback, args, when
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Outside of every process ``time`` is the world's, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._world = copy_context()
        self._world.run(_PROCESS.set, None)
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = itertools.count()
        self._closed = False
        #: Kept to the end: a task without a reference would be collected, and its ``finally`` blocks run.
        self._tasks: list[asyncio.Task[Any]] = []
        self.problems: list[str] = []

    # --- for the world ------------------------------------------------------------------------------------------------

    def inside(self, process: Process, call: Callable[[], T]) -> T:
        """Run ``call`` as ``process``; what it starts belongs to that process."""

        def enter() -> T:
            _PROCESS.set(process)
            return call()

        return copy_context().run(enter)

    def later(self, process: Process | None, delay: float, call: Callable[..., object], *args: Any) -> Handle:
        """After ``delay`` seconds of its clock, in ``process``; ``None`` is the world, even if every process is dead by then."""
        context, rate = (self._world, 1.0) if process is None else (process.context, process.rate)
        handle = Handle(process, context, call, args, self.now + delay)
        if not self._closed:
            heapq.heappush(self._timers, (self.now + delay / rate, next(self._numbers), handle))
        return handle

    def freeze(self, process: Process) -> None:
        process.frozen = True

    def thaw(self, process: Process) -> None:
        if process.frozen:
            process.frozen, process.thawed_at = False, self.now
            self._ready.extend(process.waiting)
            process.waiting.clear()

    def kill(self, process: Process) -> None:
        process.alive = False
        process.waiting.clear()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Until ``main`` is done. Raises ``RuntimeError`` when every task waits for another, and none for time."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            task = self.create_task(main)
            while not task.done():
                self._turn()
            return task.result()
        finally:
            self._dispose()
            asyncio._set_running_loop(before)

    def _turn(self) -> None:
        if not self._ready:
            if not self._timers:
                raise RuntimeError("every task waits for another, and none for time")
            self.now = max(self.now, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self.now:
                self._ready.append(heapq.heappop(self._timers)[2])
        handle = self._ready.popleft()
        process = handle.process
        if handle.cancelled() or (process is not None and not process.takes(handle)):
            return
        try:
            handle.run()
        except Exception as error:  # noqa: BLE001 - as asyncio does: a callback's error is reported, and the loop goes on
            self.problems.append(f"{process.name if process else 'world'}: {error!r}")

    def _dispose(self) -> None:
        """Coroutines that were killed, or wait for ever, end here and not when they are collected: no one hears of it."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    cast("Coroutine[Any, Any, Any]", task.get_coro()).close()
        self._tasks.clear()

    # --- for asyncio --------------------------------------------------------------------------------------------------

    def time(self) -> float:
        process = _PROCESS.get()
        return self.now if process is None else process.offset + process.rate * self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        context = copy_context() if context is None else context
        handle = Handle(context.get(_PROCESS), context, callback, args, self.now)
        if not self._closed:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        context = copy_context() if context is None else context
        process = context.get(_PROCESS)
        handle = Handle(process, context, callback, args, when)
        at = when if process is None else (when - process.offset) / process.rate
        if not self._closed:
            # a microsecond more, or floating point may wake a sleeper just too early, and time would stand still
            heapq.heappush(self._timers, (at + 1e-6, next(self._numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self._tasks.append(task)
        return task

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        process = _PROCESS.get()
        assert process is not None
        process.signals[sig] = lambda: self.inside(process, lambda: self.call_soon(callback, *args))

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        del executor
        done: asyncio.Future[T] = self.create_future()
        done.set_result(func(*args))
        return done

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)
