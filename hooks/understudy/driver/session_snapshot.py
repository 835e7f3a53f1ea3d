"""The state of a session that ``start()`` reads, captured when the script calls it and applied when the query starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.driver.java import java_class
from understudy.driver.scala import as_java


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """SQL configuration, current catalog and database, local properties.

    Two queries with different settings that both start late would otherwise get the last ones, and a checkpoint keeps its
    settings for ever.
    """

    java_conf: Any
    catalog: str
    database: str
    properties: Any

    @classmethod
    def of(cls, session: Any) -> SessionSnapshot:
        return cls(
            _java_conf(session),
            *_current_database(session),
            session.sparkContext._jsc.sc().getLocalProperties().clone(),  # noqa: SLF001
        )

    def same_settings(self, session: Any) -> bool:
        """Compared in the JVM: one call instead of one per setting."""
        return bool(_java_conf(session).equals(self.java_conf)) and (
            _current_database(session) == (self.catalog, self.database)
        )

    def apply(self, session: Any) -> None:
        conf = session._jsparkSession.conf()  # noqa: SLF001
        wanted, current = dict(self.java_conf), dict(_java_conf(session))
        for key in current.keys() - wanted.keys():
            if conf.isModifiable(key):
                conf.unset(key)
        for key, value in wanted.items():
            if current.get(key) != value and conf.isModifiable(key):
                conf.set(key, value)
        catalog = session._jsparkSession.catalog()  # noqa: SLF001
        catalog.setCurrentCatalog(self.catalog)
        if self.database:  # catalogs of others may have none
            catalog.setCurrentDatabase(self.database)


def _current_database(session: Any) -> tuple[str, str]:
    """The current catalog, and its current database."""
    catalog = session._jsparkSession.catalog()  # noqa: SLF001
    return str(catalog.currentCatalog()), str(catalog.currentDatabase())


def _java_conf(session: Any) -> Any:
    scala_map = session._jsparkSession.conf().getAll()  # noqa: SLF001
    # A copy: a view of the live configuration would always equal itself.
    return java_class(session._jvm, "java.util.HashMap")(as_java(session, scala_map))  # noqa: SLF001
