"""The zoo's scripts, and what there is to know of each: what it reads, where its rows are, what is claimed of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testkit import observer
from testkit.s3 import Missing
from tests.spark import kafka
from tests.spark.zoo import feeds
from tests.spark.zoo.sinks import Reader, delta, files, lines, table

#: Made by ``tools/setup.sh connectors``.
CONNECTORS = Path(__file__).resolve().parents[3] / "build" / "connectors"

#: Claims. What stands in the sink after kills is compared with what a plain run leaves there.
ONCE = "exactly once"
REPEATED = "at least once"
#: The rehearsal of a script that is held before it declares a query: of a query that is none of its own.
WARM_UP = "warm-up"


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One script. ``queries``: the checkpoints it writes, and how many files of a step each reads. ``how``: the rehearsal's kind, or
    empty for a batch job. ``why``: what stands against more than is claimed.
    """

    script: str
    about: str
    sinks: Mapping[str, Reader]
    queries: Mapping[str, int] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    how: str = "live"
    claim: str = ONCE
    why: str = ""
    #: It ends by itself, and the job is FINISHED then.
    ends: bool = False
    #: A file that, once it is there, makes the script end.
    told_by: str = ""
    #: How many files a checkpoint has read.
    read: Callable[[Path], int] = observer.all_files_read
    #: What spark-submit is given besides.
    submit: Callable[[], tuple[str, ...]] = tuple
    #: Whether orders come as messages, too: ``KAFKA`` and ``TOPIC`` in the environment are a broker, and a topic to write to.
    messages: bool = False

    @property
    def asked(self) -> bool:
        """Whether standbys are waited for, and looked at: not where a script takes in what is there and ends when it likes."""
        return not self.ends or bool(self.told_by)


def _files_of_python_source(checkpoint: Path) -> int:
    """A source of one's own keeps no log of files; its offset says how many there were."""
    offsets = observer.batch_offsets(checkpoint, observer.last_entry(checkpoint / "offsets")) or ()
    return sum(int(json.loads(offset)["files"]) for offset in offsets if offset != "-")


def _steps_of_messages(checkpoint: Path) -> int:
    read, steps = observer.messages_read(checkpoint), 0
    while (read := read - len(feeds.messages(steps))) >= 0:
        steps += 1
    return steps


def _jars(kind: str) -> tuple[str, ...]:
    found = sorted(map(str, (CONNECTORS / kind).glob("*.jar")))
    if not found:
        raise Missing(f"{CONNECTORS / kind} is not there: run tools/setup.sh connectors")
    return ("--jars", ",".join(found))


