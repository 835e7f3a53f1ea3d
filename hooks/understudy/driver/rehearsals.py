"""The thread that rehearses a standby's queries: carries out the schedule, and reports each round."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.driver import python_rows
from understudy.driver.batch_inputs import BatchInputs
from understudy.driver.java import java_class
from understudy.driver.read_budget import ReadBudget
from understudy.driver.rehearsal_round import Interrupted, RoundResult, run_round
from understudy.driver.rehearsal_schedule import (
    AwaitDeclarations,
    BeginRehearsals,
    Policy,
    ReportOff,
    RunRound,
    ScheduleState,
    SitOut,
    Stop,
    next_step,
    pause_after,
)
from understudy.driver.rehearsed_code import BatchFunctions
from understudy.driver.warm_up import WarmUp
from understudy.protocol.messages import OFF, WARM_UP, Message, RehearsalReport

if TYPE_CHECKING:
    from understudy.driver.pending_query import PendingQuery


#: Seconds in which a cancelled rehearsal lets go of what it has cached, and ends what it changes of a session; it takes milliseconds.
_PATIENCE = 5.0


class _PausedMeanwhile(Exception):
    """Rehearsals were paused since the round began, so this query's rehearsal is not made."""


class Rehearsals:
    """Owns the rehearsal thread of one driver. ``cancel`` is final: nothing is rehearsed after a grant. ``pause`` is not.

    ``mode`` is live, synthetic, plan or off; ``scratch`` a directory for what rehearsals write. Between rounds the state of all
    queries stays loaded, up to ``state_bytes`` together.
    """

    def __init__(
        self,
        mode: str,
        rounds: int,
        every: float,
        scratch: str,
        budget: ReadBudget,
        send: Callable[[Message], None],
        functions: BatchFunctions,
        *,
        state_bytes: int,
    ) -> None:
        self._mode = mode
        self._policy = Policy(rounds, every, off=mode == "off")
        self._scratch = scratch
        self._budget = budget
        self._send = send
        self._state_bytes = state_bytes
        self.functions = functions
        self.inputs = BatchInputs()
        self._warm_up = WarmUp(self._policy, scratch, self._report_warm_up)
        self._lock = threading.Lock()
        self._queries: list[PendingQuery] = []
        self._running: dict[int, Any] = {}  # by the query's index: its rehearsal in the JVM
        self._endings: list[threading.Thread] = []  # that cancel or pause, which wait for nothing
        self._cancelled = threading.Event()
        self._pauses = 0
        self._paused_until = 0.0
        self._wake = threading.Event()
        self._added = threading.Event()
        self._declared_at = 0.0
        self._declared = False
        self._rounds = 0
        self._places: dict[int, str] = {}  # where the script waits, by thread
        self._round_runs = False
        self._thread: threading.Thread | None = None
        self._watcher: threading.Thread | None = None
        self._reported: RehearsalReport | None = None
        self._reported_at = time.monotonic()

    def add(self, query: PendingQuery) -> None:
        self._warm_up.end()
        with self._lock:
            self._queries.append(query)
            self._declared_at = time.monotonic()
            self._added.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rehearsals", daemon=True)
                self._thread.start()
        self.inputs.used_by(query)
        self._watch()

    def held_at(self, where: str) -> None:
        """This thread of the script waits at ``where``, or goes on if that is empty. While one waits, no query is expected."""
        with self._lock:
            self._places.pop(threading.get_ident(), None)
            if where:
                self._places[threading.get_ident()] = where
            else:
                self._declared_at = time.monotonic()
        if not where:
            return
        self._wake.set()
        if self._queries:
            return
        self._report_held()
        self._warm_up.begin()
        self._watch()

    @property
    def _held(self) -> str:
        """Where the script waits; the latest place of several."""
        return next(reversed(tuple(self._places.values())), "")

    @property
    def waited(self) -> bool:
        """Whether any part of the script waits for a grant, or has declared a query for one."""
        return bool(self._held or self._queries)

    @property
    def rehearsing(self) -> bool:
        """Whether a round is under way that counts: one that a grant has cancelled may take long to end."""
        return self._round_runs and not self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel at once and for good. Waits for nothing."""
        self._cancelled.set()
        self._warm_up.end()
        self._wake.set()
        self._added.set()
        with self._lock:
            running = list(self._running.values())
        self._end(running, lambda rehearsal: rehearsal.cancel())

    def pause(self, seconds: float) -> None:
        """Break off the round that is under way, which then counts for nothing, and begin none for ``seconds``. Waits for nothing.

        For when a takeover is about to come: what a cancelled round still has to end would take its processors.
        """
        with self._lock:
            self._pauses += 1
            self._paused_until = time.monotonic() + seconds
            known = list(self._running.values())
            running = self._round_runs
            if running:
                self._running = {}
            self._endings = [thread for thread in self._endings if thread.is_alive()]
        self._warm_up.pause(seconds)
        self._end(known, lambda rehearsal: rehearsal.close() if running else rehearsal.sitOut())

    def _end(self, rehearsals: list[Any], way: Callable[[Any], None]) -> None:
        def end(rehearsal: Any) -> None:
            way(rehearsal)
            if self.functions:
                rehearsal.letGo()

        for rehearsal in rehearsals:
            thread = threading.Thread(target=end, args=(rehearsal,), daemon=True)
            thread.start()
            self._endings.append(thread)

    def let_go(self) -> None:
        """Wait until no rehearsed function caches or changes anything that a batch would find, and what it has cached is gone. After ``cancel``.

        Not for longer than some seconds. What ends later is let go then.
        """
        give_up = time.monotonic() + _PATIENCE
        for thread in list(self._endings) if self.functions else ():
            thread.join(max(give_up - time.monotonic(), 0.0))

    def _run(self) -> None:
        while True:
            self._added.clear()
            state, pauses = self._state()
            match next_step(self._policy, state, time.monotonic()):
                case AwaitDeclarations(seconds):
                    self._wake.wait(seconds)
                    self._wake.clear()
                case BeginRehearsals():
                    self._declared = True
                case ReportOff():
                    self._report_off()
                    return
                case SitOut(seconds):
                    self._cancelled.wait(seconds)
                case RunRound(number):
                    self._run_round(number, pauses)
                case Stop():
                    return

    def _state(self) -> tuple[ScheduleState, int]:
        """What the schedule looks at, and how often rehearsals were paused until then."""
        with self._lock:
            state = ScheduleState(
                held=bool(self._held),
                declared_at=self._declared_at,
                cancelled=self._cancelled.is_set(),
                paused_until=self._paused_until,
                declared=self._declared,
                rounds=self._rounds,
            )
            return state, self._pauses

    def _run_round(self, number: int, pauses: int) -> None:
        began = time.monotonic()
        match self._round(pauses):
            case Interrupted():
                return
            case RoundResult() as result:
                self._report(number, result)
                self._rounds = number
                self._wait_after(time.monotonic() - began, failed=result.failed)

    def _wait_after(self, seconds: float, *, failed: bool) -> None:
        """The pause after a round that took ``seconds``. A query that is declared meanwhile is rehearsed as often as the first."""
        pause = pause_after(
            self._policy,
            self._rounds,
            seconds,
            failed=failed,
            budget_pause=self._budget.pause(),
            jitter=random.uniform(0.8, 1.2),  # noqa: S311
        )
        if not pause:
            return
        if not self._cancelled.is_set():
            # A takeover is no moment for the collection of what rehearsals left: seen, 0.2 s of its 2 s.
            java_class(self._queries[0].session._jvm, "java.lang.System").gc()  # noqa: SLF001
        if self._added.wait(pause) and not self._cancelled.is_set():
            self._rounds = 0

    def _tell(self, report: RehearsalReport) -> None:
        self._reported, self._reported_at = report, time.monotonic()
        self._send(report)

    def _report(self, number: int, result: RoundResult) -> None:
        self._tell(
            RehearsalReport(
                self._held,
                not result.failed,
                result.kinds,
                number,
                result.seconds,
                result.reason,
                self.functions.withheld or self.inputs.changed(),
                result.rehearsed,
                calls_functions=not self.functions.withheld,
            )
        )

    def _report_off(self) -> None:
        self._tell(
            RehearsalReport(self._held, rehearsed=False, how=OFF, rounds=0, seconds=0.0, reason="rehearsals are off")
        )

    def _report_held(self, stale: str = "") -> None:
        rounds, seconds = self._warm_up.played
        self._tell(
            RehearsalReport(
                self._held,
                rehearsed=False,
                how=WARM_UP if rounds else "",
                rounds=rounds,
                seconds=seconds,
                reason=f"held at {self._held}, not rehearsed",
                outdated=stale,
            )
        )

    def _report_warm_up(self) -> None:
        if self._held and not self._queries:
            self._report_held(self.inputs.changed())

    def _watch(self) -> None:
        with self._lock:
            if self._watcher is not None:
                return
            self._watcher = threading.Thread(target=self._watch_inputs, name="batch-inputs", daemon=True)
        self._watcher.start()

    def _watch_inputs(self) -> None:
        """Look at them where no round does: before there is a query, while a round does not end, and in the long pause after one."""
        while not self._cancelled.wait(self._policy.every):
            if time.monotonic() < self._reported_at + self._policy.every or not (stale := self.inputs.changed()):
                continue
            if not self._queries:
                self._report_held(stale)
            elif self._reported is None or not self._reported.outdated:
                last = self._reported or RehearsalReport(self._held, rehearsed=False, how="", rounds=0, seconds=0.0)
                self._tell(replace(last, outdated=stale))

    def _round(self, pauses: int) -> RoundResult | Interrupted:
        """One round of every query. It counts only if rehearsals were neither paused, beyond ``pauses``, nor cancelled."""
        with self._lock:
            if self._pauses != pauses:
                return Interrupted()
            self._round_runs = True
            queries = list(self._queries)
        result = run_round(queries, lambda index, query: self._rehearsal(index, query, pauses), self._budget)
        with self._lock:
            self._round_runs = False
            paused = self._pauses != pauses
        return Interrupted() if paused or self._cancelled.is_set() else result

    def made(self, query: PendingQuery, checkpoint: str | None, scratch: str) -> Any:
        """A rehearsal of ``query`` in the JVM that reads ``checkpoint``, and writes to ``scratch`` below this driver's own directory."""
        jvm = query.session._jvm  # noqa: SLF001
        return java_class(jvm, "dev.understudy.rehearsal.Rehearsal").of(
            query.writer._jwrite,  # noqa: SLF001
            query.path,
            query.table,
            query.snapshot.java_conf,
            checkpoint,
            f"{self._scratch}/{scratch}",
            self._mode,
        )

    def _rehearsal(self, index: int, query: PendingQuery, pauses: int) -> Any:
        """The JVM's rehearsal of a query, which serves every round until rehearsals are paused."""
        with self._lock:
            rehearsal = self._running.get(index)
        if rehearsal is None:
            # what was broken off may still be clearing its own directory
            rehearsal = self.made(query, query.checkpoint, f"q{index}.{pauses}").keepingState(self._state_bytes)
            if (function := self.functions.of(query.writer)) is not None:
                rehearsal.calling(function)
            if rehearsal.readsPython():
                with suppress(Exception):  # from the JVM, too: the query's own rehearsal does not need it
                    place = f"{self._scratch}/python{index}.{pauses}"
                    rehearsal.after(python_rows.rehearsal(query.session, query.snapshot.java_conf, place))
            with self._lock:
                if self._pauses != pauses:
                    raise _PausedMeanwhile
                self._running[index] = rehearsal
            if self._cancelled.is_set():
                rehearsal.cancel()
        return rehearsal
