"""``foreachBatch`` functions that run in rehearsals, because the user says that they may. Never by default.

Spark's writers of such a function are redirected: the JVM's side (``RehearsedWrites``) sends their rows to scratch, or nowhere. What
cannot be redirected ends the function's rehearsal before it runs. *Not* seen: what is not Spark's, such as requests, files that Python
writes, or a connection that the function opens by itself.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.utils import ForeachBatchFunction

from understudy.driver.error_text import first_line
from understudy.driver.handed_over import HandedOver
from understudy.leadership import is_rehearsable

P = ParamSpec("P")
T = TypeVar("T")
BatchFunction = Callable[[DataFrame, int], None]


class RehearsalAbandoned(BaseException):
    """Ends a function's rehearsal at something that must not run in one. No ``except Exception`` of the function's eats it."""


@dataclass(slots=True, eq=False)
class _Rehearsed:
    """One call of one function in a rehearsal. ``writes`` is the JVM's side. ``abandoned``: at what, in words; empty if it was not.

    ``pinned``: all calls of a thread run in one thread of the JVM, so that the JVM can tell whose they are.
    """

    writes: Any
    pinned: bool
    abandoned: str = ""

    def abandon(self, at: str) -> NoReturn:
        self.abandoned = self.abandoned or at
        raise RehearsalAbandoned(at)

    @contextmanager
    def jobs(self) -> Iterator[None]:
        """In a thread that is not the function's own: jobs that are started here are cancelled with the rehearsal."""
        if not self.pinned:
            yield
            return
        try:
            self.writes.join()
        except Exception as error:
            if not self.writes.cancelled():
                raise
            raise RehearsalAbandoned("a thread") from error
        try:
            yield
        finally:
            self.writes.part()


class RehearsedThreads:
    """Which threads run a function of the user's in a rehearsal: the one that calls it, and those that it starts.

    ``handed_over``: what is known of the script's other threads.
    """

    def __init__(self, handed_over: HandedOver | None = None) -> None:
        self.handed_over = handed_over or HandedOver()
        self._calls: dict[int, _Rehearsed] = {}

    @property
    def here(self) -> bool:
        return threading.get_ident() in self._calls

    @property
    def busy(self) -> bool:
        """Whether any thread does."""
        return bool(self._calls)

    @contextmanager
    def inside(self, call: _Rehearsed) -> Iterator[None]:
        thread = threading.get_ident()
        self._calls[thread] = call
        try:
            yield
        finally:
            del self._calls[thread]

    @contextmanager
    def outside(self) -> Iterator[None]:
        """For a while, this thread's code is part of no rehearsal."""
        thread = threading.get_ident()
        call = self._calls.pop(thread, None)
        try:
            yield
        finally:
            if call is not None:
                self._calls[thread] = call

    def carry(self, work: Callable[P, T]) -> Callable[P, T]:
        """``work`` for another thread. In a rehearsal it is part of that, even after the function has returned."""
        if (call := self._calls.get(threading.get_ident())) is None:
            return work

        @functools.wraps(work)
        def carried(*arguments: P.args, **options: P.kwargs) -> T:
            with self.inside(call), call.jobs():
                return work(*arguments, **options)

        return carried

    def refuse(self, what: str) -> None:
        """End the rehearsal of the function that runs in this thread, if one does, before ``what`` happens."""
        if (call := self._calls.get(threading.get_ident())) is not None:
            call.abandon(what)

    def redirect(self, stock: Callable[P, T], gated: Callable[P, T]) -> Callable[P, T]:
        """A writer of Spark's whose rows go elsewhere in a rehearsal; otherwise ``gated``. Its object has ``_spark``."""

        @functools.wraps(stock)
        def call(*arguments: P.args, **options: P.kwargs) -> T:
            if not self.here:
                return gated(*arguments, **options)
            target: Any = arguments[0]
            with self.commands(target._spark, getattr(stock, "__qualname__", str(stock))):  # noqa: SLF001
                return stock(*arguments, **options)

        return call

    def changing(self, what: str) -> AbstractContextManager[None]:
        """While a session or the cache is being changed, which the job's own batches share. A takeover waits for a rehearsal that does."""
        return self._entered(what, lambda writes: writes.change()) if self.here else nullcontext()

    def caching(self, session: Any, what: str, frame: Callable[[], Any]) -> AbstractContextManager[None]:
        """While ``frame``, of Java, is being cached. In a rehearsal it is let go when that ends."""
        return self._caching(session, what, frame) if self.here else nullcontext()

    @contextmanager
    def _caching(self, session: Any, what: str, frame: Callable[[], Any]) -> Iterator[None]:
        with self.commands(session, what, changes=False):
            self._calls[threading.get_ident()].writes.caches(frame())
            yield

    def commands(self, session: Any, what: str, *, changes: bool = True) -> AbstractContextManager[None]:
        """Run Spark's commands of a rehearsed function in ``session``; those that are refused there abandon the function.

        Not ``changes``: they change no more than the session and the cache, and run as they are.
        """
        return self._entered(what, lambda writes: writes.enter(session._jsparkSession, not changes))  # noqa: SLF001

    @contextmanager
    def _entered(self, what: str, enter: Callable[[Any], None]) -> Iterator[None]:
        call = self._calls[threading.get_ident()]
        if not call.pinned:
            call.abandon(f"{what}, because PYSPARK_PIN_THREAD is false")
        try:
            enter(call.writes)
        except Exception:
            if call.writes.over():
                call.abandon(what)
            raise
        try:
            yield
        except Exception:
            if refused := call.writes.refused():
                call.abandon(f"{what} ({refused})")
            if call.writes.cancelled():
                call.abandon(what)
            raise
        finally:
            call.writes.leave()


