"""Totals per product in a database, in update mode: each batch replaces the rows of its products."""

import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("upsert").config("spark.sql.shuffle.partitions", 2).getOrCreate()


def upsert(batch: DataFrame, _: int) -> None:
    batch.persist()
    rows = [(row.product, row.orders, row.pieces) for row in batch.toLocalIterator()]
    with closing(sqlite3.connect("out/products.db", timeout=60)) as database, database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS products (product TEXT PRIMARY KEY, orders INTEGER, pieces INTEGER)"
        )
        database.executemany(
            "INSERT INTO products VALUES (?, ?, ?) "
            "ON CONFLICT (product) DO UPDATE SET orders = excluded.orders, pieces = excluded.pieces",
            rows,
        )
    batch.unpersist()


totals = (
    spark.readStream.schema("product string, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
    .groupBy("product")
    .agg(F.count("*").alias("orders"), F.sum("quantity").alias("pieces"))
)
query = (
    totals.writeStream.outputMode("update")
    .foreachBatch(upsert)
    .option("checkpointLocation", "checkpoints/upsert")
    .start()
)
query.awaitTermination()
