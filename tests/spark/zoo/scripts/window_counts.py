"""Orders per country and five minutes."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--trigger", default="200 milliseconds")


def main() -> None:
    args = parser.parse_args()
    spark = SparkSession.builder.appName("window-counts").getOrCreate()
    orders = (
        spark.readStream.schema("order_id long, ordered_at timestamp, country string, quantity int")
        .option("maxFilesPerTrigger", 1)
        .json(args.input)
    )
    counts = (
        orders.withWatermark("ordered_at", "2 minutes")
        .groupBy(F.window("ordered_at", "5 minutes"), "country")
        .agg(F.count("*").alias("orders"), F.sum("quantity").alias("pieces"))
    )
    query = (
        counts.writeStream.format("parquet")
        .option("path", f"{args.output}/counts")
        .option("checkpointLocation", f"{args.output}/checkpoint")
        .trigger(processingTime=args.trigger)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
