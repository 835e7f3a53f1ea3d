"""Queries started one after the other; each one's name and id are written down before the next begins."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("ids-between").getOrCreate()
orders = (
    spark.readStream.schema("order_id long, ordered_at timestamp, country string, product string, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
)
for country in ("CZ", "JP", "PE"):
    query = (
        orders.where(orders.country == country)
        .writeStream.queryName(f"orders of {country}")
        .format("parquet")
        .option("checkpointLocation", f"checkpoints/id_{country}")
        .start(f"out/id_{country}")
    )
    print("started", query.name, query.id)
query.awaitTermination()
