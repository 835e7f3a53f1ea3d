"""Batch writers and statements with side effects: they wait at the gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter

from understudy.driver.gate_client import GateClient
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.spark_patches.reads import waits_for_view
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import CACHES, CATALOG, FRAME, RDD_CHECKPOINT, SESSION, SESSION_CHANGES
from understudy.driver.statements import Effect, effect_of

#: The modules whose declared targets all write. Of the catalog only what changes it is gated.
_WRITERS = (
    ("pyspark.sql.readwriter", "DataFrameWriter"),
    ("pyspark.sql.readwriter", "DataFrameWriterV2"),
    ("pyspark.core.rdd", "RDD"),
    ("pyspark.sql.merge", "MergeIntoWriter"),
    ("pyspark.sql.catalog", "Catalog"),
    ("pyspark.sql.classic.dataframe", "DataFrame"),
)

#: Those whose writes are Spark's commands, which a rehearsal redirects.
_REDIRECTED = ("DataFrameWriter", "DataFrameWriterV2", "MergeIntoWriter")

#: Those that write nothing, and those that write what only this process reads: they are replaced elsewhere.
_NOT_GATED = (
    *(f"{CATALOG}.{name}" for name in ("tableExists", "cacheTable")),
    *(f"{FRAME}.{name}" for name in (*CACHES, "checkpoint")),
    RDD_CHECKPOINT,
    *SESSION_CHANGES,
)


def gate_batch_writers(patches: PatchRegistry, gate_client: GateClient) -> None:
    """Those that reach the sink by themselves, and the shorthands (``parquet``, ``csv`` …), which reach it by their own calls."""
    for module, owner in _WRITERS:
        make = gate_client.redirected if owner in _REDIRECTED else gate_client.gated
        for target in patches.targets_in(module, owner=owner):
            if target not in _NOT_GATED:
                patches.replace(target, make)


def replace_sql(patches: PatchRegistry, gate_client: GateClient, queries: QueryRegistry) -> None:
    def gated(stock: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def sql(self: SparkSession, sqlQuery: str, *arguments: Any, **options: Any) -> DataFrame:  # noqa: N803
            def effect() -> Effect:
                given = arguments[0] if arguments else options.get("args")
                return effect_of(self, _written_out(self, sqlQuery, options), given)

            if gate_client.rehearsed.here:
                # Commands that a query turns out to be once it is planned are looked at there.
                changes = effect() is not Effect.OWN
                with gate_client.rehearsed.commands(self, "SparkSession.sql", changes=changes):
                    return stock(self, sqlQuery, *arguments, **options)
            # All statements of a leader pass, so nothing is parsed: that takes milliseconds, for each of a batch's statements.
            passes = gate_client.asked and gate_client.leads
            if not passes and effect() is not Effect.CHANGES:
                return stock(self, sqlQuery, *arguments, **options)
            with gate_client.user_code():
                gate_client.check(self)
                return stock(self, sqlQuery, *arguments, **options)

        return sql

    patches.replace(f"{SESSION}.sql", lambda stock: waits_for_view(gated(stock), queries))


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
