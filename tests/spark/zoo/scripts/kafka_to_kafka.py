"""From one topic to another, with what an order is worth."""

import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json, round, struct, to_json

spark = SparkSession.builder.appName("worth").getOrCreate()
brokers = os.environ["KAFKA"]

orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .load()
    .select(from_json(col("value").cast("string"), "order_id long, quantity int, price double").alias("order"))
    .select("order.order_id", round(col("order.quantity") * col("order.price"), 2).alias("worth"))
)
query = (
    orders.select(col("order_id").cast("string").alias("key"), to_json(struct("order_id", "worth")).alias("value"))
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", brokers)
    .option("topic", os.environ["TOPIC"])
    .option("checkpointLocation", "checkpoints/worth")
    .start()
)
query.awaitTermination()
