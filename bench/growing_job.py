"""A job that can be made larger in one direction at a time: more partitions, more queries, or more state.

    python bench/growing_job.py --input DIR --output DIR --partitions 200 --queries 1
    python bench/growing_job.py --input DIR --output DIR --keeps-all
    python bench/growing_job.py --input DIR --output DIR --keeps-nothing

``--input`` is a directory of flights as ``examples/flights.py`` reads it. Each query ``q<n>`` counts flights of its share of aircraft in session
windows; with ``--keeps-all`` there is one, which lets every flight through once and remembers all of them for ever; with
``--keeps-nothing`` one that copies them.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "scheduled timestamp, carrier string, flight int, tailnum string, origin string, dest string, dep_delay int"


def sessions(flights: DataFrame, share: int, of: int) -> DataFrame:
    mine = flights.where(F.crc32(F.col("tailnum")) % of == share).withWatermark("scheduled", "1 day")
    counted = mine.groupBy(F.session_window("scheduled", "12 hours"), "tailnum").count()
    return counted.select(F.col("session_window.start").alias("since"), "tailnum", "count")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--queries", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--trigger-ms", type=int, default=400)
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--keeps-all", action="store_true")
    kept.add_argument("--keeps-nothing", action="store_true")
    options = parser.parse_args()

    spark = (
        SparkSession.builder.appName("growing")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", options.partitions)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    for number in range(options.queries):
        flights = spark.readStream.schema(SCHEMA).option("header", True).option("maxFilesPerTrigger", 4)
        rows = flights.option("enforceSchema", True).csv(options.input)
        if options.keeps_all:
            rows = rows.dropDuplicates(["scheduled", "carrier", "flight", "tailnum"])
        elif not options.keeps_nothing:
            rows = sessions(rows, number, options.queries)
        (
            rows.writeStream.queryName(f"q{number}")
            .format("parquet")
            .option("checkpointLocation", f"{options.output}/checkpoints/q{number}")
            .trigger(processingTime=f"{options.trigger_ms} milliseconds")
            .start(f"{options.output}/q{number}")
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
