"""Starts queries in Spark: claims their roots, then begins each one with the settings that its script had set for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError

from understudy.driver.fence_client import FenceClient, key_of
from understudy.driver.pending_query import PendingQuery
from understudy.driver.root_claims import RootClaims
from understudy.driver.roots_in_use import RootsInUse
from understudy.driver.session_snapshot import SettingsInForce
from understudy.driver.stale_snapshot import StaleSnapshotReporter


@dataclass(slots=True, eq=False, kw_only=True)
class QueryLauncher:
    """Raises nothing: a failure becomes the query's ``error``, which the script's thread raises."""

    fence: FenceClient
    claims: RootClaims
    roots: RootsInUse
    stale_snapshot: StaleSnapshotReporter
    settings: SettingsInForce = field(default_factory=SettingsInForce, init=False)
    # the JVM's StartPace of the takeover, if there is one
    _paced: Any = field(default=None, init=False)

    def claim_and_start(
        self,
        queries: list[PendingQuery],
        ready: Callable[[], None] = lambda: None,
        started: Callable[[PendingQuery], None] = lambda _: None,
    ) -> float:
        """Claim every root, then start every query; return once all starts have ended. The result: seconds that claims took.

        ``ready`` returns when queries may start; it is called when the roots are claimed. ``started`` is called with each query that
        has started.
        """
        began = time.monotonic()
        try:
            sessions: dict[str, Any] = {}
            for query in queries:
                sessions |= dict.fromkeys(self.roots.hold(query), query.session)
            self.claims.claim({root: sessions[root] for root in sorted(sessions)})
            for query in queries:
                query.count_ungated(self.fence)
            groups = start_order(queries)
            pace = self._pace(groups)
            if pace is not None:  # a query that starts alone has none, and may do so meanwhile
                self._paced = pace
        except BaseException as error:  # noqa: BLE001 - LeadershipLost too: the script's thread raises it
            self.stale_snapshot.report_stale(error)
            for query in queries:
                query.error = error
                query.registered.set()
                query.begun.set()
            return time.monotonic() - began
        claimed = time.monotonic() - began
        ready()
        for starter in self._begin_each(groups, pace, started):
            starter.join()
        return claimed

    def await_first_batches(self) -> None:
        """Return once the first batches of the takeover are over, or not waited for any more; at once where all began at once."""
        _ask(self._paced, lambda jvm: jvm.awaitOver())

    def start_one(self, query: PendingQuery) -> None:
        query.starts = True
        try:
            with self.settings.of(query.snapshot, query.session, lambda: query.starts):
                query.query = query.begin()
        except BaseException as error:  # noqa: BLE001 - kept for the script's thread, which raises it
            query.error = error
            self.stale_snapshot.report_stale(error)
        finally:
            query.starts = False
            query.registered.set()
            query.begun.set()

    def _pace(self, groups: list[list[PendingQuery]]) -> Any:
        """The JVM's ``StartPace``; ``None`` where all may begin at once.

        A query whose batches do not end, or end unseen, would be waited for in vain.
        """
        if len(groups) < 2 or any(each.no_boundary for group in groups for each in group):
            return None
        return self.fence.start_pace(len(groups))

    def _begin_each(
        self, groups: list[list[PendingQuery]], pace: Any, started: Callable[[PendingQuery], None]
    ) -> list[threading.Thread]:
        """A thread per group, which begins in the group's turn."""
        starters = []
        for group in groups:
            _ask(pace, lambda jvm: jvm.awaitTurn())
            starter = threading.Thread(target=self._start_in_order, args=(group, pace, started), daemon=True)
            starter.start()
            starters.append(starter)
        _ask(pace, lambda jvm: jvm.end())
        return starters

    def _start_in_order(self, queries: list[PendingQuery], pace: Any, started: Callable[[PendingQuery], None]) -> None:
        for query in queries:
            self.start_one(query)
            if query.error is None:
                started(query)
        _ask(pace, lambda jvm: _report(queries, jvm))


def _report(queries: list[PendingQuery], pace: Any) -> None:
    """Queries of one group exclude each other: the first to start is the one that runs."""
    for each in queries:
        if each.query is not None:
            pace.begun(each.query._jsq, key_of(each.checkpoint))  # noqa: SLF001
            return
    pace.failed()


def _ask(pace: Any, what: Callable[[Any], object]) -> None:
    """Nothing where there is no pace, or where its JVM is gone: each start will tell."""
    if pace is not None:
        with suppress(Py4JError):
            what(pace)


def start_order(queries: Iterable[PendingQuery]) -> list[list[PendingQuery]]:
    """Groups that may start concurrently. The queries of one group exclude each other, and start in the script's order."""
    groups: list[list[PendingQuery]] = []
    for query in queries:
        joined = [group for group in groups if any(query.excludes(other) for other in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(other for group in joined for other in group), query])
    return groups
