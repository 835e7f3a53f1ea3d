"""Pending queries: what a script starts, kept on a standby until the grant, and started then as if it were now."""

from __future__ import annotations

import copy
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from understudy.driver.fence_client import FenceClient
from understudy.driver.java import java_class
from understudy.driver.scala import private_field
from understudy.driver.session_snapshot import SessionSnapshot
from understudy.driver.sinks import TRANSIENT_SINKS, Sink, Ungated
from understudy.driver.volumes import refuse_private
from understudy.errors import ScriptProblem

#: Seconds between two looks for a checkpoint that the leader has yet to begin: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


@dataclass(slots=True)
class PendingQuery:
    """One query of the script, with the writer that it was declared by and the session's state at that time.

    ``query`` is Spark's, once it was started, and ``stand_in`` what the script has in its place; ``error`` what that start raised, ``told`` whether the script knows: Spark would
    have raised it at ``start()``, once.

    ``checkpoint`` is ``None`` where Spark makes a temporary directory: there is nothing to claim, and nothing to resume from.
    ``directory`` is that of a file sink's log; a table's is looked up when it is needed, it may not be there yet. ``trigger`` is the
    class of Spark's. A takeover finds both known: asking Spark costs it a millisecond per question and query.
    ``starts``: a start is under way, and Spark does not know of it yet, nor has it copied the session's settings for certain.
    ``registered``: Spark knows the query, though its start may still wait for listeners. ``begun``: its start has ended.
    """

    writer: DataStreamWriter
    path: str | None
    table: str | None
    sink: Sink
    checkpoint: str | None
    snapshot: SessionSnapshot
    trigger: str
    directory: str | None = None
    query: StreamingQuery | None = None
    stand_in: StreamingQuery | None = None
    error: BaseException | None = None
    told: bool = False
    starts: bool = False
    registered: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    recovery: threading.Lock = field(default_factory=threading.Lock)
    recovered: int = 0
    context_stopped: bool = False  # by the script, while this query ran: Spark calls that an exception
    claimed: tuple[str, ...] = ()  # the roots that were claimed for it

    def failure(self) -> BaseException | None:
        """The exception that ended it or its start; ``None`` without one, and while it runs. Asks the JVM."""
        if self.query is None:
            return self.error
        if self.context_stopped or self.query.isActive:
            return None
        return self.query.exception()

    @property
    def over(self) -> bool:
        """Whether it ran and ended without an error, so that it need not be started again."""
        return self.query is not None and not self.query.isActive and self.query.exception() is None

    @property
    def session(self) -> Any:
        return self.writer._spark  # noqa: SLF001

    @property
    def name(self) -> str:
        return self.sink.query_name or (Path(self.checkpoint).name if self.checkpoint else self.sink.kind)

    def excludes(self, other: PendingQuery) -> bool:
        """Whether Spark refuses to run both: of one name, or from one checkpoint. Then the first to be started wins."""
        same_name = self.sink.query_name is not None and self.sink.query_name == other.sink.query_name
        return same_name or (self.checkpoint is not None and self.checkpoint == other.checkpoint)

    def replaces(self, other: PendingQuery) -> bool:
        """Whether this is ``other``, started again after its end."""
        if self.checkpoint is not None or other.checkpoint is not None:
            return self.checkpoint == other.checkpoint
        if self.sink.query_name is not None or other.sink.query_name is not None:
            return self.sink.query_name == other.sink.query_name
        return other.query is not None and not other.query.isActive

    def is_run_by(self, java_query: Any) -> bool:
        """Whether Spark's ``StreamingQuery`` is this one."""
        if self.checkpoint is None:
            return bool(java_query.name() == self.sink.query_name)
        return str(java_query.streamingQuery().resolvedCheckpointRoot()) == self.checkpoint

    def shows_in(self, view: str) -> bool:
        """Whether it makes the temporary view of this name, which Spark compares without case."""
        return self.sink.view is not None and self.sink.view.lower() == view.lower()

    def kept_id(self) -> str | None:
        """The id that its checkpoint gives the query at every start; ``None`` while there is none, or none can be read."""
        if self.checkpoint is None:
            return None
        jvm: Any = self.session._jvm  # noqa: SLF001
        conf = self.session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        stored = java_class(jvm, "org.apache.spark.sql.execution.streaming.runtime.StreamMetadata")
        try:
            found = stored.read(java_class(jvm, "org.apache.hadoop.fs.Path")(self.checkpoint, "metadata"), conf)
        except Py4JJavaError:  # a store that does not answer, or a damaged file: the start will tell
            return None
        return str(found.get().id()) if found.isDefined() else None

    @property
    def roots(self) -> list[str]:
        """Directories to claim before the first read: the checkpoint, if it lasts, and a file sink, whose log has a leader too."""
        directory = self.directory
        if self.table is not None:
            snapshot = self.snapshot
            found = self.sink.table_directory(self.session, self.table, snapshot.catalog, snapshot.database)
            directory = None if found is None else self.qualified(found)
        return [each for each in (self.checkpoint, directory) if each is not None]

    @property
    def no_boundary(self) -> str:
        """Why there is no place between two of its batches, in words; empty if there is."""
        return self.sink.no_boundary(self.trigger)

    def count_ungated(self, fence: FenceClient) -> None:
        """Count the driver as busy while tasks write that do not ask the gate, so that it is never parked then."""
        in_directory = len(self.claimed or self.roots) > (self.checkpoint is not None)
        ungated = self.sink.ungated(self.trigger, table=self.table is not None, in_directory=in_directory)
        if self.checkpoint is not None and ungated is not Ungated.NEVER:
            fence.count_ungated(self.checkpoint, self.session, always=ungated is Ungated.ALWAYS)

    def qualified(self, directory: str) -> str:
        path = java_class(self.session._jvm, "org.apache.hadoop.fs.Path")(directory)  # noqa: SLF001
        conf = self.session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        return str(path.getFileSystem(conf).makeQualified(path).toString())

    def begin(self) -> StreamingQuery:
        """Start it in Spark, in the calling thread, whose local properties become the captured ones.

        Spark looks for a sink in Python in the thread's active session, and a thread of understudy's has none.
        """
        session_class = self.session._get_j_spark_session_class(self.session._jvm)  # noqa: SLF001
        session_class.setActiveSession(self.session._jsparkSession)  # noqa: SLF001
        self.session.sparkContext._jsc.sc().setLocalProperties(self.snapshot.properties)  # noqa: SLF001
        jwrite = self.writer._jwrite  # noqa: SLF001
        if self.table is not None:
            return StreamingQuery(jwrite.toTable(self.table))
        return StreamingQuery(jwrite.start() if self.path is None else jwrite.start(self.path))


