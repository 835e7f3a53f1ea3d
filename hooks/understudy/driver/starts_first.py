"""At a grant a script's queries start before its own code goes on, as where ``start()`` had returned before that code ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from understudy.driver.query_registry import QueryRegistry
from understudy.driver.session_snapshot import SettingsInForce


@dataclass(slots=True, eq=False)
class QueriesFirst:
    """``StartsFirst`` for the queries that a standby's script has declared: while one starts, its session has that query's settings.

    *Not* guaranteed: the same for a query that is started again later, after a conflict with the previous leader's last write.
    """

    registry: QueryRegistry
    settings: SettingsInForce
    _over: bool = field(default=False, init=False)

    @property
    def over(self) -> bool:
        """True for a listener's code that a start waits for."""
        return self._over or self.registry.in_callback

    def wait(self) -> None:
        if self.over:
            return
        sessions: dict[int, Any] = {}
        for query in self.registry.queries():
            self.registry.wait_until_registered(query)
            sessions[id(query.session)] = query.session
        for session in sessions.values():
            with self.settings.of_script(session):  # which puts them back where a start has been over for a moment only
                pass
        self._over = True
