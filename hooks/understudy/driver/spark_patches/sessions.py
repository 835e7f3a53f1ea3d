"""Making and stopping sessions."""

from __future__ import annotations

from collections.abc import Callable

from pyspark import SparkContext
from pyspark.sql import SparkSession

from understudy.driver.fence_check import FenceCheck
from understudy.driver.jvm import refuse_connect
from understudy.driver.query_registry import QueryRegistry
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.spark_patches.targets import BUILDER, CONTEXT


def replace_builders(patches: PatchRegistry, fence_check: FenceCheck) -> None:
    def checked(
        stock: Callable[[SparkSession.Builder], SparkSession],
    ) -> Callable[[SparkSession.Builder], SparkSession]:
        def make(self: SparkSession.Builder) -> SparkSession:
            if str(self._options.get("spark.api.mode", "classic")).lower() == "connect":
                raise refuse_connect("SparkSession.builder")
            made = stock(self)
            fence_check.session(made)  # a session has its builder's settings, not only the context's
            return made

        return make

    def validated(stock: Callable[[SparkSession.Builder], None]) -> Callable[[SparkSession.Builder], None]:
        def validate_startup_urls(self: SparkSession.Builder) -> None:
            """Called by ``remote`` and ``config``, where PySpark itself would report a conflict with ``MASTER``."""
            if remote := self._options.get("spark.remote"):
                raise refuse_connect(f"SparkSession.builder.remote({remote!r})")
            stock(self)

        return validate_startup_urls

    for name in ("getOrCreate", "create"):
        patches.replace(f"{BUILDER}.{name}", checked)
    patches.replace(f"{BUILDER}._validate_startup_urls", validated)


def replace_stop(patches: PatchRegistry, queries: QueryRegistry) -> None:
    def noted(stock: Callable[[SparkContext], None]) -> Callable[[SparkContext], None]:
        def stop(self: SparkContext) -> None:
            queries.wait_before_stop()
            queries.context_stops()
            stock(self)

        return stop

    patches.replace(f"{CONTEXT}.stop", noted)
