"""Three queries of one session, each started with shuffle partitions of its own."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("three-queries").getOrCreate()
orders = (
    spark.readStream.schema("order_id long, ordered_at timestamp, country string, product string, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
)


def start(by: str, partitions: int) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    counted = orders.withWatermark("ordered_at", "1 minute").groupBy(F.window("ordered_at", "2 minutes"), by)
    (
        counted.agg(F.sum("quantity").alias("pieces"))
        .writeStream.queryName(f"by-{by}")
        .option("checkpointLocation", f"checkpoints/by_{by}")
        .start(path=f"out/by_{by}")
    )


start("country", 1)
start("product", 3)
spark.conf.set("spark.sql.shuffle.partitions", 7)
raw = orders.writeStream.queryName("raw").format("orc").option("checkpointLocation", "checkpoints/raw").start("out/raw")
spark.streams.awaitAnyTermination()
