"""Mostly SQL: views over a stream, a table that is there already, and an insert before the stream starts."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("sql-only").config("spark.sql.shuffle.partitions", "2").getOrCreate()

spark.sql("CREATE TABLE IF NOT EXISTS runs (at TIMESTAMP) USING json LOCATION 'out/runs'")
spark.sql("INSERT INTO runs SELECT current_timestamp()")

spark.readStream.schema("order_id long, ordered_at timestamp, country string, price double").option(
    "maxFilesPerTrigger", 1
).json("in/orders").withWatermark("ordered_at", "1 minute").createOrReplaceTempView("orders")

spark.sql("""
    CREATE OR REPLACE TEMPORARY VIEW expensive AS
    SELECT window(ordered_at, '2 minutes').start AS since, country, max(price) AS dearest
    FROM orders
    GROUP BY window(ordered_at, '2 minutes'), country
""")
spark.table("expensive").writeStream.option("checkpointLocation", "checkpoints/expensive").start("out/expensive")
spark.streams.awaitAnyTermination()
