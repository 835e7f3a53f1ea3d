"""Restarts a query that met a late write of the previous leader: it reads that write and adopts it, and the script sees nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from understudy.driver.fence_check import FenceCheck
from understudy.driver.fence_client import FenceClient
from understudy.driver.gate_client import GateClient
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_count import QueryCount
from understudy.driver.query_launcher import QueryLauncher
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.stale_snapshot import StaleSnapshotReporter
from understudy.protocol.gate import State

#: How often one query is restarted. A third conflict means that someone outside the election writes there.
_CONFLICT_RESTARTS = 2

#: What Spark and Delta say when two queries wrote one log: the checkpoint, a file sink's log, or a Delta table.
#: `tests/unit/test_conflict_recovery.py` compares it with Spark's own error classes.
_CONFLICTS = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Concurrent update to the log",
    "concurrently using",
    "FileAlreadyExistsException",
    "Race while writing batch",  # _spark_metadata/N came after the sink had looked for it
    # the transaction of the same query and batch, or what Delta notices of it before that: rows it added, files it replaced,
    # the table it created
    "DELTA_CONCURRENT_TRANSACTION",
    "ConcurrentTransactionException",
    "DELTA_CONCURRENT_APPEND",
    "DELTA_CONCURRENT_DELETE_DELETE",
    "DELTA_CONCURRENT_DELETE_READ",
    "DELTA_CONCURRENT_WRITE",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "MetadataChangedException",
    "ProtocolChangedException",
)


def is_log_conflict(error: BaseException) -> bool:
    return any(text in str(error) for text in _CONFLICTS)


@dataclass(slots=True, eq=False, kw_only=True)
class ConflictRecovery:
    gate_client: GateClient
    registry: QueryRegistry
    launcher: QueryLauncher
    query_count: QueryCount
    stale_snapshot: StaleSnapshotReporter
    fence: FenceClient
    fence_check: FenceCheck

    def recover(self, query: PendingQuery, failed: StreamingQuery) -> bool:
        """Restart a query that ``failed`` on a log conflict. True if it runs again, also by another thread's doing.

        False after two restarts, once leadership is lost, and in a listener that a start waits for: that may be the very start
        that recovers the query.
        """
        if self.registry.in_callback:
            return False
        with query.recovery:
            if query.query is not failed:
                return True
            if query.recovered >= _CONFLICT_RESTARTS or self.gate_client.standing() is State.REVOKED:
                return False
            if not _met_a_conflict(failed):
                return False
            query.recovered += 1
            self.launcher.start_one(query)
            return query.query is not failed

    def recover_ended(self) -> bool:
        """Restart every query that has ended on a log conflict, and wait for restarts that are under way. Whether all of them run again."""
        # Each is read once: another thread that recovers it puts a new query in its place at any moment.
        ended = [(each, query) for each in self.registry.queries() if (query := each.query) and _met_a_conflict(query)]
        run_again = [self.recover(each, query) for each, query in ended]
        return all(run_again)

    def recover_any(self, error: BaseException) -> bool:
        """Whether ``error`` is a log conflict, and every query that ended on one runs again. Some may run again already."""
        return is_log_conflict(error) and self.recover_ended()

    def watch(self, query: PendingQuery) -> None:
        """``follow`` it, and report that it runs."""
        self.query_count.changed()
        self.follow(query)

    def follow(self, query: PendingQuery) -> None:
        """Recover the query whenever it fails on a conflict, asked or not; report its end otherwise. Waits for nothing."""
        threading.Thread(target=self._watch_one, args=(query,), name="conflict-watch", daemon=True).start()

    def report_ended(self, queries: Iterable[PendingQuery]) -> None:
        """Report what has ended those of ``queries`` that do not run, unless it was a conflict: who follows them may come to that later."""
        with suppress(Py4JError):  # the JVM is gone
            for query in [each.query for each in queries]:
                error = None if query is None else query.exception()
                if error is not None and not is_log_conflict(error):
                    self.stale_snapshot.report_stale(error)

    def _watch_one(self, pending: PendingQuery) -> None:
        while (query := pending.query) is not None:
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                if not self.recover(pending, query):
                    if (refused := self.fence.refusal()) is not None:
                        self.fence_check.refuse(refused)  # however often the script starts it again
                    self.stale_snapshot.report_stale(error)
                    return
            except BaseException:  # noqa: BLE001 - the JVM is gone; the supervisor sees to it
                return
            else:
                return
            finally:
                self.query_count.changed()


def _met_a_conflict(query: StreamingQuery) -> bool:
    error = None if query.isActive else query.exception()
    return error is not None and is_log_conflict(error)
