"""Into two Delta tables, one of them partitioned."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("delta").getOrCreate()

orders = (
    spark.readStream.schema("order_id long, ordered_at timestamp, country string, price double")
    .option("maxFilesPerTrigger", 2)
    .json("in/orders")
)
orders.writeStream.format("delta").partitionBy("country").option("checkpointLocation", "checkpoints/delta").start(
    "out/orders"
)
(
    orders.where("price > 50")
    .withColumn("price", F.round("price"))
    .writeStream.format("delta")
    .option("checkpointLocation", "checkpoints/large")
    .start("out/large")
)
spark.streams.awaitAnyTermination()
