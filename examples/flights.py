"""Flights leaving New York, as they are reported: delays per airport and day, and every flight exactly once.

    python examples/flights.py --input DIR --output DIR

``--input`` is a directory into which one CSV file per day is moved, or a Kafka topic (``kafka://host:port/topic``) whose messages
are the lines of such files; ``--output`` is where the results go. Directories may be in an object store (``s3a://bucket/path``).

``delays/``       parquet files: one row per airport and day, written when that day is over (streaming file sink)
``flights.db``    SQLite, table ``flights``: every flight once, however often it was reported
``flights/``      the same in an object store, where SQLite cannot write: parquet files, one directory per batch
``checkpoints/``  what Spark needs to go on where it stopped
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

SCHEMA = StructType(
    [
        StructField("scheduled", TimestampType()),  # when it should leave; local time of New York, read as UTC
        StructField("carrier", StringType()),
        StructField("flight", IntegerType()),
        StructField("tailnum", StringType()),
        StructField("origin", StringType()),
        StructField("dest", StringType()),
        StructField("dep_delay", IntegerType()),  # minutes; null: it never left
        StructField("arr_delay", IntegerType()),
        StructField("distance", IntegerType()),
    ]
)

#: A flight may be reported this long after a later one.
LATENESS = "1 day"

#: About as many flights leave on one day.
FLIGHTS_PER_DAY = 1000

COLUMNS = ("carrier", "flight", "origin", "scheduled", "tailnum", "dest", "dep_delay", "arr_delay", "distance")


def files(spark: SparkSession, directory: str, days: int) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("header", True).option("maxFilesPerTrigger", days).csv(directory)


def messages(spark: SparkSession, servers: str, topic: str, days: int) -> DataFrame:
    """One flight each, as a line of CSV."""
    lines = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", days * FLIGHTS_PER_DAY)
        .load()
    )
    return lines.select(F.from_csv(F.col("value").cast("string"), SCHEMA.toDDL()).alias("flight")).select("flight.*")


def delays_by_origin_and_day(flights: DataFrame) -> DataFrame:
    """Flights, cancellations and delay of each airport and day. Sums are whole minutes, so they add up in any order."""
    return (
        flights.groupBy(F.window("scheduled", "1 day"), "origin")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
            F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("delay_minutes"),
            F.max("dep_delay").alias("worst_delay"),
        )
        .select(
            F.date_format("window.start", "yyyy-MM-dd").alias("day"),
            "origin",
            "flights",
            "cancelled",
            "delay_minutes",
            "worst_delay",
        )
    )


TABLES = (
    "CREATE TABLE IF NOT EXISTS batches (batch INTEGER PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS flights (
        batch INTEGER, carrier TEXT, flight INTEGER, origin TEXT, scheduled TEXT,
        tailnum TEXT, dest TEXT, dep_delay INTEGER, arr_delay INTEGER, distance INTEGER)""",
)


def store_batch(batch: DataFrame, batch_id: int, database: str) -> None:
    """Rows and batch number in one transaction: a batch that is run again finds its number and changes nothing."""
    rows = batch.select(
        *(F.col(name).cast("string") if name == "scheduled" else F.col(name) for name in COLUMNS)
    ).collect()
    with closing(sqlite3.connect(database, timeout=30, isolation_level="IMMEDIATE")) as connection, connection:
        for statement in TABLES:
            connection.execute(statement)
        added = connection.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch_id,))
        if added.rowcount == 1:
            connection.executemany(
                f"INSERT INTO flights VALUES (?{', ?' * len(COLUMNS)})", [(batch_id, *row) for row in rows]
            )


def write_batch(batch: DataFrame, batch_id: int, directory: str) -> None:
    """A directory per batch: a batch that is run again writes over what it wrote the first time."""
    batch.select(*COLUMNS).write.mode("overwrite").parquet(f"{directory}/batch={batch_id}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--max-files", default=4, type=int, help="days per batch at most (default: 4)")
    parser.add_argument(
        "--trigger", default="400 milliseconds", help="time between batches (default: 400 milliseconds)"
    )
    options = parser.parse_args()

    spark = (
        SparkSession.builder.appName("flights")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    output = options.output.rstrip("/")
    keep, flights_to = write_batch, f"{output}/flights"
    if "://" not in output:
        Path(output).mkdir(parents=True, exist_ok=True)
        keep, flights_to = store_batch, f"{output}/flights.db"

    if options.input.startswith("kafka://"):
        servers, topic = options.input.removeprefix("kafka://").split("/")
        reported = messages(spark, servers, topic, options.max_files)
    else:
        reported = files(spark, options.input, options.max_files)
    flights = reported.withWatermark("scheduled", LATENESS)

    (
        delays_by_origin_and_day(flights)
        .writeStream.queryName("delays")
        .format("parquet")
        .outputMode("append")
        .option("checkpointLocation", f"{output}/checkpoints/delays")
        .trigger(processingTime=options.trigger)
        .start(f"{output}/delays")
    )
    (
        flights.dropDuplicatesWithinWatermark(["carrier", "flight", "origin", "scheduled"])
        .writeStream.queryName("flights")
        .foreachBatch(lambda batch, batch_id: keep(batch, batch_id, flights_to))
        .option("checkpointLocation", f"{output}/checkpoints/flights")
        .trigger(processingTime=options.trigger)
        .start()
    )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
