"""Looks at its query now and then instead of waiting for it, and ends when a file says so."""

import logging
import os
import time

from pyspark.sql import SparkSession

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("polling")

spark = SparkSession.builder.appName("polling").getOrCreate()
orders = spark.readStream.schema("order_id long, customer string").option("maxFilesPerTrigger", 1).json("in/orders")
q = orders.writeStream.format("json").option("checkpointLocation", "checkpoints/polling").start("out/polling")
log.info("started %s %s", q.id, q.name)

rows = 0
while q.isActive:
    progress = q.lastProgress
    if progress:
        log.info("batch %s: %s rows, %s", progress["batchId"], progress["numInputRows"], q.status["message"])
    if os.path.exists("in/stop"):
        q.processAllAvailable()
        q.stop()
    time.sleep(0.5)
if q.exception() is not None:
    raise q.exception()
