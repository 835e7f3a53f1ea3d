"""A small report of everything so far, overwritten after every batch: complete mode."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import count

spark = SparkSession.builder.appName("report").config("spark.sql.shuffle.partitions", "1").getOrCreate()
by_customer = (
    spark.readStream.schema("customer string")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
    .groupBy("customer")
    .agg(count("*").alias("orders"))
)
query = (
    by_customer.writeStream.outputMode("complete")
    .foreachBatch(lambda report, number: report.write.mode("overwrite").csv("out/report"))
    .option("checkpointLocation", "checkpoints/report")
    .start()
)
query.awaitTermination()
