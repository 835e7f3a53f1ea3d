"""Where a streaming query writes, according to its writer and the catalog."""

from __future__ import annotations

import enum
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from understudy.driver.java import java_class
from understudy.driver.scala import as_java, private_field

#: Sinks that keep a log of their own in the directory they write to. Of other names Spark is asked: a class, or a format of a library's.
FILE_SINKS = ("parquet", "orc", "json", "csv", "text", "avro", "xml")

#: Sinks that a query of this process's memory, screen or nothing writes to. Without a checkpoint location Spark gives such a query a
#: temporary directory and begins from the start each time; a memory sink in append mode cannot resume from any other.
TRANSIENT_SINKS = ("memory", "console", "noop")
#: What the driver's Python asks the gate for by itself.
_GATED_IN_PYTHON = ("foreachbatch",)
#: Triggers of queries whose offsets are written when a batch has ended.
_OFFSETS_LAST = ("RealTimeTrigger", "ContinuousTrigger")

#: What Spark calls the catalog that every session has.
SESSION_CATALOG = "spark_catalog"


def of_files(session: Any, kind: str) -> bool:
    """Whether Spark streams into this format with a sink that keeps a log in the directory it writes to."""
    if kind.lower() in (*FILE_SINKS, *TRANSIENT_SINKS, *_GATED_IN_PYTHON):
        return kind.lower() in FILE_SINKS
    return bool(java_class(session._jvm, "dev.understudy.fence.FileSinks").has(session._jsparkSession, kind))  # noqa: SLF001


class Ungated(enum.Enum):
    """When tasks of a query write to its sink without asking the gate. See docs/what-runs-where.md."""

    NEVER = enum.auto()
    IN_A_BATCH = enum.auto()
    ALWAYS = enum.auto()


@dataclass(frozen=True, slots=True)
class Sink:
    """A writer's sink. ``options`` have their keys in lower case. ``of_files``: it keeps a log in the directory it writes to, and what
    its tasks write counts only once the driver's commit protocol has asked the gate.
    """

    kind: str
    options: dict[str, str]
    of_files: bool

    @classmethod
    def of(cls, writer: DataStreamWriter, path: str | None) -> Sink:
        jwrite = writer._jwrite  # noqa: SLF001
        given = dict(as_java(writer._spark, private_field(jwrite, "extraOptions")))  # noqa: SLF001
        options = {key.lower(): value for key, value in given.items()}
        if path is not None:
            options["path"] = path
        source = str(private_field(jwrite, "source"))
        return cls(source.lower(), options, of_files(writer._spark, source))  # noqa: SLF001

    def ungated(self, trigger: str, *, table: bool, in_directory: bool) -> Ungated:
        """``trigger`` is the trigger's class. A ``table`` has the catalog's format, not the writer's; ``in_directory``: that is one of
        files.
        """
        gated = in_directory if table else self.of_files or self.kind in _GATED_IN_PYTHON
        if not table and self.kind in TRANSIENT_SINKS:
            return Ungated.NEVER
        if self.no_boundary(trigger):
            return Ungated.ALWAYS
        return Ungated.NEVER if gated else Ungated.IN_A_BATCH

    def no_boundary(self, trigger: str) -> str:
        """Why a query with this trigger has no place between two batches, in words; empty if it has."""
        if trigger in _OFFSETS_LAST:
            return "runs without an end between its batches (real-time mode, or continuous processing)"
        if self.options.get("asyncprogresstrackingenabled", "").lower() == "true":
            return "tracks its progress asynchronously"
        return ""

    @property
    def query_name(self) -> str | None:
        """What the script calls the query, if it does."""
        return self.options.get("queryname")

    @property
    def view(self) -> str | None:
        """The temporary view that a memory sink shows its rows in, once it has started."""
        return self.query_name if self.kind == "memory" else None

    @property
    def directory(self) -> str | None:
        """Where ``start()`` keeps a sink's log."""
        return self.options.get("path") if self.of_files else None

    def table_directory(self, session: Any, table: str, catalog: str, database: str) -> str | None:
        """Where ``toTable()`` keeps it, called in this catalog and database. None if it is no directory of files, is none yet, or
        Spark itself is going to fail (no such database).
        """
        state = session._jsparkSession.sessionState()  # noqa: SLF001
        jvm = session._jvm  # noqa: SLF001
        with suppress(PySparkException, Py4JJavaError):
            names = list(as_java(session, state.sqlParser().parseMultipartIdentifier(table)))
            if len(names) > 1 and state.catalogManager().isCatalogRegistered(names[0]):
                catalog = names.pop(0)
            if catalog != SESSION_CATALOG or len(names) > 2:
                return None
            if len(names) > 1:
                database = names[0]
            of_database = java_class(jvm, "scala.Option").apply(database)
            name = java_class(jvm, "org.apache.spark.sql.catalyst.TableIdentifier")(names[-1], of_database)
            tables = state.catalog()
            if tables.tableExists(name):
                standing = tables.getTableMetadata(name)
                provider = standing.provider()
                in_files = provider.isDefined() and of_files(session, str(provider.get()))
                return str(standing.location().toString()) if in_files else None
            given = self.options.get("path")
            if not self.of_files or given is None:
                return None  # a directory of Spark's own choice must not be there before the table is: its first write claims it
            paths = java_class(jvm, "org.apache.hadoop.fs.Path")
            home = paths(tables.getDatabaseMetadata(database).locationUri())
            return str(paths(home, given).toString())  # an absolute one stays as it is
        return None
