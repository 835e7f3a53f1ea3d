"""Into a database with Spark's own JDBC writer; the table is there before the first batch, as a migration would leave it."""

import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

with closing(sqlite3.connect("out/shop.db", timeout=60)) as database, database:
    database.execute("CREATE TABLE IF NOT EXISTS payments (order_id INTEGER, method TEXT, batch INTEGER)")

spark = SparkSession.builder.appName("jdbc").getOrCreate()
TABLE = {"url": "jdbc:sqlite:out/shop.db?busy_timeout=60000", "dbtable": "payments", "driver": "org.sqlite.JDBC"}


def store(batch: DataFrame, number: int) -> None:
    rows = batch.withColumn("batch", lit(number)).coalesce(1)
    rows.write.format("jdbc").options(**TABLE).mode("append").save()


payments = (
    spark.readStream.schema("order_id long, method string").option("maxFilesPerTrigger", 1).json("in/payments")
)
payments.writeStream.foreachBatch(store).option("checkpointLocation", "checkpoints/jdbc").start().awaitTermination()
