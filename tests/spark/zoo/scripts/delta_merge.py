"""The newest order of every customer, merged into a Delta table that is made if it is missing."""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("newest").getOrCreate()
SCHEMA = "order_id long, ordered_at timestamp, customer string, price double"

newest = (
    DeltaTable.createIfNotExists(spark)
    .location(str(Path("out/newest").absolute()))
    .addColumn("order_id", "LONG")
    .addColumn("ordered_at", "TIMESTAMP")
    .addColumn("customer", "STRING")
    .addColumn("price", "DOUBLE")
    .execute()
)


def merge(batch: DataFrame, _: int) -> None:
    last = Window.partitionBy("customer").orderBy(F.desc("order_id"))
    found = batch.withColumn("n", F.row_number().over(last)).where("n = 1").drop("n")
    (
        newest.alias("t")
        .merge(found.alias("s"), "t.customer = s.customer")
        .whenMatchedUpdateAll("s.order_id >= t.order_id")
        .whenNotMatchedInsertAll()
        .execute()
    )


orders = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).json("in/orders")
query = orders.writeStream.foreachBatch(merge).option("checkpointLocation", "checkpoints/newest").start()
query.awaitTermination()