def _pinned(session: Any) -> bool:
    from py4j.clientserver import ClientServer

    return isinstance(session.sparkContext._gateway, ClientServer)  # noqa: SLF001


class RehearsedFunction:
    """A ``foreachBatch`` function as the JVM's rehearsal calls it. ``report`` gets a sentence for the user, each once.

    After an exception of the function's it is not called again.
    """

    def __init__(
        self,
        function: BatchFunction,
        writer: DataStreamWriter,
        threads: RehearsedThreads,
        report: Callable[[str], None],
    ) -> None:
        self._session = writer._spark  # noqa: SLF001
        self._function = ForeachBatchFunction(self._session, function)
        self._name = getattr(function, "__qualname__", str(function))
        self._threads = threads
        self._report = report
        self._said: set[str] = set()
        self._failed = False
        self._running = threading.Lock()

    def call(self, frame: Any, number: int, writes: Any) -> bool:
        """Called by the JVM. Raises nothing: what the user's function does must not harm the standby."""
        if self._failed or self._threads.handed_over.reason or not self._running.acquire(blocking=False):
            return False  # what a pause has broken off may be under way
        try:
            return self._called(_Rehearsed(writes, _pinned(self._session)), frame, number)
        finally:
            self._running.release()

    def _called(self, call: _Rehearsed, frame: Any, number: int) -> bool:
        self._threads.handed_over.called = True
        try:
            with self._threads.inside(call):
                self._function.call(frame, number)
        except RehearsalAbandoned:
            pass
        except BaseException as error:  # noqa: BLE001 - reported
            if not self._over(call):
                self._failed = True
                self._say(f"failed, and is not rehearsed any more: {first_line(error)}")
                return False
        if not self._over(call):
            return True
        if call.abandoned and not call.writes.cancelled():
            self._say(f"was rehearsed up to {call.abandoned}, which cannot be redirected")
        return False

    @staticmethod
    def _over(call: _Rehearsed) -> bool:
        """Whether the rehearsal has ended before the function: abandoned, or cancelled by a grant or a pause."""
        call.abandoned = call.abandoned or str(call.writes.refused())
        return bool(call.abandoned) or bool(call.writes.cancelled())

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._report(f"the foreachBatch function {self._name} {what}")

    class Java:
        implements = ("dev.understudy.rehearsal.BatchFunction",)


class BatchFunctions:
    """The functions of ``foreachBatch`` that may be rehearsed, by their writers. ``every``: all of them, as ``--rehearse-user-code`` says.

    ``calls``: whether any may be.
    """

    def __init__(
        self, threads: RehearsedThreads, report: Callable[[str], None], *, every: bool, calls: bool = True
    ) -> None:
        self._threads = threads
        self._report = report
        self._every = every
        self._calls = calls
        self._functions: weakref.WeakKeyDictionary[DataStreamWriter, RehearsedFunction] = weakref.WeakKeyDictionary()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._functions)

    @property
    def withheld(self) -> str:
        """Why none is called any more, and the script has to run again from the top; empty if that is not so."""
        return self._threads.handed_over.reason

    def declare(self, writer: DataStreamWriter, function: BatchFunction) -> None:
        if self._calls and (self._every or is_rehearsable(function)):
            self._functions[writer] = RehearsedFunction(function, writer, self._threads, self._report)
        else:
            self._functions.pop(writer, None)

    def keep(self, writer: DataStreamWriter, kept: DataStreamWriter) -> None:
        """``kept`` has the function that ``writer`` has now."""
        if (function := self._functions.get(writer)) is not None:
            self._functions[kept] = function

    def of(self, writer: DataStreamWriter) -> RehearsedFunction | None:
        """The function of a writer; ``None`` where it may not be rehearsed."""
        return self._functions.get(writer)
