"""Takes in all there is, says how much that was, and ends with an exit code."""

import sys

from pyspark.sql import SparkSession


def main() -> int:
    spark = SparkSession.builder.appName("until-done").getOrCreate()
    orders = spark.readStream.schema("order_id long, price double").option("maxFilesPerTrigger", 3).json("in/orders")
    query = orders.writeStream.option("checkpointLocation", "checkpoints/until_done").start("out/until_done")
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    print(sum(progress["numInputRows"] for progress in query.recentProgress), "rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
