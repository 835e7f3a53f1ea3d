"""Into a table of the catalog, whose files are kept elsewhere."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

spark = SparkSession.builder.appName("to-table").getOrCreate()
spark.sql("CREATE DATABASE IF NOT EXISTS shop")
spark.sql("USE shop")

big = (
    spark.readStream.schema("order_id long, product string, quantity int").json("in/orders").where(col("quantity") > 5)
)
query = (
    big.writeStream.option("checkpointLocation", "checkpoints/big_orders")
    .option("path", str(Path("out/big_orders").absolute()))
    .toTable("big_orders", format="parquet", outputMode="append", queryName="big-orders")
)
query.awaitTermination()
