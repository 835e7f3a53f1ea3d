"""Which roots the queries of a leader use: a root that none of them uses any longer is forgotten, and claimed again later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from understudy.driver.fence_client import FenceClient
from understudy.driver.pending_query import PendingQuery
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.root_claims import RootClaims


class RootsInUse:
    """A query holds its roots from before its claim, so what a start has claimed is not forgotten while it is under way."""

    def __init__(self, registry: QueryRegistry, claims: RootClaims, fence: FenceClient) -> None:
        self._registry = registry
        self._claims = claims
        self._fence = fence
        self._starting: dict[int, PendingQuery] = {}  # by id(): a leader's, not in the registry yet
        self._lock = threading.Lock()  # which query holds what does not change while roots are forgotten

    @contextmanager
    def starting(self, query: PendingQuery) -> Iterator[None]:
        """The query holds its roots in this block though the registry does not have it yet."""
        self._starting[id(query)] = query
        try:
            yield
        finally:
            del self._starting[id(query)]

    def hold(self, query: PendingQuery) -> tuple[str, ...]:
        """Hold every root of the query, and return them."""
        roots = tuple(query.roots)
        with self._lock:
            query.claimed = roots
        return roots

    def register(self, query: PendingQuery) -> bool:
        """Add a started query to the registry; true if it is the first. Roots of queries that gave way to it are forgotten."""
        with self._lock:
            before = self.held()
            first = self._registry.add_started(query)
            self._forget(before - self.held(), query.session)
        return first

    def held(self) -> set[str]:
        queries = (*self._registry.queries(), *self._starting.copy().values())
        return {root for query in queries for root in query.claimed}

    def _forget(self, roots: set[str], session: Any) -> None:
        self._claims.forget(roots)
        for root in roots:
            with suppress(Exception):  # the JVM is gone; so is what it remembers
                self._fence.forget(root, session)
