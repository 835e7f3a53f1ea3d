"""A table in the driver's memory for a small board, and the stream that matters."""

import sys
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("memory-board").getOrCreate()
orders = (
    spark.readStream.schema("order_id long, ordered_at timestamp, country string, product string, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
)
kept = (
    orders.writeStream.queryName("kept")
    .format("parquet")
    .option("checkpointLocation", "checkpoints/kept")
    .start("out/kept")
)
orders.where("quantity > 3").writeStream.queryName("board").format("memory").start()
while kept.isActive:
    spark.sql("SELECT country, count(*) AS large FROM board GROUP BY country").show()
    time.sleep(2)
sys.exit(1)
