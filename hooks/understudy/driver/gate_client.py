"""The gate as the driver's Python sees it: who may pass now, who waits, and what counts as the user's code running."""

from __future__ import annotations

import functools
import os
import statistics
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

from understudy.clock import instant
from understudy.driver.rehearsed_code import RehearsedThreads
from understudy.errors import LeadershipLost
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateReader
from understudy.protocol.activity import path_of as activity_of
from understudy.protocol.gate import State
from understudy.protocol.token import Token

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds between two looks at the page while waiting; a grant also wakes waiters at once.
_LOOK = 0.02

#: Stands for the executors among the threads that run the user's code; no thread has this number.
_EXECUTORS = 0


class DurationHistory:
    """How long the last calls of one function of the user's took, in seconds."""

    def __init__(self) -> None:
        self.took: deque[float] = deque(maxlen=5)

    @property
    def usual(self) -> float:
        """The median of the last five; 0 while too little is known."""
        return statistics.median(self.took) if len(self.took) > 2 else 0.0


class StartsFirst(Protocol):
    """What comes before the script's own code at a grant: its queries start with their sessions' settings in place of the script's."""

    @property
    def over(self) -> bool: ...

    def wait(self) -> None:
        """Until it is over. Raises ``LeadershipLost``."""


class GateClient:
    """Asks the gate before every write, and counts the user's code that runs behind it.

    ``held`` is where the script waits, as ``file:line``, or empty. ``on_held`` is called with it when a thread begins to wait, and
    with an empty string when it goes on, in that thread. ``asked`` becomes true at the first question: a script that ends without
    one never wrote anything. ``rehearsed``: threads whose code is no part of the job, and never waits here. ``check`` gets the object
    whose method is about to write, at the open gate. ``starts``: what is over before the script's own code goes on.
    """

    def __init__(
        self,
        gate: Path,
        script: Path,
        on_held: Callable[[str], None],
        check: Callable[[Any], None] = lambda _: None,
        rehearsed: RehearsedThreads | None = None,
    ) -> None:
        self._reader = GateReader(gate)
        self._activity = Activity(activity_of(gate))
        self._script = str(script)
        self._on_held = on_held
        self.check = check
        self.starts: StartsFirst | None = None
        self.rehearsed = rehearsed or RehearsedThreads()
        self._lock = threading.Lock()
        self._depth: dict[int, int] = {}  # by thread: the blocks it is in
        self._blocks: dict[int, tuple[float, DurationHistory]] = {}  # by thread: when its outermost block began
        self._changed = threading.Event()
        self.held = ""
        self.asked = False
        self._over = False
        self._held = False
        forgotten = weakref.WeakMethod(self._forked)
        os.register_at_fork(after_in_child=lambda: (method := forgotten()) and method())

    def close_for_good(self) -> None:
        """This replica was told to stop: every wait ends with ``LeadershipLost``, however the page stands."""
        self._over = True
        self.nudge()

    def hold(self) -> None:
        """From now on the script's code waits before it writes, as at a closed gate, unless some of it is writing already.

        Code that writes may wait for another thread of the script's to write, too, so what it begins is not held.
        """
        self._held = True

    def let_go(self) -> None:
        self._held = False
        self.nudge()

    def standing(self) -> State:
        self.asked = True
        return self._standing()

    @property
    def stands_by(self) -> bool:
        """As ``standing``, without a question of the script's."""
        return self._standing() is State.STANDBY

    @property
    def leads(self) -> bool:
        """As ``standing``, without a question of the script's."""
        return self._standing() is State.OPEN

    def token(self) -> Token:
        view = self._reader.read()
        return view.token if view is not None else Token(0, 0)

    def nudge(self) -> None:
        """A message came: waiters look again now."""
        self._changed.set()

    def pass_through(
        self, unless: Callable[[], bool] = lambda: False, *, of_a_batch: bool = False, writes: bool = False
    ) -> None:
        """Return once the gate is open; wait while it is closed or this is a standby.

        Returns also as soon as ``unless`` is true, which is asked at every look at the gate. Raises ``LeadershipLost``. ``writes``: the
        caller is about to. What a thread holds then that may be a rehearsal's is never written: see ``HandedOver``.
        """
        self.rehearsed.refuse("what waits for the grant")
        self.asked = True
        standing = self._standing()
        if standing is State.OPEN and (of_a_batch or not self._holds):
            return
        self.held = self._place()
        self._on_held(self.held)
        try:
            if writes and standing is State.STANDBY and self.rehearsed.handed_over.suspects(self.held):
                self._wait_to_be_replaced()
            while True:
                match self._standing():
                    case State.OPEN if of_a_batch or not self._holds:
                        return
                    case State.REVOKED:
                        raise self._lost()
                    case _:
                        if unless():
                            return
                        self._changed.wait(_LOOK)
                        self._changed.clear()
        finally:
            self.held = ""
            self._on_held("")

    def _wait_to_be_replaced(self) -> NoReturn:
        """Until this process ends, or ``LeadershipLost``: no exception that the script may take for one of its writer's, and try again."""
        while (standing := self._standing()) is not State.REVOKED:
            if standing is State.OPEN:
                self.rehearsed.handed_over.overtaken()
            self._changed.wait(_LOOK)
            self._changed.clear()
        raise self._lost()

    def _lost(self) -> LeadershipLost:
        return LeadershipLost(f"token {self.token()} may not write any more")

    @contextmanager
    def user_code(self, history: DurationHistory | None = None, *, of_a_batch: bool = False) -> Iterator[None]:
        """Run code that the gate cannot hold once it has begun: a ``foreachBatch`` function, a batch writer. ``history`` notes it.

        ``of_a_batch``: ``hold`` does not keep it from beginning. The fence has held its batch, or has let it begin, and then the batch
        is waited for.

        The count rises before the gate is asked. The other order would leave a moment in which the kill timer sees a parked
        driver while the user's function is about to write.
        """
        self.rehearsed.refuse("what only a leader does")
        first = None if of_a_batch or self.in_batch else self.starts
        while True:
            if self._enter(of_a_batch=of_a_batch):
                try:
                    if self._standing() is State.OPEN and (first is None or first.over):
                        self.asked = True
                        with self._timed(history or DurationHistory()):
                            yield
                        return
                finally:
                    self._leave()
            self.pass_through(of_a_batch=of_a_batch, writes=True)
            if first is not None:
                first.wait()

    @contextmanager
    def _timed(self, history: DurationHistory) -> Iterator[None]:
        thread, began = threading.get_ident(), time.monotonic()
        if thread in self._blocks:  # a writer in a `foreachBatch`
            yield
            return
        self._blocks[thread] = began, history
        try:
            yield
        finally:
            del self._blocks[thread]
            history.took.append(time.monotonic() - began)

    def gated(self, stock: Callable[P, T]) -> Callable[P, T]:
        """A writer that waits at the gate, and counts as the user's code while it runs."""

        @functools.wraps(stock)
        def call(*arguments: P.args, **options: P.kwargs) -> T:
            self.rehearsed.refuse(getattr(stock, "__qualname__", str(stock)))
            with self.user_code():
                self.check(arguments[0] if arguments else None)
                return stock(*arguments, **options)

        return call

    def redirected(self, stock: Callable[P, T]) -> Callable[P, T]:
        """As ``gated``, for a writer whose rows a rehearsal sends elsewhere."""
        return self.rehearsed.redirect(stock, self.gated(stock))

    @property
    def user_code_runs(self) -> bool:
        return bool(self._depth) or bool(self._blocks)

    @property
    def writes(self) -> bool:
        """As ``user_code_runs``, without the code on executors: a batch that is in flight counts that."""
        return bool(self._depth)

    @property
    def in_batch(self) -> bool:
        """Whether this thread runs the user's code that a batch waits for."""
        return threading.get_ident() in self._depth

    @property
    def may_be_waited_for(self) -> bool:
        """Whether a batch may wait for this thread: it is ``in_batch``; or others are, and it may be one that they have started."""
        return self.in_batch or (self.writes and threading.current_thread() is not threading.main_thread())

    @property
    def is_lost(self) -> bool:
        """As ``standing``, without a question of the script's."""
        return self._standing() is State.REVOKED

    def lines_that_run(self) -> list[str]:
        """Where the script's code is that writes now, as ``file:line``."""
        frames = sys._current_frames()  # noqa: SLF001
        return sorted({self._place(frames[thread]) for thread in list(self._depth) if thread in frames})

    def may_end_by(self, until: float) -> bool:
        """Whether any of the user's code that runs usually ends by then. Code without a history, or overdue, may end at any time."""
        blocks = list(self._blocks.values())
        return not blocks or any(began + history.usual <= until for began, history in blocks)

    def occupy(self) -> None:
        """Count code on executors (``foreach`` writers) as one more block of the user's, for as long as this driver lives.

        The fence in the JVM knows when that code runs, and so keeps the driver from being parked.
        """
        self._blocks[_EXECUTORS] = time.monotonic(), DurationHistory()

    def _standing(self) -> State:
        if self._over:
            return State.REVOKED
        view = self._reader.read()
        return State.CLOSED if view is None else view.standing(instant())

    @property
    def _holds(self) -> bool:
        return self._held and not self._depth

    def _enter(self, *, of_a_batch: bool) -> bool:
        """Count one more block of the user's code, unless it is held."""
        with self._lock:
            if self._holds and not of_a_batch:
                return False
            self._count(+1)
        return True

    def _leave(self) -> None:
        with self._lock:
            self._count(-1)

    def _count(self, change: int) -> None:
        """Under the lock."""
        thread = threading.get_ident()
        self._depth[thread] = self._depth.get(thread, 0) + change
        if not self._depth[thread]:
            del self._depth[thread]
        self._activity.set(sum(self._depth.values()))

    def _forked(self) -> None:
        """In a child of the script's: of all threads the one that forked is there, and it is still in the blocks it was in.

        A process that is made in a block goes on with it, so it counts for as long as it lives.
        """
        self._lock = threading.Lock()  # another thread may have held it
        thread = threading.get_ident()
        self._blocks = {each: block for each, block in self._blocks.items() if each == thread}
        self._depth = {each: depth for each, depth in self._depth.items() if each == thread}
        if self._depth:
            self._activity.set(sum(self._depth.values()))

    def _place(self, innermost: FrameType | None = None) -> str:
        frame = innermost or sys._getframe(1)  # noqa: SLF001
        while frame.f_back is not None:
            if frame.f_code.co_filename == self._script:
                return f"{Path(self._script).name}:{frame.f_lineno}"
            frame = frame.f_back
        return Path(self._script).name
