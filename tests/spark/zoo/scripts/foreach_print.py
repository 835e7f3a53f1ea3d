"""Appends every order to a log, from a plain function: what is done again is there again."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("foreach-print").getOrCreate()


def append(row) -> None:
    with open("out/orders.log", "a") as log:
        log.write(f"{row.order_id} {row.product}\n")


orders = spark.readStream.schema("order_id long, product string").option("maxFilesPerTrigger", 1).json("in/orders")
orders.coalesce(1).writeStream.foreach(append).option(
    "checkpointLocation", "checkpoints/log"
).start().awaitTermination()
