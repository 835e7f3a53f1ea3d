"""Deferred queries: what a script started on a standby, kept until the grant, and begun then as if it were now.

A deferred query remembers the writer and everything of the session that ``start()`` would have read: SQL configuration, current
database, local properties. Two queries with different settings started late would otherwise both get the last ones, and a
checkpoint keeps its settings for ever.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from understudy.driver.scala import as_java, private_field
from understudy.driver.sinks import Sink
from understudy.errors import ScriptProblem


@dataclass(frozen=True, slots=True)
class Scene:
    """The session state ``start()`` reads."""

    java_conf: Any
    catalog: str
    database: str
    properties: Any

    @classmethod
    def of(cls, session: Any) -> Scene:
        jsession = session._jsparkSession  # noqa: SLF001
        return cls(
            _java_conf(session),
            *_standing_in(jsession),
            session.sparkContext._jsc.sc().getLocalProperties().clone(),  # noqa: SLF001
        )

    def same_settings(self, session: Any) -> bool:
        """Compared in the JVM: one call instead of one per setting."""
        return bool(_java_conf(session).equals(self.java_conf)) and (
            _standing_in(session._jsparkSession) == (self.catalog, self.database)  # noqa: SLF001
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


def _standing_in(jsession: Any) -> tuple[str, str]:
    """The current catalog and database."""
    return str(jsession.catalog().currentCatalog()), str(jsession.catalog().currentDatabase())


def _java_conf(session: Any) -> Any:
    scala_map = session._jsparkSession.conf().getAll()  # noqa: SLF001
    # A copy: a view of the live configuration would always equal itself.
    return session._jvm.java.util.HashMap(as_java(session, scala_map))  # noqa: SLF001


@dataclass(slots=True)
class Deferred:
    """One query of the script. ``query`` is the real one, once it was begun; ``error`` what its start raised, ``told`` whether the
    script knows: Spark would have raised it at ``start()``, once.
    """

    writer: DataStreamWriter
    path: str | None
    table: str | None
    sink: Sink
    checkpoint: str
    scene: Scene
    query: StreamingQuery | None = None
    error: BaseException | None = None
    told: bool = False
    begun: threading.Event = field(default_factory=threading.Event)
    recovery: threading.Lock = field(default_factory=threading.Lock)
    recovered: int = 0

    @property
    def session(self) -> Any:
        return self.writer._spark  # noqa: SLF001

    @property
    def name(self) -> str:
        return self.sink.options.get("queryname") or Path(self.checkpoint).name

    def excludes(self, other: Deferred) -> bool:
        """Whether Spark refuses to run both: of one name, or from one checkpoint. Then the first to be started wins."""
        name = self.sink.options.get("queryname")
        return self.checkpoint == other.checkpoint or (name is not None and name == other.sink.options.get("queryname"))

    @property
    def roots(self) -> list[str]:
        """Directories to claim before the first read: the checkpoint, and a file sink, whose log has a leader too."""
        directory = self.sink.directory
        if self.table is not None:
            directory = self.sink.table_directory(self.session, self.table, self.scene.catalog, self.scene.database)
        return [self.checkpoint] if directory is None else [self.checkpoint, self._qualified(directory)]

    def _qualified(self, directory: str) -> str:
        path = self.session._jvm.org.apache.hadoop.fs.Path(directory)  # noqa: SLF001
        conf = self.session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        return str(path.getFileSystem(conf).makeQualified(path).toString())

    def begin(self) -> StreamingQuery:
        """Start it for real, in the calling thread, whose local properties become the captured ones."""
        self.session.sparkContext._jsc.sc().setLocalProperties(self.scene.properties)  # noqa: SLF001
        jwrite = self.writer._jwrite  # noqa: SLF001
        if self.table is not None:
            return StreamingQuery(jwrite.toTable(self.table))
        return StreamingQuery(jwrite.start() if self.path is None else jwrite.start(self.path))


def defer(writer: DataStreamWriter, path: str | None, table: str | None, given_checkpoints: str) -> Deferred:
    """Everything about a query that has to be known before it starts; a query without a stable checkpoint gets one, or is refused."""
    session: Any = writer._spark  # noqa: SLF001
    sink = Sink.of(writer, path)
    name = sink.options.get("queryname")
    location = sink.options.get("checkpointlocation")
    if location is None:
        base = session.conf.get("spark.sql.streaming.checkpointLocation", None)
        if name is None:
            raise ScriptProblem(
                "a streaming query has neither a checkpoint location nor a name",
                where=f"sink {sink.kind}",
                remedy='Set .option("checkpointLocation", …) or .queryName(…): another replica has to find its checkpoint',
            )
        if not (base := base or given_checkpoints):
            raise ScriptProblem(
                "a streaming query has no checkpoint location, and replicas share no place to give it one",
                where=f"query {name}",
                remedy='Set .option("checkpointLocation", "s3a://…"), or run understudy with --checkpoints s3a://…',
            )
        location = f"{base}/{name}"
        writer.option("checkpointLocation", location)
    scene = Scene.of(session)
    deferred = Deferred(writer, path, table, sink, "", scene)
    deferred.checkpoint = deferred._qualified(location)  # noqa: SLF001
    return deferred


def analyse(writer: DataStreamWriter) -> None:
    """Raise now what Spark's ``start()`` would raise about the plan: a standby must not hide a mistake until the takeover."""
    session: Any = writer._spark  # noqa: SLF001
    jwrite = writer._jwrite  # noqa: SLF001
    if session.conf.get("spark.sql.streaming.unsupportedOperationCheck", "true") != "true":
        return
    frame = private_field(jwrite, "ds")
    plan = frame.queryExecution().analyzed()
    if not plan.isStreaming():
        jwrite.start()  # Spark's own error for a batch frame; nothing can start
    session._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(  # noqa: SLF001
        plan, private_field(jwrite, "outputMode")
    )
