"""The busiest minute of every five: an aggregation of an aggregation."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import count, max, window, window_time

spark = SparkSession.builder.appName("chained").config("spark.sql.shuffle.partitions", 2).getOrCreate()
minutes = (
    spark.readStream.schema("ordered_at timestamp, country string")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
    .withWatermark("ordered_at", "30 seconds")
    .groupBy(window("ordered_at", "1 minute"), "country")
    .agg(count("*").alias("orders"))
)
busiest = minutes.groupBy(window(window_time("window"), "5 minutes"), "country").agg(max("orders").alias("busiest"))
busiest.writeStream.format("json").option("checkpointLocation", "checkpoints/busiest").start(
    "out/busiest"
).awaitTermination()
