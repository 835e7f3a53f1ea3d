"""How many of a leader's queries run: what a standby's rehearsals are compared with."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: A query that has ended counts for so long, in seconds: a script that starts it again whenever it ends has not one fewer each time.
_ENDED_FOR = 10.0


class QueryCount:
    """Calls ``tell`` with what ``count`` says, whenever that has changed: at once with more, a little later with fewer."""

    def __init__(self, count: Callable[[], int], tell: Callable[[int], None], ended_for: float = _ENDED_FOR) -> None:
        self._count = count
        self._tell = tell
        self._ended_for = ended_for
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._told = 0
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
                running = self._count()
            except Exception:  # noqa: BLE001 - the JVM is gone; the supervisor sees to it
                return
            if running > self._told or (running < self._told and not again):
                self._told = running
                self._tell(running)
            wait = self._ended_for if running < self._told else None
