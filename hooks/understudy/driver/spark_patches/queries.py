"""Starting streaming queries, and asking about them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.listener import JStreamingQueryListener

from understudy.driver.conflict_recovery import ConflictRecovery
from understudy.driver.gate_client import DurationHistory, GateClient
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.rehearsed_code import BatchFunctions
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import LISTENER, QUERY_MANAGER, STREAM_WRITER

T = TypeVar("T")

#: Seconds between two questions that are asked again.
_LOOK = 0.1
#: Starts the query of a writer, with the path or the table that the script gave.
Start = Callable[[DataStreamWriter, str | None, str | None], StreamingQuery]


def replace_starts(patches: PatchRegistry, begin: Start) -> None:
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

    patches.replace(f"{STREAM_WRITER}.start", lambda _: start)
    patches.replace(f"{STREAM_WRITER}.toTable", lambda _: to_table)


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


def replace_for_each(patches: PatchRegistry, gate_client: GateClient, functions: BatchFunctions) -> None:
    def batches(stock: Callable[..., DataStreamWriter]) -> Callable[..., DataStreamWriter]:
        def for_each_batch(self: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:
            history = DurationHistory()

            @functools.wraps(func)
            def behind_the_gate(frame: DataFrame, batch: int) -> None:
                with gate_client.user_code(history, of_a_batch=True):
                    func(frame, batch)

            functions.declare(self, func)
            return stock(self, behind_the_gate)

        return for_each_batch

    def rows(stock: Callable[..., DataStreamWriter]) -> Callable[..., DataStreamWriter]:
        def for_each(self: DataStreamWriter, f: Any) -> DataStreamWriter:
            gate_client.occupy()  # runs in Python workers, where no gate can hold it
            return stock(self, f)

        return for_each

    patches.replace(f"{STREAM_WRITER}.foreachBatch", batches)
    patches.replace(f"{STREAM_WRITER}.foreach", rows)


def replace_lookups(patches: PatchRegistry, queries: QueryRegistry, recovery: ConflictRecovery) -> None:
    def answered(ask: Callable[[], T]) -> T:
        """Spark's answer, at a moment in which no query is started again: that stays invisible to the script."""
        queries.wait_until_declared_started()
        while True:
            before = [each.query for each in queries.queries()]
            answer = ask()
            recovery.recover_ended()
            if all(each.query is query for each, query in zip(queries.queries(), before, strict=False)):
                return answer

    def active(stock: Callable[..., list[StreamingQuery]]) -> Callable[..., list[StreamingQuery]]:
        def active(self: StreamingQueryManager) -> list[StreamingQuery]:
            return [queries.stand_in(each) for each in answered(lambda: stock(self))]

        return active

    def get(stock: Callable[..., StreamingQuery | None]) -> Callable[..., StreamingQuery | None]:
        def get(self: StreamingQueryManager, id: str) -> StreamingQuery | None:  # noqa: A002
            found = answered(lambda: stock(self, id))
            return None if found is None else queries.stand_in(found)

        return get

    patches.replace(f"{QUERY_MANAGER}.active", active)
    patches.replace(f"{QUERY_MANAGER}.get", get)


def replace_await_any(patches: PatchRegistry, queries: QueryRegistry, recovery: ConflictRecovery) -> None:
    def awaits(stock: Callable[..., bool | None]) -> Callable[..., bool | None]:
        def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
            if timeout is None:
                queries.wait_until_started()  # without a query this waits for one, so for the grant too
            else:
                queries.wait_until_declared_started()
            while True:
                try:
                    ended = stock(self, timeout)
                except StreamingQueryException as error:
                    if not recovery.recover_any(error):
                        raise
                    self.resetTerminated()
                else:
                    if not queries.drains or ended is False:
                        return ended
                    time.sleep(_LOOK)  # a query was stopped, to be started again
                    self.resetTerminated()

        return await_any

    patches.replace(f"{QUERY_MANAGER}.awaitAnyTermination", awaits)


def replace_callbacks(patches: PatchRegistry, queries: QueryRegistry) -> None:
    def called_back(stock: Callable[..., None]) -> Callable[..., None]:
        def on_query_started(self: JStreamingQueryListener, jevent: Any) -> None:
            with queries.start_calls_back(str(jevent.id())):
                stock(self, jevent)

        return on_query_started

    patches.replace(f"{LISTENER}.onQueryStarted", called_back)
