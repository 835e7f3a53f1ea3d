"""Drives the machine with a document store: sends what was decided, and tells the machine what came of it.

One loop owns the state. Requests run in other tasks, one at a time, so that the loop hears evidence, a stop or a
deadline while a backend hangs. Every request has a time-out on the injected clock, and does not rely on the backend's.
A request that timed out is not waited for, and may still land. No error of a backend ends the loop. An error of a
*candidate* does, because a grant that its candidate missed is worse than a dead process.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, assert_never

from understudy.clock import Clock
from understudy.config.timings import Timings
from understudy.documents.model import Conflict, DocumentStore, Outcome, Unknown, Written
from understudy.documents.settle import shell
from understudy.election import machine, multi
from understudy.election.commands import (
    Command,
    Grant,
    Granted,
    Lost,
    Raised,
    Read,
    ReadMinEpoch,
    Released,
    Renewed,
    Say,
    Write,
)
from understudy.election.inputs import (
    Answer,
    ContendAsked,
    Evidence,
    Hint,
    Input,
    MinEpochRead,
    MinEpochUnknown,
    RaiseAsked,
    Ready,
    ReleaseAsked,
    Seen,
    StopAsked,
    Tick,
    Unseen,
)
from understudy.election.records import Attempt, Corrupt, Free, Held, lock_state_of, view_grant
from understudy.election.state import ElectionView, Role, Rules, State
from understudy.errors import DocumentError, DocumentUnreadable
from understudy.events import Log

T = TypeVar("T")

#: Standbys spread their polls over this share of a retry period, so that they don't all knock at once.
_SPREAD = 0.2

#: At most this many hints per retry period make a standby read: a watch that babbles costs no more than that.
_HINTS_PER_RETRY = 20


class Candidate(Protocol):
    """A process that wants to lead. Called from the elector's loop; must not block."""

    def granted(self, grant: Grant) -> None:
        """The lock is held from ``grant.epoch`` on. ``renewed`` follows at once with the same send time."""

    def renewed(self, sent_at: float) -> None:
        """Send time of a confirmed acquire or renewal, in seconds of the elector's clock: every deadline follows from it.

        It may come late, and be past a deadline already; and it may come after one: then the gate reopens.
        """

    def lost(self, reason: str) -> None:
        """Another process holds the lock, or this grant can't be used any more: kill at once."""