class KeptId:
    """``PendingQuery.kept_id``, asked repeatedly, at growing intervals: it may be a request. What was found stays."""

    def __init__(self, query: PendingQuery) -> None:
        self._query = query
        self._found: str | None = None
        self._pause = _FIRST_PAUSE
        self._next_look = 0.0

    def __call__(self) -> str | None:
        if self._found is None and time.monotonic() >= self._next_look:
            self._found = self._query.kept_id()
            self._next_look = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return self._found


def declare(
    writer: DataStreamWriter, path: str | None, table: str | None, given_checkpoints: str, *, share_a_disk: bool = True
) -> PendingQuery:
    """Capture what has to be known about a query before it starts.

    Raises ``ScriptProblem`` where the query has no checkpoint location that another replica finds.
    """
    session: Any = writer._spark  # noqa: SLF001
    writer = _kept(writer)
    sink = Sink.of(writer, path)
    location = _checkpoint_location(sink, session, given_checkpoints)
    if location is not None and "checkpointlocation" not in sink.options:
        writer.option("checkpointLocation", location)
    snapshot = SessionSnapshot.of(session)
    trigger = str(private_field(writer._jwrite, "trigger").getClass().getSimpleName())  # noqa: SLF001
    query = PendingQuery(writer, path, table, sink, None, snapshot, trigger)
    if table is None and sink.directory is not None:
        query.directory = query.qualified(sink.directory)
    if location is not None:
        query.checkpoint = query.qualified(location)
        if not share_a_disk:
            refuse_private(location, query.checkpoint)
    return query


def _kept(writer: DataStreamWriter) -> DataStreamWriter:
    """A copy that the script does not know of: it may go on with its own, for the next query."""
    kept = copy.copy(writer)
    declared: Any = java_class(writer._spark._jvm, "dev.understudy.rehearsal.DeclaredWriter")  # noqa: SLF001
    kept._jwrite = declared.of(writer._jwrite)  # noqa: SLF001
    return kept


def _checkpoint_location(sink: Sink, session: Any, given_checkpoints: str) -> str | None:
    """Where the query's checkpoint is. A query without a stable one gets one, or is refused, unless Spark itself needs none for its
    sink: then ``None``.
    """
    if (given := sink.options.get("checkpointlocation")) is not None:
        return given
    base = session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if sink.kind in TRANSIENT_SINKS:
        return f"{base}/{sink.query_name}" if base and sink.query_name else None
    if sink.query_name is None:
        raise ScriptProblem(
            "a streaming query has neither a checkpoint location nor a name",
            where=f"sink {sink.kind}",
            remedy='Set .option("checkpointLocation", …) or .queryName(…): another replica has to find its checkpoint',
        )
    if not (base := base or given_checkpoints):
        raise ScriptProblem(
            "a streaming query has no checkpoint location, and replicas share no place to give it one",
            where=f"query {sink.query_name}",
            remedy='Set .option("checkpointLocation", "s3a://…"), or run understudy with --checkpoints s3a://…',
        )
    return f"{base}/{sink.query_name}"


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
    checker = java_class(session._jvm, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")  # noqa: SLF001
    checker.checkForStreaming(plan, private_field(jwrite, "outputMode"))
