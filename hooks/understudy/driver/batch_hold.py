"""Hold everything a leader's script writes, between two batches, for as long as the supervisor needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError

from understudy.driver.checkpoint_reporter import CheckpointReporter
from understudy.driver.drain import Drain
from understudy.driver.error_text import first_line
from understudy.driver.fence_client import FenceClient, key_of
from understudy.driver.gate_client import GateClient
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.savepoints import Savepoints
from understudy.driver.takeover import Takeover
from understudy.protocol.messages import Held, Hold, Message, Save

#: Milliseconds between two looks at what is waited for.
_LOOK_MS = 50
#: Seconds for which a query that has ended may be started again, by its script or after a conflict.
_STARTED_AGAIN = 5.0


@dataclass(slots=True, eq=False, kw_only=True)
class BatchHold:
    """Two places hold: the fence, before the offsets of a batch are written, and the gate client, before a writer of the script's.

    Not guaranteed: that code which is neither (an HTTP request, a thread of the script's) stops.
    """

    gate_client: GateClient
    registry: QueryRegistry
    fence: FenceClient
    takeover: Takeover
    checkpoints: CheckpointReporter
    drain: Drain
    savepoints: Savepoints
    send: Callable[[Message], None]
    # guards _number, and that what is let go is not held again by a thread that was under way
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    # counts holds, so that one that was let go ends without an answer
    _number: int = field(default=0, init=False)
    # when the job stood still, by the monotonic clock
    _held_at: float = field(default=0.0, init=False)

    def begin(self, asked: Hold) -> None:
        """Send ``Held`` once no batch is in flight and no writer runs, or after ``asked.timeout`` seconds. Waits for nothing.

        Nothing is held where a query cannot be drained, or saved, if that is what it is for.
        """
        with self._lock:
            self._number += 1
            arguments = (self._number, asked)
        threading.Thread(target=self._hold, args=arguments, name="hold", daemon=True).start()

    def save(self, asked: Save) -> None:
        """Take a savepoint at the boundary that is held, and send ``Saved``. Waits for nothing.

        The hold ends with its copies, unless that is not wanted. One that was let go meanwhile, and begun again, is not ended.
        """
        number = self._number

        def copied() -> float:
            """For how long batches were held, in seconds."""
            with self._lock:
                if not asked.keep and number == self._number:
                    self._number += 1
                    self._release()
            return time.monotonic() - self._held_at

        threading.Thread(target=self.savepoints.take, args=(asked, copied), name="savepoint", daemon=True).start()

    def let_go(self) -> None:
        with self._lock:
            self._number += 1
            self._release()

    def _hold(self, number: int, asked: Hold) -> None:
        until = time.monotonic() + asked.timeout
        if (said := self._unable(asked, until)) is None:
            if (busy := self._wait_until_quiet(number, until)) is None:
                return
            said = Held(asked.request, busy, began=self.fence.attached_to_jvm) if busy else None
        with self._lock:
            if number != self._number:
                return
            if said is not None:
                self._release()
            self._held_at = time.monotonic()
        self.send(said or self._holds(asked))

    def _holds(self, asked: Hold) -> Held:
        self.checkpoints.report()
        try:
            roots = self.drain.roots() if asked.drain else []
        except Py4JError as error:
            self.let_go()
            return Held(asked.request, f"its queries cannot be looked into: {first_line(error)}")
        return Held(asked.request, "", began=self.fence.attached_to_jvm, roots=roots)

    def _unable(self, asked: Hold, until: float) -> Held | None:
        """What to answer where nothing can be held yet, or at all; ``None`` where it can."""
        # A batch that a predecessor has begun counts only once its root is claimed and its query started.
        if not self.takeover.settled(until - time.monotonic()):
            return Held(asked.request, "the takeover", began=self.fence.attached_to_jvm)
        if not asked.drain and not asked.save:
            return None
        if missing := self.drain.not_started(until - time.monotonic()):
            return Held(asked.request, missing)
        why = self.drain.refusal() if asked.drain else ""
        if asked.save and not why and (why := self.savepoints.refusal()) and asked.drain:
            why = f"no savepoint can be taken first: {why}; or drain with --no-savepoint"
        return Held(asked.request, why, refused=True) if why else None

    def _wait_until_quiet(self, number: int, until: float) -> str | None:
        """What still runs after ``until``, in words; empty once nothing does, and ``None`` where this hold was let go."""
        stuck_since: float | None = None
        while True:
            if (quiet := self._quiet(number)) is None:
                return None
            if quiet:
                return ""
            now = time.monotonic()
            stuck = self._stuck()
            stuck_since = (stuck_since or now) if stuck else None
            if stuck and stuck_since is not None and now - stuck_since >= _STARTED_AGAIN:
                return stuck
            if now >= until:
                return self._busy()

    def _quiet(self, number: int) -> bool | None:
        """Hold, and tell whether nothing runs; ``None`` where this hold was let go."""
        with self._lock:
            if number != self._number:
                return None
            self.gate_client.hold()
            self.fence.hold_batches()
        quiet = self.fence.await_quiet(_LOOK_MS)  # without the lock: a store may be asked that does not answer
        if not quiet or not self.gate_client.writes:
            return quiet
        time.sleep(_LOOK_MS / 1000)
        return False

    def _release(self) -> None:
        self.fence.release()
        self.gate_client.let_go()

    def _in_flight(self) -> list[PendingQuery]:
        try:
            roots = self.fence.roots_in_flight()
        except Py4JError:
            return []
        return [each for each in self.registry.queries() if key_of(each.checkpoint) in roots]

    def _stuck(self) -> str:
        """What is waited for in vain, in words: queries that have ended in the middle of a batch, where there are no others."""
        if self.gate_client.writes or not (queries := self._in_flight()):
            return ""
        if any(each.query is None or each.query.isActive for each in queries):
            return ""
        names = ", ".join(f"query {each.name}" for each in queries)
        return f"{names} has ended in the middle of a batch, and is not started again"

    def _busy(self) -> str:
        """What still runs, in words: queries by their names, and the script's own code by its lines."""
        queries = [f"query {each.name}" for each in self._in_flight()]
        return ", ".join([*queries, *self.gate_client.lines_that_run()]) or "a batch"
