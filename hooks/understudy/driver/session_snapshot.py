"""The state of a session that ``start()`` reads, captured when the script calls it and applied when the query starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from understudy.driver.java import java_class

#: How often a start that waits looks whether those before it need their settings still, in seconds.
_LOOK = 0.02


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """SQL configuration, current catalog and database (``settings``, the JVM's), and the thread's local properties.

    Two queries with different settings that both start late would otherwise get the last ones, and a checkpoint keeps its
    settings for ever.
    """

    settings: Any
    properties: Any

    @classmethod
    def of(cls, session: Any) -> SessionSnapshot:
        captured = java_class(session._jvm, "dev.understudy.rehearsal.SessionSettings")  # noqa: SLF001
        local = session.sparkContext._jsc.sc().getLocalProperties()  # noqa: SLF001
        return cls(captured.of(session._jsparkSession), local.clone())  # noqa: SLF001

    @property
    def java_conf(self) -> Any:
        return self.settings.sql()

    @property
    def catalog(self) -> str:
        return str(self.settings.catalog())

    @property
    def database(self) -> str:
        return str(self.settings.database())


@dataclass(slots=True, eq=False)
class _Session:
    """One session. ``needed``: by start under way, whether it still needs the settings that are in force; ``restore``: gives the
    script back its own, if they are not.
    """

    needed: dict[object, Callable[[], bool]] = field(default_factory=dict)
    restore: Callable[[], None] | None = None

    def free(self) -> bool:
        """Whether no start needs any settings now. The session has the script's then."""
        self.needed = {start: needed for start, needed in self.needed.items() if needed()}
        if self.needed:
            return False
        if (restore := self.restore) is not None:
            self.restore = None
            with suppress(Exception):  # a database that has gone meanwhile: the script is told when it uses it
                restore()
        return True


class SettingsInForce:
    """Lets starts that agree on a session's settings go on together, and others wait for each other: Spark copies the settings
    some time after ``start()`` is called.

    *Not* guaranteed: what a script reads of a session's settings by itself while a query starts that was declared with others.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sessions: dict[str, _Session] = {}

    @contextmanager
    def of(self, snapshot: SessionSnapshot, session: Any, needed: Callable[[], bool]) -> Iterator[None]:
        """Those of ``snapshot``, as long as this lasts and ``needed()``. Raises what Spark does where the session cannot have them."""
        java, settings = session._jsparkSession, snapshot.settings  # noqa: SLF001

        def put(here: _Session) -> None:
            if (before := settings.put(java)) is not None:
                here.restore = lambda: settings.replaced(java, before)

        with self._held(session, lambda _: bool(settings.inForce(java)), put, needed):
            yield

    @contextmanager
    def of_script(self, session: Any) -> Iterator[None]:
        """The script's own."""
        with self._held(session, lambda here: here.restore is None, lambda _: None, lambda: True):
            yield

    @contextmanager
    def _held(
        self,
        session: Any,
        agrees: Callable[[_Session], bool],
        put: Callable[[_Session], None],
        needed: Callable[[], bool],
    ) -> Iterator[None]:
        key = str(session._jsparkSession.sessionUUID())  # noqa: SLF001
        start = object()  # two starts may ask by one function whether they are needed
        with self._changed:
            while True:
                here = self._sessions.setdefault(key, _Session())
                if here.free():
                    put(here)
                    break
                if agrees(here):
                    break
                self._changed.wait(_LOOK)
            here.needed[start] = needed
        try:
            yield
        finally:
            with self._changed:
                here.needed.pop(start, None)
                if here.free() and self._sessions.get(key) is here:
                    del self._sessions[key]
                self._changed.notify_all()
