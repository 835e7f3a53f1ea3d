"""The script's queries, and what is asked about them: which questions are answered at once, and what the others wait for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from pyspark.sql.streaming import StreamingQuery

from understudy.driver.error_text import first_line
from understudy.driver.gate_client import GateClient
from understudy.driver.pending_query import KeptId, PendingQuery
from understudy.driver.query_count import Queries
from understudy.errors import ScriptProblem

#: Seconds between two looks at a query that is started again.
_LOOK = 0.1
#: Seconds between two looks at the gate while a query starts.
_REGISTERED = 0.5


class QueryRegistry:
    """The queries of one driver, in the order in which its script has started them.

    ``let_all_begin``: in a takeover queries do not wait for their turns any more.
    """

    def __init__(self, gate_client: GateClient, let_all_begin: Callable[[], None] = lambda: None) -> None:
        self._gate_client = gate_client
        self._let_all_begin = let_all_begin
        self._lock = threading.Lock()
        self._queries: list[PendingQuery] = []
        self.drains = False  # once the job is being drained
        self._called_back = threading.local()  # whether this thread runs a listener that a start waits for

    def queries(self) -> list[PendingQuery]:
        with self._lock:
            return list(self._queries)

    def add(self, query: PendingQuery) -> None:
        with self._lock:
            self._queries.append(query)

    def add_started(self, query: PendingQuery) -> bool:
        """Add what runs already; true if it is the first.

        A script that starts its query again whenever it ends has one, not a thousand; nor one for each that came to its end.
        """
        before = self.queries()
        over = {id(each) for each in before if query.replaces(each) or each.over}
        with self._lock:
            self._queries = [*(each for each in self._queries if id(each) not in over), query]
        return not before

    def drain(self) -> None:
        """From now on the end of a query is none to the script: it is started again, and then the supervisor ends this process."""
        self.drains = True

    # The script's questions.

    def query_id(self, query: PendingQuery) -> str:
        """The query's id. A standby reads it in the checkpoint; while there is none, it waits for the leader to begin it."""
        if not query.registered.is_set():
            look = KeptId(query)
            if look() is None:
                self._gate_client.pass_through(unless=lambda: look() is not None)
            if not query.registered.is_set() and (known := look()) is not None:
                return known
        return self.wait_for_query(query).id

    def wait_for_query(self, query: PendingQuery) -> StreamingQuery:
        """The running query, after waiting for the grant and for its start.

        Raises what its start raised, and ``ScriptProblem`` where that start waits for the listener that asks.
        """
        self._gate_client.rehearsed.refuse("a question about a query")
        if not query.registered.is_set():
            self._gate_client.pass_through()
            if self.in_callback:
                raise ScriptProblem(
                    "a listener's onQueryStarted asks for a query that starts when it has returned",
                    where=f"query {query.name}",
                    remedy="Ask for it in onQueryProgress, or in a thread that the listener does not wait for",
                )
            self.wait_until_registered(query)
        if query.query is None:
            assert query.error is not None
            query.told = True
            raise query.error
        while self.drains and not query.query.isActive and not self.in_callback and not self._gate_client.in_batch:
            time.sleep(_LOOK)
        return query.query

    def wait_until_registered(self, query: PendingQuery) -> None:
        """Wait until Spark knows the query, or its start has failed. Raises ``LeadershipLost``."""
        if not query.registered.is_set() and self._gate_client.may_be_waited_for:
            self._let_all_begin()  # or the query would wait for this batch
        while not query.registered.wait(_REGISTERED):
            self._gate_client.pass_through()

    def wait_until_started(self) -> None:
        """Wait for the grant, and until every pending query has started; in a listener's onQueryStarted, for the grant alone."""
        self._gate_client.rehearsed.refuse("a question about queries")
        self._gate_client.pass_through()
        for each in self.queries():
            if not each.told and not (self.in_callback and not each.registered.is_set()):
                self.wait_for_query(each)

    def wait_until_declared_started(self) -> None:
        """As ``wait_until_started``, but a standby whose script has declared no query returns at once: Spark's answer is known."""
        if self.queries() or not self._gate_client.stands_by:
            self.wait_until_started()

    def wait_before_stop(self) -> None:
        """The script is about to stop its Spark context. Queries that have not begun would never; a script that fails ends at once."""
        unwinds = sys.exc_info()[0] is not None
        begins = not all(each.registered.is_set() for each in self.queries())
        if begins and not unwinds and not self.in_callback and not self._gate_client.is_lost:
            self.wait_until_started()

    def await_view(self, view: str) -> bool:
        """Wait until the memory sink whose temporary view this is has started. False where there is nothing to wait for."""
        if self.in_callback:  # Spark makes the view when the listener has returned
            return False
        pending = [each for each in self.queries() if not each.begun.is_set() and each.shows_in(view)]
        for each in pending:
            self.wait_for_query(each)
            each.begun.wait()
        return bool(pending)

    def stand_in(self, running: StreamingQuery) -> StreamingQuery:
        """What the script has got for a query of Spark's when it started it; the query itself where that was not the script."""
        known = (each for each in self.queries() if each.query is not None and each.query.runId == running.runId)
        return next((each.stand_in for each in known if each.stand_in is not None), running)

    def context_stops(self) -> None:
        """The script stops its Spark context: what runs now does not count as failed by that."""
        self._gate_client.rehearsed.refuse("a stop of Spark's context")
        for each in self.queries():
            with suppress(Exception):  # of a JVM that is gone; the stop itself will tell
                each.context_stopped = each.query is not None and each.query.isActive

    # Spark's side.

    @contextmanager
    def start_calls_back(self, query_id: str) -> Iterator[None]:
        """Spark runs a listener's onQueryStarted in this thread, and that query's ``start()`` waits for it.

        Spark knows the query by then, so every thread that asks for it gets it now: the listener may wait for such a thread.
        """
        for each in [each for each in self.queries() if each.starts]:
            found = each.session._jsparkSession.streams().get(query_id)  # noqa: SLF001
            if found is not None and each.is_run_by(found):
                each.query = StreamingQuery(found)
                each.registered.set()
                each.starts = False
        before, self._called_back.now = self.in_callback, True
        try:
            yield
        finally:
            self._called_back.now = before

    @property
    def in_callback(self) -> bool:
        return getattr(self._called_back, "now", False)

    def running(self) -> int:
        """How many of them run. Asks the JVM."""
        return sum(1 for each in self.queries() if each.query is not None and each.query.isActive)

    def state(self) -> Queries:
        """What a leader reports of them. Asks the JVM."""
        return Queries(self.running(), failed_last(self.queries()))


def failed_last(queries: Sequence[PendingQuery]) -> dict[str, str]:
    """By name, the first line of what ended a query, of those whose last end was an exception.

    Of a query that was started again the last start counts. One that Spark refused because another of its name or checkpoint
    runs has not begun, once the script knows: the script went on, as it does where ``start()`` itself raises.
    """
    begun = [
        each for number, each in enumerate(queries) if not (each.told and any(map(each.excludes, queries[:number])))
    ]
    last = [each for number, each in enumerate(begun) if not any(map(_replacing(each), begun[number + 1 :]))]
    return {each.name: first_line(error) for each in last if (error := each.failure()) is not None}


def _replacing(query: PendingQuery) -> Callable[[PendingQuery], bool]:
    return lambda later: later.replaces(query)
