"""Where understudy stands between a script and PySpark: starting queries, asking about them, and writing in batch.

Every patch calls PySpark's own method in the end. Nothing is added to a class's public surface, and a script run by plain
``python`` never loads this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pyspark import RDD, SparkContext
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.listener import JStreamingQueryListener

from understudy.driver.gate_client import DurationHistory, GateClient
from understudy.driver.jvm import refuse_connect
from understudy.driver.pending_query import analyse, defer
from understudy.driver.spark_patches import libraries
from understudy.driver.stage import Stage
from understudy.driver.statements import has_side_effects
from understudy.driver.tuning import tune

P = ParamSpec("P")
T = TypeVar("T")

#: Batch writers that reach the sink by themselves; the shorthands (``parquet``, ``csv`` …) reach it too, each by its own call.
_BATCH_WRITERS = ("save", "saveAsTable", "insertInto", "parquet", "csv", "json", "orc", "text", "xml", "jdbc")
_CATALOG_CHANGES = (
    "createTable",
    "createExternalTable",
    "createDatabase",
    "dropTable",
    "dropView",
    "dropDatabase",
    "truncateTable",
    "analyzeTable",
    "recoverPartitions",
)
_READERS = ("load", "parquet", "csv", "json", "orc", "text", "xml")
_BATCH_WRITERS_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_RDD_WRITERS = (
    "saveAsTextFile",
    "saveAsPickleFile",
    "saveAsHadoopFile",
    "saveAsNewAPIHadoopFile",
    "saveAsHadoopDataset",
    "saveAsNewAPIHadoopDataset",
    "saveAsSequenceFile",
    "foreach",
    "foreachPartition",
)


def install(stage: Stage, gate_client: GateClient, given_checkpoints: str, *, tuned: bool) -> None:
    _patch_starts(stage, given_checkpoints, tuned=tuned)
    _patch_for_each(gate_client)
    _patch_questions(stage)
    _patch_listeners(stage)
    _patch_batch_writers(gate_client)
    _patch_sql(gate_client)
    _patch_reads(stage)
    _patch_views(stage)
    _patch_sessions(stage)
    _patch_stop(stage)
    libraries.install(gate_client)


def _patch_starts(stage: Stage, given_checkpoints: str, *, tuned: bool) -> None:
    def begin(writer: DataStreamWriter, path: str | None, table: str | None) -> StreamingQuery:
        stage.fence_check.session(writer._spark)  # noqa: SLF001 - now: a query keeps the settings of its start
        analyse(writer)
        if tuned:
            tune(writer._spark)  # noqa: SLF001
        return stage.start(defer(writer, path, table, given_checkpoints, in_cluster=stage.in_cluster))

    def start(
        self: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> StreamingQuery:
        _apply(self, format, outputMode, partitionBy, queryName, options)
        return begin(self, path, None)

    def to_table(
        self: DataStreamWriter,
        tableName: str,  # noqa: N803
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> StreamingQuery:
        _apply(self, format, outputMode, partitionBy, queryName, options)
        return begin(self, None, tableName)

    _replace(DataStreamWriter, "start", start)
    _replace(DataStreamWriter, "toTable", to_table)


def _apply(
    writer: DataStreamWriter,
    source: str | None,
    mode: str | None,
    partitions: Any,
    name: str | None,
    options: dict[str, Any],
) -> None:
    """What PySpark's ``start()`` does with its arguments before it starts."""
    writer.options(**options)
    if mode is not None:
        writer.outputMode(mode)
    if partitions is not None:
        writer.partitionBy(partitions)
    if source is not None:
        writer.format(source)
    if name is not None:
        writer.queryName(name)


