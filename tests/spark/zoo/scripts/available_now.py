"""A nightly job: takes in what has come since yesterday, and ends."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("nightly").getOrCreate()
orders = (
    spark.readStream.schema("order_id long, product string, price double")
    .option("maxFilesPerTrigger", 2)
    .json("in/orders")
)
query = (
    orders.writeStream.trigger(availableNow=True)
    .format("parquet")
    .option("checkpointLocation", "checkpoints/nightly")
    .start("out/nightly")
)
query.awaitTermination()
print("done", query.lastProgress["batchId"] if query.lastProgress else "nothing new")
