"""What ``DataStreamWriter.start()`` does: a standby declares the query, a leader starts it. Either gets a stand-in for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql.streaming import StreamingQuery

from understudy.driver.conflict_recovery import ConflictRecovery
from understudy.driver.fence_check import FenceCheck
from understudy.driver.fence_client import FenceClient
from understudy.driver.first_commit import FirstCommit
from understudy.driver.gate_client import GateClient
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_launcher import QueryLauncher
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.rehearsals import Rehearsals
from understudy.driver.roots_in_use import RootsInUse
from understudy.driver.standin import StandIn
from understudy.driver.takeover import Takeover
from understudy.driver.tuning import advice
from understudy.protocol.messages import Advice, Message, Started


@dataclass(slots=True, eq=False, kw_only=True)
class QueryStarts:
    gate_client: GateClient
    rehearsals: Rehearsals
    registry: QueryRegistry
    fence: FenceClient
    fence_check: FenceCheck
    roots: RootsInUse
    launcher: QueryLauncher
    takeover: Takeover
    recovery: ConflictRecovery
    first_commit: FirstCommit
    send: Callable[[Message], None]

    def start(self, query: PendingQuery) -> StreamingQuery:
        """Start the query now on a leader, at the grant on a standby. Waits at a closed gate.

        Raises what Spark's start raises, and ``LeadershipLost``.
        """
        stand_in = query.stand_in = StandIn(
            query.sink.query_name,
            lambda: self.registry.query_id(query),
            lambda: self.registry.wait_for_query(query),
            lambda failed: self.recovery.recover(query, failed),
        )
        if self.takeover.awaits(query):
            threading.Thread(target=self._prepare, args=(query,), name="prepare", daemon=True).start()
            self.rehearsals.add(query)
        else:
            self._start_now(query)
        return stand_in

    def _start_now(self, query: PendingQuery) -> None:
        self.gate_client.pass_through()
        self._advise(query)
        began = time.monotonic()
        with self.roots.starting(query):
            claimed = self.launcher.claim_and_start([query])
            if query.error is not None:
                raise query.error
            first = self.roots.register(query)
        if first:
            self.send(Started(1, claimed, time.monotonic() - began))
            threading.Thread(target=self.first_commit.report, args=(began,), name="first-commit", daemon=True).start()
        self.recovery.watch(query)

    def _advise(self, query: PendingQuery) -> None:
        with suppress(Exception):  # advice is worth no failure: the start reports what cannot be read here
            if text := advice(query):
                self.send(Advice(text))

    def _prepare(self, query: PendingQuery) -> None:
        """On a standby: advise, and make ready what the claims of the takeover need."""
        self._advise(query)
        for root in query.roots:
            try:
                self.fence.prepare(root, query.session)
            except Exception:  # noqa: BLE001 - what a standby meets here, the claim meets again and reports
                if (refused := self.fence.refusal()) is not None:
                    self.fence_check.refuse(refused)  # the script waits for a grant that would be of no use
                return
