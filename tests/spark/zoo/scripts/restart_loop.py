"""Starts its query again whatever happens to it: the file it needs comes late, and a batch fails now and then."""

import os
import time

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.appName("restart-loop").getOrCreate()
spark.conf.set("spark.sql.streaming.stopTimeout", "10s")
orders = spark.readStream.schema("order_id long, product string").option("maxFilesPerTrigger", 1).json("in/orders")


def flaky(batch: DataFrame, number: int) -> None:
    if number % 7 == 3 and not os.path.exists(f"out/tried-{number}"):
        open(f"out/tried-{number}", "w").close()
        raise RuntimeError(f"batch {number} fails the first time")
    batch.write.mode("overwrite").json(f"out/batches/{number}")


while True:
    try:
        query = (
            orders.writeStream.foreachBatch(flaky)
            .queryName("flaky")
            .option("checkpointLocation", "checkpoints/flaky")
            .start()
        )
        query.awaitTermination()
        break
    except Exception as error:
        print("starting again:", str(error).splitlines()[0], flush=True)
        time.sleep(0.5)
