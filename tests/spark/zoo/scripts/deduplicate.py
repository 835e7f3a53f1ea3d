"""Orders without their repetitions, as CSV, one directory per country."""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
orders = (
    spark.readStream.schema("order_id long, ordered_at timestamp, country string, product string, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json(source)
)
unique = orders.withWatermark("ordered_at", "3 minutes").dropDuplicatesWithinWatermark(["order_id"])
query = (
    unique.writeStream.partitionBy("country")
    .format("csv")
    .option("header", True)
    .option("checkpointLocation", target + "/_checkpoint")
    .start(target + "/orders")
)
try:
    query.awaitTermination()
finally:
    query.stop()
