"""A batch job that adds what there is to a table of files: what is done again is there again."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("add-orders").getOrCreate()
orders = spark.read.json("in/orders").dropDuplicates(["order_id"])
orders.withColumn("worth", F.round(F.col("quantity") * F.col("price"), 2)).coalesce(1).write.mode("append").parquet(
    "out/added"
)
spark.stop()
