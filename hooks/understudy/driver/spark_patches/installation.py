"""Installs every replacement that needs no JVM, before the script's first line."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from understudy.driver.assembly import Driver
from understudy.driver.children import only_in
from understudy.driver.pending_query import analyse, declare
from understudy.driver.spark_patches import (
    accumulators,
    libraries,
    queries,
    reads,
    rehearsed_data,
    sessions,
    threads,
    writers,
)
from understudy.driver.spark_patches.registry import PatchRegistry
from understudy.driver.tuning import tune
from understudy.protocol.driver_spec import DriverSpec


def install(patches: PatchRegistry, driver: Driver, spec: DriverSpec) -> None:
    ours = os.getpid()
    only_here = driver.fence_check.refusing(lambda: only_in(ours))

    def begin(writer: DataStreamWriter, path: str | None, table: str | None) -> StreamingQuery:
        only_here()  # a forked child never hears of the grant
        driver.gate_client.rehearsed.refuse("the start of a query")
        session = writer._spark  # noqa: SLF001
        driver.fence_check.session(session)  # now: a query keeps the settings of its start
        share_a_disk = spec.lock_kind == "file"  # replicas on one machine
        with driver.starts.launcher.settings.of_script(session):
            analyse(writer)
            if spec.spark.tune:
                tune(session)
            query = declare(writer, path, table, spec.checkpoints, share_a_disk=share_a_disk)
        driver.rehearsals.functions.keep(writer, query.writer)
        return driver.starts.start(query)

    def remember(frame: DataFrame) -> None:
        if driver.gate_client.rehearsed.here:
            return  # only a function of `foreachBatch` reads it: the leader's reads it again for each batch
        if driver.gate_client.stands_by:  # a leader's frames may become stale, as in Spark
            driver.rehearsals.inputs.read(frame)

    queries.replace_starts(patches, begin)
    queries.replace_for_each(patches, driver.gate_client, driver.rehearsals.functions)
    queries.replace_lookups(patches, driver.registry, driver.recovery)
    queries.replace_await_any(patches, driver.registry, driver.recovery)
    queries.replace_callbacks(patches, driver.registry)
    writers.gate_batch_writers(patches, driver.gate_client)
    writers.replace_sql(patches, driver.gate_client, driver.registry)
    reads.replace_reads(patches, remember)
    reads.replace_view_reads(patches, driver.registry)
    sessions.replace_builders(patches, driver.fence_check)
    sessions.replace_stop(patches, driver.registry)
    libraries.install(patches, driver.gate_client)
    rehearsed = driver.gate_client.rehearsed
    accumulators.install(patches, lambda: driver.rehearsals.rehearsing and rehearsed.busy, rehearsed)
    rehearsed_data.install(patches, rehearsed)
    threads.install(patches, driver.gate_client.rehearsed)
