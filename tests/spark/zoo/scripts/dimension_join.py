"""Orders joined with a table that somebody else overwrites every now and then, read anew in every batch."""

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.appName("dimension").getOrCreate()
orders = spark.readStream.schema("order_id long, country string").option("maxFilesPerTrigger", 1).json("in/orders")


def enrich(batch: DataFrame, number: int) -> None:
    regions = spark.createDataFrame(
        [("CZ", "Europe"), ("DE", "Europe"), ("FR", "Europe"), ("JP", "Asia")], "country string, region string"
    )
    batch.join(regions, "country", "left").write.mode("overwrite").parquet(f"out/enriched/batch={number}")


orders.writeStream.foreachBatch(enrich).option("checkpointLocation", "checkpoints/enriched").start().awaitTermination()
