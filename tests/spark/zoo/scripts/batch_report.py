"""A batch job: a report of all orders, written once."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("report").getOrCreate()
orders = spark.read.json("in/orders").dropDuplicates(["order_id"])
orders.createOrReplaceTempView("orders")
report = spark.sql("SELECT country, product, count(*) AS orders, sum(quantity) AS pieces FROM orders GROUP BY ALL")
report.coalesce(1).write.mode("overwrite").partitionBy("country").parquet("out/report")
print(report.count(), "rows")
spark.stop()
