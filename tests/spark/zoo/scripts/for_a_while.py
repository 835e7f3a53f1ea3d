"""Runs for some seconds, whatever there is to do, and ends."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("for-a-while").getOrCreate()
orders = spark.readStream.schema("order_id long, country string").option("maxFilesPerTrigger", 1).json("in/orders")
query = orders.writeStream.option("checkpointLocation", "checkpoints/while").start("out/while", "json")
if not query.awaitTermination(40):
    query.stop()
spark.stop()
raise SystemExit(0)
