"""The takeover: what a grant of leadership does to a driver that waited for it.

Order at a grant: running rehearsals are cancelled and not waited for; every root is claimed; every query starts, as soon as a
processor is free for its first batch. Nothing is read from a root before its claim.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from understudy.driver.conflict_recovery import ConflictRecovery
from understudy.driver.error_text import first_line
from understudy.driver.executors import ask_for
from understudy.driver.first_commit import FirstCommit
from understudy.driver.gate_client import GateClient
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_launcher import QueryLauncher
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.rehearsals import Rehearsals
from understudy.driver.root_claims import RootClaims
from understudy.driver.stale_snapshot import StaleSnapshotReporter
from understudy.errors import LeadershipLost, UnderstudyError
from understudy.protocol.gate import State
from understudy.protocol.messages import Granted, Message, Started, Starting

#: Seconds in which a script is told of a start that failed, by asking for that query. It mostly waits for one of them.
_ASKED_WITHIN = 5.0
#: Seconds between two looks.
_LOOK = 0.1


class StartFailed(Exception):
    """A query that waited for the grant could not be started, and the script does not know."""


@dataclass(slots=True, eq=False, kw_only=True)
class Takeover:
    """``executors`` is how many to ask for at the grant; 0 leaves that to Spark. ``end`` ends the process."""

    gate_client: GateClient
    rehearsals: Rehearsals
    registry: QueryRegistry
    claims: RootClaims
    launcher: QueryLauncher
    recovery: ConflictRecovery
    first_commit: FirstCommit
    stale_snapshot: StaleSnapshotReporter
    send: Callable[[Message], None]
    end: Callable[[BaseException], NoReturn]
    executors: int
    # guards _taken_over, and which queries wait for it
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _taken_over: bool = field(default=False, init=False)
    _settled: threading.Event = field(default_factory=threading.Event, init=False)

    def awaits(self, query: PendingQuery) -> bool:
        """Register the query for the takeover and return true; false where this driver has stopped standing by."""
        with self._lock:
            waiting = self.gate_client.standing() is State.STANDBY and not self._taken_over
            if waiting:
                self.registry.add(query)
        return waiting

    def granted(self, granted: Granted) -> None:
        """Take over; where this driver leads already, its token was raised, and it claims again.

        Called in the thread that reads the supervisor's messages, so the work is another thread's.
        """
        self.claims.granted(granted)
        self.rehearsals.cancel()
        self.gate_client.nudge()
        with self._lock:
            if self._taken_over:
                self.claims.reclaim()
                return
            self._taken_over = True
            queries = self.registry.queries()
            self.stale_snapshot.takeover_begins(waited=self.rehearsals.waited)
        if self.gate_client.rehearsed.handed_over.overtaken():
            return  # the script runs again from the top: a batch would only give more to a thread that never writes it
        if self.executors:
            threading.Thread(target=ask_for, args=(self.executors,), name="executors", daemon=True).start()
        if queries:
            threading.Thread(target=self._take_over, args=(queries,), name="takeover", daemon=True).start()
        else:
            self._settled.set()
            self.stale_snapshot.first_batches_over()

    def settled(self, within: float) -> bool:
        """Whether the queries that waited for the grant have started, or there were none; waits ``within`` seconds for it.

        A driver that was started as a leader has nothing to wait for.
        """
        with self._lock:
            if not self._taken_over:
                return True
        return self._settled.wait(within)

    def reclaim(self) -> None:
        """The supervisor has raised the token above a higher claim: claim again and go on."""
        self.claims.reclaim()

    def revoked(self) -> None:
        self.rehearsals.cancel()
        self.gate_client.close_for_good()

    def _take_over(self, queries: list[PendingQuery]) -> None:
        began = time.monotonic()
        self.send(Starting(len(queries)))
        # It may come before the last query has begun.
        threading.Thread(target=self.first_commit.report, args=(began,), name="first-commit", daemon=True).start()
        claimed = self.launcher.claim_and_start(queries, self.rehearsals.let_go, self.recovery.follow)
        self._settled.set()
        started = [each for each in queries if each.error is None]
        self.send(Started(len(started), claimed, time.monotonic() - began))
        self.recovery.query_count.changed()
        if len(started) < len(queries):
            threading.Thread(target=self._fail_untold, args=(queries,), name="failed-starts", daemon=True).start()
        self.launcher.await_first_batches()
        self.recovery.report_ended(started)
        self.stale_snapshot.first_batches_over()

    def _fail_untold(self, queries: list[PendingQuery]) -> None:
        """Where ``start()`` raises, a script ends that does not expect it. So does one that has not asked how its query is, or it would lead
        without that query for ever.
        """
        give_up = time.monotonic() + _ASKED_WITHIN
        while untold := [(each.name, each.error) for each in queries if each.error is not None and not each.told]:
            if self.gate_client.standing() is State.REVOKED:
                return
            if time.monotonic() > give_up:
                name, error = untold[0]
                if isinstance(error, LeadershipLost | UnderstudyError):
                    self.end(error)
                self.end(StartFailed(f"query {name}: {first_line(error)}"))
            time.sleep(_LOOK)
