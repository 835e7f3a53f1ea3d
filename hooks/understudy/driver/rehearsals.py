"""The schedule of rehearsals: some rounds at once, so that the JIT has seen a takeover, many with pauses, so that it has compiled
one, then one every now and then.

A standby that is rehearsed on a schedule proves, while nothing is wrong, that the checkpoint can be read and the batch can run.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from understudy.driver.read_budget import ReadBudget
from understudy.protocol.messages import Message, RehearsalReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from understudy.driver.pending_query import PendingQuery

#: A script that has deferred a query and asks nothing for this long is taken to have declared all of them, in seconds.
_QUIET = 2.0

#: Rounds that follow each other without a pause. After them a takeover is quick, and its first batch still spends a third of the
#: processor in the JIT: that takes some thirty rounds to calm down.
_AT_ONCE = 4

#: How many times as long as the last round the pauses are until all rounds have been played. A takeover shares its machine with
#: whatever the other standbys rehearse: seen on two cores, at half speed (1) kills in the first minutes took 1.6 s instead of 0.9.
_REST = 5

#: Seconds of such a pause that are enough; a longer round rests as long as it took. Seen in a cluster, where rounds take 2.5 s:
#: without this, a new standby was warm after four minutes.
_ENOUGH = 5.0

#: Rounds that read something of the user's.
_READ = ("live", "throwaway")


class _BrokenOff(Exception):
    """There was a rest since the round began: how it ended says nothing."""


class Rehearsals:
    """Owns the rehearsal thread of one driver. ``cancel`` is final: after a grant nothing is rehearsed any more. ``rest`` is not."""

    def __init__(
        self,
        mode: str,
        rounds: int,
        every: float,
        scratch: str,
        budget: ReadBudget,
        say: Callable[[Message], None],
    ) -> None:
        self._mode = mode
        self._rounds = rounds
        self._every = every
        self._scratch = scratch
        self._budget = budget
        self._say = say
        self._lock = threading.Lock()
        self._deferred: list[PendingQuery] = []
        self._running: dict[int, Any] = {}
        self._cancelled = threading.Event()
        self._rests = 0
        self._rest_until = 0.0
        self._wake = threading.Event()
        self._added = threading.Event()
        self._last_added = 0.0
        self._places: dict[int, str] = {}  # where the script waits, by thread
        self._playing = False
        self._thread: threading.Thread | None = None
        self._looker: threading.Thread | None = None
        self._reads: Any = None  # the JVM's BatchInputs, from the first frame on

    def add(self, deferred: PendingQuery) -> None:
        with self._lock:
            self._deferred.append(deferred)
            self._last_added = time.monotonic()
            self._added.set()
            reads = self._reads
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rehearsals", daemon=True)
                self._thread.start()
        if reads is not None:
            reads.use(deferred.writer._jwrite)  # noqa: SLF001

    def held(self, where: str) -> None:
        """This thread of the script waits at ``where``, or goes on where that is empty. While one waits nothing more is expected."""
        with self._lock:
            self._places.pop(threading.get_ident(), None)
            if where:
                self._places[threading.get_ident()] = where
            else:
                self._last_added = time.monotonic()
        if not where:
            return
        self._wake.set()
        if self._deferred:
            return
        self._only_held()
        if self._looker is None:
            self._looker = threading.Thread(target=self._only_look, name="static-reads", daemon=True)
            self._looker.start()

    @property
    def _held(self) -> str:
        """Where the script waits; the latest place of several."""
        return next(reversed(tuple(self._places.values())), "")

    @property
    def waited(self) -> bool:
        """Whether anything of the script has waited for a grant."""
        return bool(self._held or self._deferred)

    @property
    def playing(self) -> bool:
        """Whether a round is under way that counts: one that a grant has cancelled may take long to end."""
        return self._playing and not self._cancelled.is_set()

    def read(self, frame: DataFrame) -> None:
        """The script has made a frame that may read files in batch."""
        with self._lock:
            if self._reads is None:
                self._reads = frame.sparkSession._jvm.dev.understudy.rehearsal.BatchInputs()  # type: ignore[union-attr] # noqa: SLF001
        self._reads.add(frame._jdf)  # noqa: SLF001

    def cancel(self) -> None:
        """Cancel at once and for good. Waits for nothing."""
        self._cancelled.set()
        self._wake.set()
        self._added.set()
        with self._lock:
            running = list(self._running.values())
        for rehearsal in running:
            threading.Thread(target=rehearsal.cancel, daemon=True).start()

    def rest(self, seconds: float) -> None:
        """Break off the round that is under way, which counts for nothing, and begin none for so long. Waits for nothing.

        For when a takeover is about to come: what a cancelled round still has to end would take its processors.
        """
        with self._lock:
            self._rests += 1
            self._rest_until = time.monotonic() + seconds
            running = list(self._running.values()) if self._playing else []
            if self._playing:
                self._running = {}
        for rehearsal in running:
            threading.Thread(target=rehearsal.close, daemon=True).start()

    def _run(self) -> None:
        while not self._held and time.monotonic() - self._last_added < _QUIET and not self._cancelled.is_set():
            self._wake.wait(0.1)
            self._wake.clear()
        if self._mode == "off":
            self._say(
                RehearsalReport(
                    self._held, rehearsed=False, how="off", rounds=0, seconds=0.0, reason="rehearsals are off"
                )
            )
            return
        done = 0
        while not self._cancelled.is_set():
            self._added.clear()
            rests, left = self._resting()
            if left > 0:
                self._cancelled.wait(left)
                continue
            began = time.monotonic()
            try:
                failed = self._round(done + 1, rests)
            except _BrokenOff:
                continue
            done += 1
            pause = self.pause(done, time.monotonic() - began, failed=failed)
            if pause and not self._cancelled.is_set():
                # A takeover is no moment for the collection of what rehearsals left: seen, 0.2 s of its 2 s.
                self._deferred[0].session._jvm.java.lang.System.gc()  # noqa: SLF001
            if pause and self._added.wait(pause) and not self._cancelled.is_set():
                done = 0  # a query that is declared late is rehearsed as often as the first ones

    def _resting(self) -> tuple[int, float]:
        """How often there was a rest until now, and the seconds that are left of the last."""
        with self._lock:
            return self._rests, self._rest_until - time.monotonic()

    def pause(self, done: int, seconds: float, *, failed: bool) -> float:
        """Seconds to the next round, after one that took ``seconds``."""
        if failed or done >= self._rounds:
            return max(self._every * random.uniform(0.8, 1.2), self._budget.pause())  # noqa: S311
        if done < _AT_ONCE:
            return 0.0
        return max(min(_REST * seconds, max(_ENOUGH, seconds), self._every), self._budget.pause())

    def _only_held(self, outdated: str = "") -> None:
        reason = f"held at {self._held}, not rehearsed"
        self._say(
            RehearsalReport(
                self._held, rehearsed=False, how="", rounds=0, seconds=0.0, reason=reason, outdated=outdated
            )
        )

    def _only_look(self) -> None:
        """Nothing can be rehearsed of a script that is held before it declares a query, and it grows old all the same."""
        while not self._cancelled.wait(self._every) and not self._deferred:
            if outdated := self._outdated():
                self._only_held(outdated)

    def _outdated(self) -> str:
        """What the script has read and has changed since, in words."""
        if self._reads is None:
            return ""
        try:
            place = str(self._reads.changed())
        except Exception:  # noqa: BLE001 - a store that does not answer now is asked again next time
            return ""
        return f"{place} has changed since the script read it" if place else ""

    def _round(self, number: int, rests: int) -> bool:
        """One round of every query, all at the same time as in a takeover. True if it failed.

        Raises ``_BrokenOff`` when there have been more than ``rests`` rests.
        """
        began = time.monotonic()
        with self._lock:
            if self._rests != rests:
                raise _BrokenOff
            self._playing = True
            cast = list(self._deferred)
        how: dict[int, str] = {}
        errors: dict[int, str] = {}

        def play(index: int, deferred: PendingQuery) -> None:
            try:
                rehearsal = self._rehearsal(index, deferred, rests)
                known = rehearsal.bytesRead()
                try:
                    played = json.loads(rehearsal.round())
                finally:
                    self._budget.spend(0, rehearsal.bytesRead() - known)
                how[index] = str(played["how"])
                if played["how"] in _READ:
                    self._budget.spend(played["rows"], 0)
            except Exception as error:  # noqa: BLE001 - whatever a rehearsal meets, the script and the leader must not feel it
                java = getattr(error, "java_exception", None)
                errors[index] = str(java.getMessage() if java is not None else error)

        players = [threading.Thread(target=play, args=item) for item in enumerate(cast)]
        for player in players:
            player.start()
        for player in players:
            player.join()
        with self._lock:
            self._playing = False
            if self._rests != rests:
                raise _BrokenOff
        if self._cancelled.is_set():
            return True
        kinds = ",".join(sorted(set(how.values())))
        reason = "; ".join(f"{cast[index].name}: {text}" for index, text in errors.items())
        seconds = time.monotonic() - began
        told = RehearsalReport(
            self._held, not errors, kinds, number, seconds, reason, self._outdated(), len(cast) - len(errors)
        )
        self._say(told)
        return bool(errors)

    def _rehearsal(self, index: int, deferred: PendingQuery, rests: int) -> Any:
        with self._lock:
            rehearsal = self._running.get(index)
        if rehearsal is None:
            jvm = deferred.session._jvm  # noqa: SLF001
            rehearsal = jvm.dev.understudy.rehearsal.Rehearsal.of(
                deferred.writer._jwrite,  # noqa: SLF001
                deferred.path,
                deferred.table,
                deferred.snapshot.java_conf,
                deferred.checkpoint,
                f"{self._scratch}/q{index}.{rests}",  # what was broken off may still be clearing its own away
                self._mode,
            )
            with self._lock:
                if self._rests != rests:
                    raise _BrokenOff
                self._running[index] = rehearsal
            if self._cancelled.is_set():
                rehearsal.cancel()
        return rehearsal
