"""Each batch, looked up in a broadcast variable and counted in an accumulator, into a database in one transaction."""

import sqlite3

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.appName("broadcast").getOrCreate()
names = spark.sparkContext.broadcast({"CZ": "Czechia", "DE": "Germany", "FR": "France", "JP": "Japan"})
unknown = spark.sparkContext.accumulator(0)


@udf("string")
def country_name(code: str) -> str:
    if code not in names.value:
        unknown.add(1)
    return names.value.get(code, "elsewhere")


def store(batch: DataFrame, batch_id: int) -> None:
    rows = batch.withColumn("country", country_name("country")).groupBy("country").count().collect()
    with sqlite3.connect("out/countries.db", timeout=60) as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS countries (batch INTEGER, country TEXT, orders INTEGER, UNIQUE (batch, country))"
        )
        database.execute("DELETE FROM countries WHERE batch = ?", (batch_id,))
        database.executemany(
            "INSERT INTO countries VALUES (?, ?, ?)", [(batch_id, row.country, row["count"]) for row in rows]
        )
    print(f"batch {batch_id}: {unknown.value} orders from elsewhere so far", flush=True)


orders = spark.readStream.schema("order_id long, country string").option("maxFilesPerTrigger", 1).json("in/orders")
query = orders.writeStream.foreachBatch(store).option("checkpointLocation", "checkpoints/countries").start()
query.awaitTermination()
