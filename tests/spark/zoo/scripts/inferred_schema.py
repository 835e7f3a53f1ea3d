"""Takes the schema from the files that are there, and streams the same directory: the way most introductions show."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("inferred-schema").getOrCreate()
known = spark.read.json("in/orders")
orders = spark.readStream.schema(known.schema).option("maxFilesPerTrigger", 1).json("in/orders")
(
    orders.withColumn("ordered_at", F.to_timestamp("ordered_at"))
    .writeStream.queryName("typed")
    .format("parquet")
    .option("checkpointLocation", "checkpoints/typed")
    .start("out/typed")
    .awaitTermination()
)