class Elector:
    """One election. ``name`` is the lock document, ``holder`` this process: made at its start and never used again.

    ``min_epoch`` gives the highest epoch known outside the lock (the job's document, claims); it is asked before every acquire
    and may raise. ``jitter`` gives numbers from 0 to 1, ``nonce`` texts never given before, ``stamp`` the time for people.

    All methods belong to the event loop ``run`` is in.
    """

    def __init__(
        self,
        store: DocumentStore,
        name: str,
        holder: str,
        timings: Timings,
        clock: Clock,
        candidate: Candidate,
        log: Log,
        *,
        min_epoch: Callable[[], Awaitable[int]],
        generation: str = "",
        lock_kind: str = "file",
        workload: str = "",
        jitter: Callable[[], float] = random.random,
        nonce: Callable[[], str] = lambda: uuid.uuid4().hex,
        stamp: Callable[[], str] = lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    ) -> None:
        self._store, self._clock, self._candidate, self._log = store, clock, candidate, log
        self._min_epoch, self._jitter, self._nonce, self._stamp = min_epoch, jitter, nonce, stamp
        self._timings, self._name = timings, name
        # Two requests, one after the other; deadlines count from when the first was sent, whichever time they take.
        self._request = timings.request * (multi.REQUESTS if lock_kind == multi.KIND else 1)
        self._state = State(Rules(name, holder, timings, generation, lock_kind, workload))
        self._inbox: asyncio.Queue[Input] = asyncio.Queue()
        # No set: they end in the order they were made, the same way every time.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._last_decision_at = clock.now()
        self._releases: list[asyncio.Future[bool]] = []
        self._raises: list[asyncio.Future[int | None]] = []
        self._running = False

    # --- what others call ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until stopped and, if leading then, released or lost. Survives every failure of the backend."""
        if self._running:
            raise RuntimeError("this elector runs already")
        self._running = True
        self._spawn(self._watch())
        try:
            while self._state.role is not Role.STOPPED:
                # Called before the state is looked at again: a candidate may post something itself.
                self._hear(await self._next())
                self._last_decision_at = self._clock.now()
        finally:
            self._running = False
            for task in list(self._tasks):
                task.cancel()
            self._resolve(self._releases, False)
            self._resolve(self._raises, None)

    @property
    def last_turn(self) -> float:
        """When it last decided anything, in seconds of the clock: a liveness probe's question. Now, while it does not run."""
        return self._last_decision_at if self._running else self._clock.now()

    @property
    def view(self) -> ElectionView:
        state = self._state
        document = None if state.lock_state is None else state.lock_state.document
        grant = view_grant(document)
        leads = state.held_lease is not None
        return ElectionView(
            role=state.role,
            leader=state.lock_state.holder if isinstance(state.lock_state, Held) else None,
            epoch=0 if state.lock_state is None else state.lock_state.epoch,
            transitions=0 if document is None or document.leader is None else document.leader.transitions,
            released=isinstance(state.lock_state, Free),
            successor=state.lock_state.successor if isinstance(state.lock_state, Free) else None,
            generation="" if grant is None else grant.generation,
            workload="" if grant is None else grant.workload,
            seen_at=state.changed_at,
            revision=None if document is None else document.revision,
            reason=state.reason,
            gate_deadline=state.gate_deadline if leads else None,
            kill_deadline=state.kill_deadline if leads else None,
        )

    def evidence(self, holder: str) -> None:
        """Every process of ``holder`` that could write is dead. Counts only for a record that names this very holder."""
        self._inbox.put_nowait(Evidence(holder))

    def ready(self, ready: bool) -> None:  # noqa: FBT001 - the argument is the method's name
        """Rehearsed, or as ready as any of this script's gets. An unready one waits one retry period before it contends for a free
        lock or a dead holder's.

        A grant that is lost or released makes it unready. After ``lost`` it does not contend for kill + retry seconds, ready or
        not, because its driver is being killed.
        """
        self._inbox.put_nowait(Ready(ready))

    def contend(self) -> None:
        """Try now for a lock that is free, if ``min_epoch`` has refused the last try. Takes nothing from a leader."""
        self._inbox.put_nowait(ContendAsked())

    async def release(self, successor: str | None) -> bool:
        """Give the lock back, naming who goes first. Only to be called once every process of the driver's session is reaped.

        False if it was not held, is not any more, or no answer came within ``renew`` seconds: the lease then runs out.
        """
        if not self._running or self._state.held_lease is None:
            return False
        return await self._asked(self._releases, ReleaseAsked(successor))

    async def raise_above(self, epoch: int) -> int | None:
        """Take an epoch above ``epoch`` for the grant that is held, or keep the own one if it is above already.

        ``None`` if that could not be done before the own deadline: the grant is lost then, and the candidate told so.
        """
        if not self._running or self._state.held_lease is None:
            return None
        return await self._asked(self._raises, RaiseAsked(epoch))

    def stop(self) -> None:
        """Never contend again. A leader goes on renewing until ``release`` is called."""
        self._inbox.put_nowait(StopAsked())

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _asked(self, waiting: list[asyncio.Future[T]], question: Input) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting.append(answer)
        self._inbox.put_nowait(question)
        return await answer

    @staticmethod
    def _resolve(waiting: list[asyncio.Future[T]], result: T) -> None:
        while waiting:
            answer = waiting.pop()
            if not answer.done():
                answer.set_result(result)

    def _hear(self, observation: Input) -> None:
        self._state, commands = machine.decide(self._state, observation, self._clock.now())
        for command in commands:
            self._do(command)

    async def _next(self) -> Input:
        """The next observation, or a tick when it is time for one."""
        if not self._inbox.empty():
            await asyncio.sleep(0)  # others run, too, while observations pour in
            return self._inbox.get_nowait()
        deadline, poll = machine.wakes_at(self._state)
        until = min(deadline, poll + self._jitter() * _SPREAD * self._timings.retry)
        if until == float("inf"):
            return await self._inbox.get()
        heard = asyncio.ensure_future(self._inbox.get())
        timer = asyncio.ensure_future(self._clock.sleep(max(0.0, until - self._clock.now())))
        try:
            await asyncio.wait({heard, timer}, return_when=asyncio.FIRST_COMPLETED)
            return heard.result() if heard.done() else Tick()
        finally:
            heard.cancel()
            timer.cancel()

    def _do(self, command: Command) -> None:
        match command:
            case Read():
                self._spawn(self._read())
            case ReadMinEpoch():
                self._spawn(self._read_min_epoch())
            case Write(attempt):
                # guard: nonce-per-write
                self._spawn(self._write(attempt.sealed(self._nonce(), self._stamp())))
            case Granted(grant):
                self._candidate.granted(grant)
            case Renewed(sent_at):
                self._candidate.renewed(sent_at)
            case Lost(reason):
                self._candidate.lost(reason)
            case Released(ok):
                self._resolve(self._releases, ok)
            case Raised(epoch):
                self._resolve(self._raises, epoch)
            case Say(event, sentence, fields):
                self._log.say(event, sentence, **fields)
            case _:
                assert_never(command)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    async def _within(self, seconds: float, call: Callable[[], Awaitable[T]]) -> T:
        """What ``call`` returns or raises; ``DocumentError`` after ``seconds``. It is cancelled then, but not waited for.

        Not ``asyncio.wait_for``: that waits until the cancelled call has agreed, and a backend that hangs need not.
        """

        async def called() -> T:
            return await call()

        task = self._spawn(called())
        task.add_done_callback(_ignore)  # for the case that it fails just when we are cancelled
        # guard: requests-time-out
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            if not task.done():
                task.cancel()
        if not task.done():
            raise DocumentError(f"no answer within {seconds:g} s", where=self._name)
        if task.cancelled():  # by the backend itself: it must not look as if we were
            raise DocumentError("the request was cancelled", where=self._name)
        return task.result()

    async def _read(self) -> None:
        observation: Input
        try:
            document = await self._within(self._request, lambda: self._store.read(self._name))
            observation = Seen(lock_state_of(document))
        except DocumentUnreadable as error:
            # guard: unreadable-is-not-free
            observation = Seen(self._corrupt(error))
        except Exception as error:  # noqa: BLE001 - after any error of a backend the election goes on
            observation = Unseen(_cause(error))
        self._inbox.put_nowait(observation)

    async def _read_min_epoch(self) -> None:
        observation: Input
        try:
            # The minimum takes several reads (the job's document, claims), so it gets the time of two.
            observation = MinEpochRead(await self._within(2 * self._timings.request, self._min_epoch))
        except Exception as error:  # noqa: BLE001 - without a minimum no replica contends; the next retry asks again
            # guard: unknown-min-epoch-is-not-zero
            observation = MinEpochUnknown(_cause(error))
        self._inbox.put_nowait(observation)

    async def _write(self, attempt: Attempt) -> None:
        outcome: Outcome | Corrupt
        try:
            outcome = await self._within(self._request, lambda: self._send(attempt))
        except DocumentUnreadable as error:
            outcome = self._corrupt(error)
        except Exception as error:  # noqa: BLE001 - it may have landed before it failed
            outcome = Unknown(_cause(error))
        match outcome:
            case Written() | Conflict() | Unknown() | Corrupt():
                self._inbox.put_nowait(Answer(attempt, outcome))
            case _:
                assert_never(outcome)

    async def _send(self, attempt: Attempt) -> Outcome:
        if attempt.seen is None:
            return await self._store.create(attempt.name, attempt.content)
        # guard: compare-and-set-on-what-was-seen
        return await self._store.replace(attempt.seen, attempt.content)

    def _corrupt(self, error: DocumentUnreadable) -> Corrupt:
        return Corrupt(shell(error, self._name) if error.revision else None, str(error))

    async def _watch(self) -> None:
        """Hints, for as long as we live: a watch that ends or breaks is started again; meanwhile there are polls."""
        broken = False
        while True:
            try:
                async for document in self._store.watch(self._name):
                    broken = False
                    self._inbox.put_nowait(Hint(None if document is None else document.revision))
                    await self._clock.sleep(self._timings.retry / _HINTS_PER_RETRY)
            except Exception as error:  # noqa: BLE001 - only hints are missing: the next read reports the cause
                if not broken:
                    self._log.say("watch-broken", f"no hints for now, only polls: {_cause(error)}")
                broken = True
            await self._clock.sleep(self._timings.retry)


def _cause(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _ignore(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a request that was given up, or asyncio would warn about it."""
    if not task.cancelled():
        task.exception()
