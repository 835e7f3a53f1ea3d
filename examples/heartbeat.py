"""A job for a first look: it brings its own input, and writes down once a second how far it has come.

    python examples/heartbeat.py --output DIR

``--output`` is where the results go, in a file system or an object store (``s3a://bucket/path``): ``beats/`` holds a row for
every beat, ``checkpoint/`` what Spark needs to go on where it stopped. The beats are numbered, so a lost or repeated one shows.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

parser = argparse.ArgumentParser()
parser.add_argument("--output", required=True)
output = parser.parse_args().output

spark = SparkSession.builder.appName("heartbeat").getOrCreate()
beats = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = (
    beats.withColumnRenamed("value", "beat")
    .coalesce(1)
    .writeStream.queryName("heartbeat")
    .format("parquet")
    .option("checkpointLocation", f"{output}/checkpoint")
    .trigger(processingTime="1 second")
    .start(f"{output}/beats")
)
query.awaitTermination()
