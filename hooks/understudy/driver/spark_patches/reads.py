"""What a script reads: frames that may become stale on a standby, and views that exist from the grant on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.catalog import Catalog

from understudy.driver.query_registry import QueryRegistry
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import CATALOG, READER, READS, SESSION, STREAM_READER

P = ParamSpec("P")
T = TypeVar("T")


def replace_reads(patches: PatchRegistry, remember: Callable[[DataFrame], None]) -> None:
    def remembered(stock: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def call(*arguments: Any, **options: Any) -> DataFrame:
            frame = stock(*arguments, **options)
            remember(frame)
            return frame

        return call

    for owner in (READER, STREAM_READER):  # what is streamed may change under a standby; see BatchInputs
        for name in READS:
            patches.replace(f"{owner}.{name}", remembered)


def replace_view_reads(patches: PatchRegistry, queries: QueryRegistry) -> None:
    """``SparkSession.sql`` is the third that waits for a view: ``writers.replace_sql``."""
    for target in (f"{SESSION}.table", f"{READER}.table"):
        patches.replace(target, lambda stock: waits_for_view(stock, queries))

    def exists(stock: Callable[..., bool]) -> Callable[..., bool]:
        def table_exists(self: Catalog, tableName: str, dbName: str | None = None) -> bool:  # noqa: N803
            return stock(self, tableName, dbName) or (
                dbName is None and queries.await_view(tableName.strip("`")) and stock(self, tableName, dbName)
            )

        return table_exists

    patches.replace(f"{CATALOG}.tableExists", exists)


def waits_for_view(stock: Callable[P, T], queries: QueryRegistry) -> Callable[P, T]:
    """``stock``, called a second time once the memory sink has started whose view it did not find.

    Only Spark's analysis knows what a statement reads, so it is asked first, and a standby has no such view yet.
    """

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return stock(*arguments, **options)
        except AnalysisException as error:
            view = missing_view(error)
            if not view or not queries.await_view(view):
                raise
        return stock(*arguments, **options)

    return call


def missing_view(error: AnalysisException) -> str:
    """The name without a database that Spark's analysis has not found; empty for another error."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    name = str((error.getMessageParameters() or {}).get("relationName", ""))
    quoted = name.removeprefix("`").removesuffix("`")
    return "" if "`.`" in quoted else quoted.replace("``", "`")
