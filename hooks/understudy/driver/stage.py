"""The stage: where a script's queries wait, rehearse, and go on at the grant.

Order at a grant: running rehearsals are cancelled and not waited for; every root is claimed; every query starts, concurrently
where their settings agree. Nothing is read from a root before its claim.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from understudy.driver.executors import ask_for
from understudy.driver.fence_check import FenceCheck
from understudy.driver.first_commit import first_commit
from understudy.driver.gate_client import GateClient
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_count import QueryCount
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.rehearsals import Rehearsals
from understudy.driver.root_claims import RootClaims, refusal
from understudy.driver.stale_snapshot import first_line, stale_reason
from understudy.driver.standin import StandIn, is_log_conflict
from understudy.driver.tuning import advice
from understudy.errors import UnderstudyError
from understudy.protocol.gate import State
from understudy.protocol.messages import (
    Advice,
    Committed,
    Message,
    Running,
    StaleSnapshot,
    Started,
    Starting,
    Suspended,
)

#: How often a rightful leader restarts a query that met a predecessor's late write. More means someone outside the election.
_CONFLICT_RESTARTS = 2

#: A batch that ends within this many milliseconds is not cut off.
_ALMOST_DONE_MS = 50

#: How often the user's code that runs is looked at while it is waited for.
_LOOK_MS = 20

#: Nor is one whose ``foreachBatch`` has ended, if it is committed within this many.
_COMMIT_MS = 150


class Stage:
    def __init__(
        self,
        gate_client: GateClient,
        rehearsals: Rehearsals,
        gate: Path,
        fence_check: FenceCheck,
        say: Callable[[Message], None],
        executors: int = 0,
        *,
        in_cluster: bool = False,
    ) -> None:
        self.in_cluster = in_cluster
        self._executors = executors
        self._gate = gate
        self.fence_check = fence_check
        self.gate_client = gate_client
        self._rehearsals = rehearsals
        self._say = say
        self._jvm: Any = None
        self.registry = QueryRegistry(gate_client)
        self._lock = threading.Lock()  # guards _taken_over, and what waits for it
        self._settings_lock = threading.Lock()  # one start at a time may change a session's settings
        self._taken_over = False
        self._may_be_outdated = False  # stood by, took over, and has committed nothing yet
        self._claims = RootClaims(gate_client, fence_check, say)
        self._starting: dict[int, PendingQuery] = {}  # by id(): a leader's, not in the registry yet
        self._roots_lock = threading.Lock()  # what is claimed for whom does not change while roots are forgotten
        self._running = QueryCount(self.registry.state, lambda now: say(Running(now.running, dict(now.failed))))

    def attached(self, jvm: Any) -> None:
        self._jvm = jvm
        self._claims.attached(jvm)

    # The script's side.

    def read(self, frame: DataFrame) -> None:
        """The script has made a frame of a reader's. What a leader has read is its own affair, as in Spark."""
        if self.gate_client.stands_by:
            self._rehearsals.read(frame)

    def start(self, deferred: PendingQuery) -> StreamingQuery:
        """What ``DataStreamWriter.start()`` returns: the real query of a leader, or a stand-in."""
        with self._lock:
            waiting = self.gate_client.standing() is State.STANDBY and not self._taken_over
            if waiting:
                self.registry.add(deferred)
        if waiting:
            threading.Thread(target=self._prepare, args=(deferred,), name="prepare", daemon=True).start()
            self._rehearsals.add(deferred)
            return self._stand_in(deferred)
        self.gate_client.pass_through()
        self._advise(deferred)
        began = time.monotonic()
        self._starting[id(deferred)] = deferred
        try:
            claimed = self._begin([deferred])
            if deferred.error is not None:
                raise deferred.error
            with self._roots_lock:
                held = self._held()
                first = self.registry.add_started(deferred)
                self._forget(held - self._held(), deferred.session)
        finally:
            del self._starting[id(deferred)]
        if first:
            self._say(Started(1, claimed, time.monotonic() - began))
            threading.Thread(target=self._first_commit, args=(began,), name="first-commit", daemon=True).start()
        self._watch([deferred])
        return self._stand_in(deferred)

    def _stand_in(self, deferred: PendingQuery) -> StandIn:
        return StandIn(
            deferred.sink.query_name,
            lambda: self.registry.query_id(deferred),
            lambda: self.registry.wait_for_query(deferred),
            lambda failed: self.recover(deferred, failed),
        )

    def recover(self, deferred: PendingQuery, failed: StreamingQuery) -> bool:
        """Begin again a query that met a predecessor's late write: it reads that write and adopts it. True if it runs again.

        At most twice per query: a third conflict means that someone outside the election writes there.
        """
        if self.registry.in_callback:  # of the very start, perhaps, that recovers the query
            return False
        with deferred.recovery:
            if deferred.query is not failed:
                return True
            if deferred.recovered >= _CONFLICT_RESTARTS or self.gate_client.standing() is State.REVOKED:
                return False
            if not _met_a_conflict(failed):
                return False
            deferred.recovered += 1
            self._start_one(deferred)
            return deferred.query is not failed

    def recover_any(self, error: BaseException) -> bool:
        """Whether ``error`` is a log conflict, and every query that ended on one runs again: some were recovered by others before."""
        if not is_log_conflict(error):
            return False
        deferred = self.registry.queries()
        return all(self.recover(each, each.query) for each in deferred if each.query and _met_a_conflict(each.query))

    def wait_until_started(self) -> None:
        """Wait for the grant, and until everything that was deferred has begun."""
        self.registry.wait_until_started()

    # The supervisor's side.

    def granted(self, recorded: Mapping[str, int]) -> None:
        """Take over. Called in the thread that reads the supervisor's messages, so the work is another thread's."""
        self._claims.granted(recorded)
        self._rehearsals.cancel()
        self.gate_client.nudge()
        with self._lock:
            if self._taken_over:
                self._claims.reclaim()
                return
            self._taken_over = True
            deferred = self.registry.queries()
            self._may_be_outdated = self._rehearsals.waited
        if self._executors:
            threading.Thread(target=ask_for, args=(self._executors,), name="executors", daemon=True).start()
        if deferred:
            threading.Thread(target=self._take_over, args=(deferred,), name="takeover", daemon=True).start()

    def reclaim(self) -> None:
        self._claims.reclaim()

    @property
    def refusal(self) -> UnderstudyError | None:
        """Why the fence refuses this driver and every one after it; ``None`` if it does not."""
        return refusal(self._jvm)

    def revoked(self) -> None:
        self._rehearsals.cancel()
        self.gate_client.close_for_good()

    def suspend(self, patience: float) -> None:
        """Hold new batches; say when none is running, or when ending is as good as waiting.

        A batch that is cut off is run again by the successor, which costs it nothing: it rehearsed just that. Only code of the
        user's that runs now (``foreachBatch``, a writer) may mind being run twice, and gets ``patience`` seconds to finish, unless
        that is known to be too little. So do batches without rows, where all are: the successor would have to run them before the
        first that has some.
        """

        def quiesce() -> None:
            until = time.monotonic() + patience
            clean = self._quiesced(_ALMOST_DONE_MS)
            if not clean and self.gate_client.user_code_runs:
                clean = self.gate_client.may_end_by(until) and self._outwaited(until)
            elif not clean and not self._any_rows():
                clean = self._quiesced(round(patience * 1000))
            self._say(Suspended(clean))

        threading.Thread(target=quiesce, name="suspend", daemon=True).start()

    def _outwaited(self, until: float) -> bool:
        """Wait for the user's code, and then for its commit: other queries' batches are not waited for."""
        while self.gate_client.user_code_runs and time.monotonic() < until:
            if self._quiesced(_LOOK_MS):
                return True
        if self.gate_client.user_code_runs:
            return False
        commit_by = min(time.monotonic(), until) + _COMMIT_MS / 1000
        while (left := commit_by - time.monotonic()) > 0 and self._user_batch_in_flight():
            self._quiesced(min(_LOOK_MS, round(left * 1000)))
        return self._quiesced(0)

    def _user_batch_in_flight(self) -> bool:
        """Whether a query with a ``foreachBatch`` has a batch that is not committed."""
        queries = [each for each in self.registry.queries() if each.sink.kind == "foreachbatch"]
        roots = {(each.checkpoint or "").removeprefix("file:") for each in queries}
        try:
            state = json.loads(self._jvm.dev.understudy.fence.Fence.state())
        except Py4JJavaError:  # what cannot be looked into counts as in flight, as it does for the fence
            return True
        return any(each["root"] in roots and each["in_flight"] >= 0 for each in state["roots"])

    def _any_rows(self) -> bool:
        """Whether a query has rows in its batch, or has failed: then its batch stays in flight."""
        queries = [each.query for each in self.registry.queries() if each.query is not None]
        return any(not query.isActive or query.status["isDataAvailable"] for query in queries)

    def _quiesced(self, within_ms: int) -> bool:
        return self._jvm is None or bool(self._jvm.dev.understudy.fence.Fence.quiesce(within_ms))

    # The takeover.

    def _take_over(self, deferred: list[PendingQuery]) -> None:
        began = time.monotonic()
        self._say(Starting(len(deferred)))
        claimed = self._begin(deferred)
        self._say(Started(len(deferred), claimed, time.monotonic() - began))
        self._watch(deferred)
        self._first_commit(began)

    def _begin(self, deferred: list[PendingQuery]) -> float:
        """Claim and start; failures become each query's ``error``. Returns the seconds the claims took."""
        began = time.monotonic()
        try:
            sessions: dict[str, Any] = {}
            for each in deferred:
                roots = tuple(each.roots)
                with self._roots_lock:
                    each.claimed = roots
                sessions |= dict.fromkeys(roots, each.session)
            self._claims.claim({root: sessions[root] for root in sorted(sessions)})
            for each in deferred:
                each.count_ungated(self._jvm)
        except BaseException as error:  # noqa: BLE001 - LeadershipLost too: the script's thread raises it
            for each in deferred:
                each.error = error
                each.registered.set()
                each.begun.set()
            return time.monotonic() - began
        claimed = time.monotonic() - began
        starters = [threading.Thread(target=self._start_all, args=(each,), daemon=True) for each in _in_line(deferred)]
        for starter in starters:
            starter.start()
        for starter in starters:
            starter.join()
        return claimed

    def _start_all(self, line: list[PendingQuery]) -> None:
        for each in line:
            self._start_one(each)

    def _start_one(self, deferred: PendingQuery) -> None:
        deferred.starts = True
        try:
            with self._settings_lock:
                same = deferred.snapshot.same_settings(deferred.session)
                if not same:
                    mine = type(deferred.snapshot).of(deferred.session)
                    deferred.snapshot.apply(deferred.session)
                    try:
                        deferred.query = deferred.begin()
                    finally:
                        mine.apply(deferred.session)
            if same:
                deferred.query = deferred.begin()
        except BaseException as error:  # noqa: BLE001 - kept for the script's thread, which raises it
            deferred.error = error
            self.report_stale(error)
        finally:
            deferred.starts = False
            deferred.registered.set()
            deferred.begun.set()

    def _held(self) -> set[str]:
        return {root for each in (*self.registry.queries(), *self._starting.copy().values()) for root in each.claimed}

    def _forget(self, roots: set[str], session: Any) -> None:
        """Used by no query any more: whoever writes there again claims again."""
        self._claims.forget(roots)
        for root in roots:
            with suppress(Exception):  # the JVM is gone; so is what it remembers
                self._jvm.dev.understudy.fence.Fence.forget(root, session.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001

    def _advise(self, deferred: PendingQuery) -> None:
        with suppress(Exception):  # advice is worth no failure: whatever cannot be read here, the start will tell
            if text := advice(deferred):
                self._say(Advice(text))

    def _prepare(self, deferred: PendingQuery) -> None:
        self._advise(deferred)
        conf = deferred.session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        for root in deferred.roots:
            try:
                self._jvm.dev.understudy.fence.Fence.prepare(root, conf)
            except Exception:  # noqa: BLE001 - whatever a standby meets here, the claim will meet again and say
                if (refused := self.refusal) is not None:
                    self.fence_check.refuse(refused)  # the script waits for a grant that would be of no use
                return

    # After the takeover.

    def _watch(self, deferred: list[PendingQuery]) -> None:
        self._running.changed()
        for each in deferred:
            threading.Thread(target=self._restart_on_conflict, args=(each,), name="conflict-watch", daemon=True).start()

    def _restart_on_conflict(self, deferred: PendingQuery) -> None:
        while (query := deferred.query) is not None:
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                if not self.recover(deferred, query):
                    self.report_stale(error)
                    return
            except BaseException:  # noqa: BLE001 - the JVM is gone; the supervisor sees to it
                return
            else:
                return
            finally:
                self._running.changed()

    def report_stale(self, error: BaseException) -> None:
        """Tell the supervisor of an error that a script begun now would not meet, while nothing of ours is committed yet."""
        if self._may_be_outdated and (meaning := stale_reason(error)):
            self._may_be_outdated = False
            self._say(StaleSnapshot(f"{meaning}: {first_line(error)}"))

    def _first_commit(self, began: float) -> None:
        """Tell of the first commit since the takeover that ``began``."""
        if (landed := first_commit(self._gate, self.gate_client)) is not None:
            self._may_be_outdated = False
            self._say(Committed(*landed, time.monotonic() - began))


def _met_a_conflict(query: StreamingQuery) -> bool:
    error = None if query.isActive else query.exception()
    return error is not None and is_log_conflict(error)


def _in_line(deferred: Iterable[PendingQuery]) -> list[list[PendingQuery]]:
    """What may start at the same time, and what only one after the other, as the script had it."""
    lines: list[list[PendingQuery]] = []
    for each in deferred:
        joined = [line for line in lines if any(each.excludes(other) for other in line)]
        lines = [line for line in lines if line not in joined]
        lines.append([*(other for line in joined for other in line), each])
    return lines
