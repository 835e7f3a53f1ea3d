"""Orders per product and five minutes, from Kafka."""

import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, from_json, window

spark = SparkSession.builder.appName("kafka-windows").getOrCreate()

orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", os.environ["KAFKA"])
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 50)
    .load()
    .select(from_json(col("value").cast("string"), "ordered_at timestamp, product string").alias("order"))
    .select("order.*")
)
(
    orders.withWatermark("ordered_at", "1 minute")
    .groupBy(window("ordered_at", "5 minutes"), "product")
    .agg(count("*").alias("orders"))
    .writeStream.format("json")
    .option("path", "out/windows")
    .option("checkpointLocation", "checkpoints/windows")
    .start()
    .awaitTermination()
)
