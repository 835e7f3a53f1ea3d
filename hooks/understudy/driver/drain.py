"""Drain: brings a job's streaming queries to their end with all that they keep back let out, as FLIP-34's TERMINATE does.

A query with a watermark is stopped between two batches. One entry is appended to the offsets of its checkpoint: the same offsets again, and the
end of time as the watermark. The query is started again, and runs that one batch: it has no input, and every window and session closes.
Queries without a watermark keep nothing back that time would let out, and stay between two batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from understudy.driver.checkpoint_reporter import CheckpointReporter
from understudy.driver.conflict_recovery import ConflictRecovery
from understudy.driver.error_text import first_line
from understudy.driver.fence_client import FenceClient, key_of
from understudy.driver.parallel import call_each
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_launcher import QueryLauncher
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.root_claims import RootClaims
from understudy.errors import ScriptProblem
from understudy.protocol.messages import Drained, Message

_SEE_LOG = "See the log of its driver"
#: Seconds between two looks.
_LOOK = 0.05
#: Seconds for which a script may take to start a query that is to be drained.
_STARTS = 300.0


@dataclass(slots=True, eq=False, kw_only=True)
class Drain:
    """Not guaranteed: that processing-time timers fire, that code of the script behind its queries runs, and that a batch ends which waits for
    a thread of its own that asks for a query that has ended.

    That a query ends to be started again is kept from the script: a question about it waits until it runs.
    """

    registry: QueryRegistry
    claims: RootClaims
    fence: FenceClient
    launcher: QueryLauncher
    recovery: ConflictRecovery
    checkpoints: CheckpointReporter
    send: Callable[[Message], None]

    def refusal(self) -> str:
        """Why one of the queries that run cannot be drained; empty if all can."""
        whys = (
            f"query {each.name} cannot be drained: it {why}" for each in self._running() if (why := each.no_boundary)
        )
        return next(whys, "")

    def not_started(self, within: float) -> str:
        """Which queries have not started within these seconds, in words: those of checkpoints on record; at least one, where there are none.

        A driver that is new runs its script from the first line, and what has not started yet would be left out.
        """
        until = time.monotonic() + within
        while True:
            queries = self.registry.queries()
            starting = [each.checkpoint for each in queries if each.checkpoint and not each.begun.is_set()]
            missing = [*self.claims.unclaimed, *starting]
            if queries and not missing:
                return ""
            if time.monotonic() >= until:
                return (
                    f"the query of {missing[0]} has not started (if it is gone for good: understudy resume --accept-checkpoint "
                    f"{missing[0]}, and understudy hand-over)"
                    if missing
                    else "no query has started"
                )
            time.sleep(_LOOK)

    def roots(self) -> list[str]:
        """The checkpoints of queries with a watermark, also of those that have ended: they may keep rows back, too."""
        return [
            each.checkpoint
            for each in self.registry.queries()
            if each.checkpoint is not None and each.query is not None and self.fence.has_watermark(each.query)
        ]

    def begin(self, request: str, roots: list[str]) -> None:
        """Send ``Drained`` once the queries of these checkpoints are, or cannot be. Batches are held already. Waits for nothing."""
        threading.Thread(target=self._drain, args=(request, roots), name="drain", daemon=True).start()

    def _drain(self, request: str, roots: list[str]) -> None:
        problem = ""
        try:
            # Until all have started the script's questions are answered: it may ask one before it starts the next.
            queries = [self._query_of(root) for root in roots]
            self.registry.drain()
            call_each(self._drain_one, queries, at_most=8)
        except BaseException as error:  # noqa: BLE001 - LeadershipLost too; the supervisor decides what follows
            problem = first_line(error) or type(error).__name__
        self.checkpoints.report()
        self.send(Drained(request, problem))

    def _running(self) -> list[PendingQuery]:
        return [each for each in self.registry.queries() if each.query is not None and each.query.isActive]

    def _drain_one(self, query: PendingQuery) -> None:
        root = query.checkpoint
        assert root is not None
        batch = self.fence.drained_by(root, query.session)
        if batch < 0:
            # A predecessor's last batch runs again before that, as at every takeover.
            while key_of(root) in self.fence.roots_in_flight():
                self._recover(query)
                time.sleep(_LOOK)
            with query.recovery:
                stopped = query.query
                if stopped is not None:
                    stopped.stop()
                batch = self.fence.drain(root, query.session)
                if batch < 0:
                    return
                self.launcher.start_one(query)
                if query.query is stopped:
                    raise query.error or ScriptProblem(
                        "it does not start again", where=f"query {query.name}", remedy=_SEE_LOG
                    )
            self.recovery.watch(query)
        while True:
            current = query.query
            runs = current is not None and current.isActive  # asked first: one that ends by itself commits before that
            if self.fence.committed().get(key_of(root), -1) >= batch:
                return
            if not runs:
                self._recover(query)
            time.sleep(_LOOK)

    def _query_of(self, root: str) -> PendingQuery:
        """The query of this checkpoint, once it has started: a driver that is new runs the script from its first line."""
        until = time.monotonic() + _STARTS
        while time.monotonic() < until:
            for each in self.registry.queries():
                if each.checkpoint == root and each.begun.is_set() and each.query is not None:
                    return each
            time.sleep(_LOOK)
        raise ScriptProblem(
            f"no query uses this checkpoint within {_STARTS:.0f} s, so it cannot be drained",
            where=root,
            remedy="Run the script that has begun it; or end the job as it is with understudy cancel",
        )

    def _recover(self, query: PendingQuery) -> None:
        """Raises what has ended the query, unless it runs again."""
        current = query.query
        if current is None or current.isActive or self.recovery.recover(query, current):
            return
        raise current.exception() or ScriptProblem(
            "it has ended before it was drained", where=f"query {query.name}", remedy=_SEE_LOG
        )
