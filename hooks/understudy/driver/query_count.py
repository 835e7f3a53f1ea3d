"""How many of a leader's queries run, what a standby's rehearsals are compared with, and which have died while others run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: A query that has ended counts for so long, in seconds: a script that starts it again whenever it ends has not one fewer each time.
_ENDED_FOR = 10.0


@dataclass(frozen=True, slots=True)
class Queries:
    """``failed``: by name, the first line of what ended a query that was not started again."""

    running: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)


class QueryCount:
    """Calls ``tell`` with what ``count`` says, whenever that has changed: at once if more run, else a little later."""

    def __init__(
        self, count: Callable[[], Queries], tell: Callable[[Queries], None], ended_for: float = _ENDED_FOR
    ) -> None:
        self._count = count
        self._tell = tell
        self._ended_for = ended_for
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._told = Queries()
        self._thread: threading.Thread | None = None

    def changed(self) -> None:
        """A query was started, or has ended. Waits for nothing."""
        self._changed.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="query-count", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        wait: float | None = None
        while True:
            again = self._changed.wait(wait)
            self._changed.clear()
            try:
                now = self._count()
            except Exception:  # noqa: BLE001 - the JVM is gone; the supervisor sees to it
                return
            if now.running > self._told.running or (now != self._told and not again):
                self._told = now
                self._tell(now)
            wait = self._ended_for if now != self._told else None
