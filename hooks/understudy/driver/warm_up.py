"""What a standby rehearses whose script is held before it has declared a query: a query of ours, so that Spark is warm at the grant."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from understudy.driver.java import java_class
from understudy.driver.rehearsal_schedule import Policy, pause_after


class _BrokenOff(Exception):
    """The round is not begun: rehearsals were paused, or have ended."""


class WarmUp:
    """Rounds of the query in a thread of its own, as often and with such pauses as for queries of the script.

    ``end`` is final, and comes with the grant or with the script's first query. ``played``: how many rounds, and the seconds of the last one;
    ``report`` is called after each. A session in which it cannot run (its executors are elsewhere and scratch is on this disk) is
    left alone.
    """

    def __init__(self, policy: Policy, scratch: str, report: Callable[[], None]) -> None:
        self._policy = policy
        self._scratch = scratch
        self._report = report
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._paused_until = 0.0
        self._rehearsal: Any = None
        self._made = 0
        self.played = 0, 0.0
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Does nothing where it runs already, has ended, or where the script has no session yet."""
        if self._policy.off or self._thread is not None or self._ended.is_set():
            return
        if (session := SparkSession.getActiveSession()) is None:
            return
        self._thread = threading.Thread(target=self._run, args=(session,), name="warm-up", daemon=True)
        self._thread.start()

    def pause(self, seconds: float) -> None:
        """Break off the round that is under way, and begin none for ``seconds``. Waits for nothing."""
        with self._lock:
            self._paused_until = time.monotonic() + seconds
        self._close()

    def end(self) -> None:
        """Waits for nothing."""
        self._ended.set()
        self._close()

    def _close(self) -> None:
        with self._lock:
            rehearsal, self._rehearsal = self._rehearsal, None
        if rehearsal is not None:
            threading.Thread(target=rehearsal.close, daemon=True).start()

    def _run(self, session: SparkSession) -> None:
        while self.played[0] < self._policy.rounds and not self._ended.wait(
            max(0.0, self._paused_until - time.monotonic())
        ):
            began = time.monotonic()
            try:
                self._round(session)
            except Exception:  # noqa: BLE001 - from the JVM, too
                if self._broken_off:
                    continue
                break  # it cannot run here
            self.played = self.played[0] + 1, time.monotonic() - began
            self._report()
            if pause := pause_after(self._policy, *self.played, failed=False, budget_pause=0.0, jitter=1.0):
                java_class(session._jvm, "java.lang.System").gc()  # noqa: SLF001 - a takeover is no moment for it
                self._ended.wait(pause)
        self._close()

    @property
    def _broken_off(self) -> bool:
        return self._ended.is_set() or self._paused_until > time.monotonic()

    def _round(self, session: SparkSession) -> None:
        with self._lock:
            rehearsal = self._rehearsal
        if rehearsal is None:
            rehearsal = self._new(session)
            with self._lock:
                broken_off = self._broken_off
                if not broken_off:
                    self._rehearsal = rehearsal
            if broken_off:
                rehearsal.close()  # it has written to scratch
                raise _BrokenOff
        rehearsal.round()

    def _new(self, session: SparkSession) -> Any:
        jvm: Any = session._jvm  # noqa: SLF001
        self._made += 1
        made = java_class(jvm, "dev.understudy.rehearsal.WarmUpQuery")
        return made.of(session._jsparkSession, f"{self._scratch}/warm-up.{self._made}")  # noqa: SLF001
