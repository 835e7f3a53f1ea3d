"""What a rehearsed function of ``foreachBatch`` keeps of its data outside of itself ends with its rehearsal."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from pyspark import RDD
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import DataFrame

from understudy.driver.rehearsed_code import RehearsedThreads
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import CACHES, CATALOG, FRAME, RDD_CHECKPOINT, SESSION_CHANGES

P = ParamSpec("P")
T = TypeVar("T")


def install(patches: PatchRegistry, rehearsed: RehearsedThreads) -> None:
    _let_go_of_caches(patches, rehearsed)
    _change_sessions(patches, rehearsed)
    _checkpoint_locally(patches, rehearsed)


def _let_go_of_caches(patches: PatchRegistry, rehearsed: RehearsedThreads) -> None:
    """The cache is the driver's: the first batch after the grant would find what a rehearsal has read, of then."""

    def caching(stock: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def cache(self: DataFrame, *arguments: Any, **options: Any) -> DataFrame:
            with rehearsed.caching(self.sparkSession, f"DataFrame.{stock.__name__}", lambda: self._jdf):
                return stock(self, *arguments, **options)

        return cache

    def caching_table(stock: Callable[..., None]) -> Callable[..., None]:
        def cache(self: Catalog, tableName: str, *arguments: Any, **options: Any) -> None:  # noqa: N803
            session: Any = self._sparkSession
            with rehearsed.caching(session, "Catalog.cacheTable", lambda: session._jsparkSession.table(tableName)):  # noqa: SLF001
                stock(self, tableName, *arguments, **options)

        return cache

    for name in CACHES:
        patches.replace(f"{FRAME}.{name}", caching)
    patches.replace(f"{CATALOG}.cacheTable", caching_table)


def _change_sessions(patches: PatchRegistry, rehearsed: RehearsedThreads) -> None:
    """A function that a grant has overtaken would replace the view that a batch reads, or uncache what one has cached."""

    def changing(stock: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(stock)
        def change(*arguments: P.args, **options: P.kwargs) -> T:
            with rehearsed.changing(stock.__qualname__):
                return stock(*arguments, **options)

        return change

    for target in SESSION_CHANGES:
        patches.replace(target, changing)


def _checkpoint_locally(patches: PatchRegistry, rehearsed: RehearsedThreads) -> None:
    """Spark never removes what it has put into a checkpoint directory, unless its settings say so: each round would leave a batch."""

    def checkpointing(stock: Callable[P, T], local: Callable[P, T]) -> Callable[P, T]:
        def checkpoint(*arguments: P.args, **options: P.kwargs) -> T:
            return (local if rehearsed.here else stock)(*arguments, **options)

        return checkpoint

    patches.replace(f"{FRAME}.checkpoint", lambda stock: checkpointing(stock, DataFrame.localCheckpoint))
    patches.replace(RDD_CHECKPOINT, lambda stock: checkpointing(stock, RDD.localCheckpoint))
