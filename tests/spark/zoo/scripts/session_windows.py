"""Shopping sessions: orders of one customer with less than a minute between them."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("sessions").getOrCreate()
spark.sparkContext.setLogLevel("WARN")

orders = (
    spark.readStream.format("json")
    .schema("customer string, ordered_at timestamp, price double, quantity int")
    .option("maxFilesPerTrigger", "1")
    .load("in/orders")
)

sessions = (
    orders.withWatermark("ordered_at", "1 minute")
    .groupBy("customer", F.session_window("ordered_at", "30 seconds"))
    .agg(F.count("*").alias("orders"), F.round(F.sum(F.col("price") * F.col("quantity")), 2).alias("total"))
    .select("customer", "session_window.start", "session_window.end", "orders", "total")
)

sessions.writeStream.outputMode("append").option("checkpointLocation", "checkpoints/sessions").start(
    "out/sessions", format="json"
)
spark.streams.awaitAnyTermination()
