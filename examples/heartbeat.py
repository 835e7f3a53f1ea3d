"""A job for a first look: it generates its input, and records its progress once per second.

    python examples/heartbeat.py --output DIR

``--output`` is the directory of the results, in a file system or an object store (``s3a://bucket/path``): ``beats/`` has a row per
beat, ``checkpoint/`` is Spark's checkpoint. The beats are numbered, so that a lost or repeated one is visible.
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