def delta_jars() -> tuple[str, ...]:
    return (
        *_jars("delta"),
        *("--conf", "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"),
        *("--conf", "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        *("--conf", "spark.databricks.delta.snapshotPartitions=2"),
    )


def jdbc_jars() -> tuple[str, ...]:
    return _jars("jdbc")


def _kafka() -> tuple[str, ...]:
    return ("--jars", kafka.connector())


def _one(script: str, about: str, sink: str, checkpoint: str, reads: int = 1, **options: object) -> Exhibit:
    """A script with one query into files."""
    return Exhibit(script, about, {sink: files(f"out/{sink}")}, {f"checkpoints/{checkpoint}": reads}, **options)  # type: ignore[arg-type]


EXHIBITS = (
    Exhibit(
        "window_counts",
        "watermark, windows, argparse",
        {"counts": files("out/counts")},
        {"out/checkpoint": 1},
        ("--input", "in/orders", "--output", "out"),
    ),
    _one("session_windows", "session windows", "sessions", "sessions"),
    _one("order_payments", "deduplication, stream–stream outer join", "order_payments", "order_payments", 2),
    _one("customer_state_pandas", "applyInPandasWithState", "totals", "totals"),
    _one("transform_with_state", "transformWithStateInPandas on RocksDB", "biggest", "biggest"),
    Exhibit(
        "deduplicate",
        "dropDuplicatesWithinWatermark, partitioned CSV, try/finally",
        {"orders": files("out/orders")},
        {"out/_checkpoint": 1},
        ("in/orders", "out"),
    ),
    _one("udfs", "Python and pandas UDFs, a module beside the script", "priced", "priced"),
    Exhibit(
        "broadcast_sqlite",
        "broadcast variable, accumulator, foreachBatch into SQLite by batch",
        {"countries": table("out/countries.db", "countries")},
        {"checkpoints/countries": 1},
    ),
    Exhibit(
        "foreach_writer",
        "foreach with a writer object, files by epoch",
        {"parts": files("out/parts")},
        {"checkpoints/parts": 1},
    ),
    Exhibit(
        "foreach_print",
        "foreach with a function that appends to a file",
        {"orders.log": lines("out/orders.log")},
        {"checkpoints/log": 1},
        claim=REPEATED,
        why="rows of a batch that did not end are appended again, as after every restart of Spark's own",
    ),
    _one("to_table", "toTable, a database made if it is missing", "big_orders", "big_orders"),
    Exhibit(
        "three_queries",
        "three queries with shuffle partitions of their own",
        {name: files(f"out/{name}") for name in ("by_country", "by_product", "raw")},
        {f"checkpoints/{name}": 1 for name in ("by_country", "by_product", "raw")},
    ),
    _one("chained_aggregations", "an aggregation of an aggregation", "busiest", "busiest"),
    Exhibit(
        "a_query_per_country",
        "queries started in a loop, a thread that asks for progress",
        {name: files(f"out/{name}") for name in ("CZ", "JP", "PE")},
        {f"checkpoints/{name}": 1 for name in ("CZ", "JP", "PE")},
    ),
    _one("available_now", "availableNow, then the end", "nightly", "nightly", ends=True),
    Exhibit("batch_report", "a batch job that overwrites a report", {"report": files("out/report")}, how="", ends=True),
    Exhibit(
        "batch_append",
        "a batch job that appends",
        {"added": files("out/added")},
        how="",
        claim=REPEATED,
        why="a job that dies before its end is run again from its first line, as a restart by hand does",
        ends=True,
    ),
    _one("polling", "while q.isActive, lastProgress", "polling", "polling", ends=True, told_by="in/stop"),
    Exhibit(
        "restart_loop",
        "start() again after every exception",
        {"batches": files("out/batches")},
        {"checkpoints/flaky": 1},
    ),
    Exhibit(
        "from_threads",
        "queries started and awaited in threads",
        {name: files(f"out/{name}") for name in ("orders", "payments")},
        {f"checkpoints/{name}": 1 for name in ("orders", "payments")},
    ),
    _one("listener", "a StreamingQueryListener", "listened", "listened"),
    _one("listener_asks", "a listener that asks for all queries when one starts", "asked", "asked"),
    Exhibit(
        "ids_between",
        "names and ids of queries, asked between their starts",
        {name: files(f"out/{name}") for name in ("id_CZ", "id_JP", "id_PE")},
        {f"checkpoints/{name}": 1 for name in ("id_CZ", "id_JP", "id_PE")},
    ),
    _one("inferred_schema", "the schema taken from the directory that is streamed", "typed", "typed"),
    _one("memory_board", "a memory sink and its view, and a query that is kept", "kept", "kept", how="live,throwaway"),
    Exhibit(
        "upsert",
        "update mode, upserts into SQLite",
        {"products": table("out/products.db", "products")},
        {"checkpoints/upsert": 1},
    ),
    _one("until_done", "processAllAvailable, try/finally stop(), sys.exit(0)", "until_done", "until_done", ends=True),
    _one("for_a_while", "awaitTermination(40), then the end", "while", "while", ends=True),
    _one("notebook", "exported from a notebook", "placed", "placed"),
    Exhibit(
        "dimension_join",
        "a join inside foreachBatch, one directory per batch",
        {"enriched": files("out/enriched")},
        {"checkpoints/enriched": 1},
    ),
    _one(
        "python_source",
        "a Python DataSource of one's own",
        "own",
        "own",
        how="synthetic",
        read=_files_of_python_source,
    ),
    Exhibit(
        "report_overwritten",
        "complete mode, a report overwritten by foreachBatch",
        {"report": files("out/report")},
        {"checkpoints/report": 1},
    ),
    Exhibit(
        "sql_only",
        "SQL views over a stream, CREATE TABLE and INSERT before it",
        {"expensive": files("out/expensive")},
        {"checkpoints/expensive": 1},
        how=WARM_UP,
    ),
    _one(
        "kafka_windows",
        "Kafka, JSON, windows",
        "windows",
        "windows",
        read=_steps_of_messages,
        submit=_kafka,
        messages=True,
    ),
    Exhibit(
        "kafka_to_kafka",
        "from a topic to another",
        {},
        {"checkpoints/worth": 1},
        claim=REPEATED,
        why="Spark's Kafka sink sends a batch again that did not end",
        read=_steps_of_messages,
        submit=_kafka,
        messages=True,
    ),
    Exhibit(
        "delta_sink",
        "two queries into Delta tables",
        {"orders": delta("out/orders"), "large": delta("out/large")},
        {"checkpoints/delta": 1, "checkpoints/large": 1},
        submit=delta_jars,
    ),
    Exhibit(
        "delta_merge",
        "createIfNotExists, merges into a Delta table by foreachBatch",
        {"newest": delta("out/newest")},
        {"checkpoints/newest": 1},
        submit=delta_jars,
    ),
    Exhibit(
        "jdbc_batches",
        "a batch appended by Spark's JDBC writer",
        {"payments": table("out/shop.db", "payments", "order_id, method")},
        {"checkpoints/jdbc": 1},
        claim=REPEATED,
        why="a batch that was appended and not committed is appended again, as after every restart of Spark's own",
        submit=jdbc_jars,
    ),
)
