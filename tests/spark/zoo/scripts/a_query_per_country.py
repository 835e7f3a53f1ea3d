"""Queries by configuration: one for each country of a list, in a loop, and a thread that looks after them."""

import threading
import time

from pyspark.sql import SparkSession

COUNTRIES = ["CZ", "JP", "PE"]

spark = SparkSession.builder.appName("per-country").getOrCreate()
orders = spark.readStream.schema("order_id long, country string, product string").json("in/orders")

queries = {}
for country in COUNTRIES:
    queries[country] = (
        orders.where(f"country = '{country}'")
        .writeStream.queryName(f"orders-{country}")
        .option("checkpointLocation", f"checkpoints/{country}")
        .format("json")
        .start(f"out/{country}")
    )


def watch() -> None:
    while True:
        for query in spark.streams.active:
            progress = query.lastProgress
            if progress is not None:
                print(query.name, progress["batchId"], progress["numInputRows"], flush=True)
        time.sleep(5)


threading.Thread(target=watch, daemon=True).start()
spark.streams.awaitAnyTermination()