def _patch_for_each(gate_client: GateClient) -> None:
    stock_batch, stock_each = DataStreamWriter.foreachBatch, DataStreamWriter.foreach

    def for_each_batch(self: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
        history = DurationHistory()

        @functools.wraps(func)
        def behind_the_gate(frame: DataFrame, batch: int) -> None:
            with gate_client.user_code(history):
                func(frame, batch)

        return stock_batch(self, behind_the_gate)

    def for_each(self: DataStreamWriter, f: Any) -> DataStreamWriter:
        gate_client.occupy()  # runs in Python workers, where no gate can hold it
        return stock_each(self, f)

    _replace(DataStreamWriter, "foreachBatch", for_each_batch)
    _replace(DataStreamWriter, "foreach", for_each)


def _patch_questions(stage: Stage) -> None:
    stock_active = vars(StreamingQueryManager)["active"].fget
    stock_get, stock_await = StreamingQueryManager.get, StreamingQueryManager.awaitAnyTermination

    def active(self: StreamingQueryManager) -> list[StreamingQuery]:
        stage.registry.wait_until_declared_started()
        return list(stock_active(self))

    def get(self: StreamingQueryManager, id: str) -> StreamingQuery | None:  # noqa: A002
        stage.registry.wait_until_declared_started()
        return stock_get(self, id)

    def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
        if timeout is None:
            stage.wait_until_started()  # without a query this waits for one, so for the grant too
        else:
            stage.registry.wait_until_declared_started()
        while True:
            try:
                return stock_await(self, timeout)
            except StreamingQueryException as error:
                if not stage.recover_any(error):
                    raise
                self.resetTerminated()

    StreamingQueryManager.active = property(active)  # type: ignore[assignment,method-assign]
    _replace(StreamingQueryManager, "get", get)
    _replace(StreamingQueryManager, "awaitAnyTermination", await_any)


def _patch_listeners(stage: Stage) -> None:
    stock = JStreamingQueryListener.onQueryStarted

    def on_query_started(self: JStreamingQueryListener, jevent: Any) -> None:
        with stage.registry.start_calls_back(str(jevent.id())):
            stock(self, jevent)

    _replace(JStreamingQueryListener, "onQueryStarted", on_query_started)


def _patch_views(stage: Stage) -> None:
    """On a standby a memory sink has no view yet, and only Spark's analysis knows what a statement reads: it is asked again then."""

    def waits(stock: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(stock)
        def call(*arguments: P.args, **options: P.kwargs) -> T:
            try:
                return stock(*arguments, **options)
            except AnalysisException as error:
                view = missing_view(error)
                if not view or not stage.registry.await_view(view):
                    raise
            return stock(*arguments, **options)

        return call

    for owner, name in ((SparkSession, "sql"), (SparkSession, "table"), (DataFrameReader, "table")):
        setattr(owner, name, waits(vars(owner)[name]))
    exists = Catalog.tableExists

    def table_exists(self: Catalog, tableName: str, dbName: str | None = None) -> bool:  # noqa: N803
        return exists(self, tableName, dbName) or (
            dbName is None and stage.registry.await_view(tableName.strip("`")) and exists(self, tableName, dbName)
        )

    _replace(Catalog, "tableExists", table_exists)


def missing_view(error: AnalysisException) -> str:
    """The name without a database that Spark's analysis has not found; empty for another error."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    name = str((error.getMessageParameters() or {}).get("relationName", ""))
    quoted = name.removeprefix("`").removesuffix("`")
    return "" if "`.`" in quoted else quoted.replace("``", "`")


def _patch_reads(stage: Stage) -> None:
    def remembered(stock: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        @functools.wraps(stock)
        def call(*arguments: Any, **options: Any) -> DataFrame:
            frame = stock(*arguments, **options)
            stage.read(frame)
            return frame

        return call

    for owner in (DataFrameReader, DataStreamReader):  # what is streamed may change under a standby; see BatchInputs
        for name in _READERS:
            if name in vars(owner):
                setattr(owner, name, remembered(vars(owner)[name]))


def _patch_sessions(stage: Stage) -> None:
    def checked(
        stock: Callable[[SparkSession.Builder], SparkSession],
    ) -> Callable[[SparkSession.Builder], SparkSession]:
        @functools.wraps(stock)
        def make(self: SparkSession.Builder) -> SparkSession:
            if str(self._options.get("spark.api.mode", "classic")).lower() == "connect":
                raise refuse_connect("SparkSession.builder")
            made = stock(self)
            stage.fence_check.session(made)  # a builder's settings are the session's own, whatever the context has
            return made

        return make

    for name in ("getOrCreate", "create"):
        setattr(SparkSession.Builder, name, checked(vars(SparkSession.Builder)[name]))
    validate = SparkSession.Builder._validate_startup_urls  # noqa: SLF001

    def validate_startup_urls(self: SparkSession.Builder) -> None:
        """Called by ``remote`` and ``config``, where PySpark itself would take offence at a master beside it."""
        if remote := self._options.get("spark.remote"):
            raise refuse_connect(f"SparkSession.builder.remote({remote!r})")
        validate(self)

    _replace(SparkSession.Builder, "_validate_startup_urls", validate_startup_urls)


def _patch_stop(stage: Stage) -> None:
    stock = SparkContext.stop

    def stop(self: SparkContext) -> None:
        stage.registry.context_stops()
        stock(self)

    _replace(SparkContext, "stop", stop)


def _patch_batch_writers(gate_client: GateClient) -> None:
    for owner, names in (
        (DataFrameWriter, _BATCH_WRITERS),
        (DataFrameWriterV2, _BATCH_WRITERS_V2),
        (RDD, _RDD_WRITERS),
        (MergeIntoWriter, ("merge",)),
        (Catalog, _CATALOG_CHANGES),  # Spark 4.2 has more of them than 4.1
    ):
        for each in {owner, *owner.__subclasses__()}:
            gate_client.gate(each, *names)
    gate_client.gate(ClassicDataFrame, "foreach", "foreachPartition")


def _patch_sql(gate_client: GateClient) -> None:
    stock = SparkSession.sql

    def sql(self: SparkSession, sqlQuery: str, *arguments: Any, **options: Any) -> DataFrame:  # noqa: N803
        # A leader's statements all pass, so it need not know: to ask the parser takes milliseconds, for each of a batch's statements.
        passes = gate_client.asked and gate_client.leads
        if not passes and not has_side_effects(self, _written_out(self, sqlQuery, options)):
            return stock(self, sqlQuery, *arguments, **options)
        with gate_client.user_code():
            gate_client.check(self)
            return stock(self, sqlQuery, *arguments, **options)

    _replace(SparkSession, "sql", sql)


def _written_out(session: SparkSession, text: str, options: dict[str, Any]) -> str:
    """The statement that PySpark makes of a template such as ``SELECT * FROM {frame}``."""
    values = {name: value for name, value in options.items() if name != "args"}
    if not values:
        return text
    formatter = SQLStringFormatter(session)
    try:
        return str(formatter.format(text, **values))
    except Exception:  # noqa: BLE001 - PySpark's own error comes next
        return text
    finally:
        formatter.clear()


def _replace(owner: type, name: str, function: Callable[..., Any]) -> None:
    """Take the stock method's place, keeping its name and documentation for ``help()`` and tracebacks."""
    setattr(owner, name, functools.wraps(vars(owner)[name])(function))
