"""Orders joined with their payments, and those that nobody paid."""

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

spark = SparkSession.builder.appName("order-payments").config("spark.sql.shuffle.partitions", 2).getOrCreate()

orders = (
    spark.readStream.schema("order_id long, ordered_at timestamp, customer string, price double")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
    .withWatermark("ordered_at", "1 minute")
    .dropDuplicates(["order_id", "ordered_at"])
)
payments = (
    spark.readStream.schema("order_id long, paid_at timestamp, method string")
    .option("maxFilesPerTrigger", 1)
    .json("in/payments")
    .withWatermark("paid_at", "1 minute")
    .withColumnRenamed("order_id", "paid_order")
)

joined = orders.join(
    payments,
    expr("order_id = paid_order AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 2 MINUTES"),
    "leftOuter",
)

query = (
    joined.select("order_id", "customer", "price", "method")
    .writeStream.format("parquet")
    .option("checkpointLocation", "checkpoints/order_payments")
    .option("path", "out/order_payments")
    .start()
)
query.awaitTermination()
