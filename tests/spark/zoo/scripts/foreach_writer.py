"""A ForeachWriter object: one file per partition and epoch, so that writing again changes nothing."""

import json
import os

from pyspark.sql import Row, SparkSession

spark = SparkSession.builder.appName("foreach-writer").getOrCreate()
os.makedirs("out/parts", exist_ok=True)
TARGET = os.path.abspath("out/parts")


class Writer:
    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.path = f"{TARGET}/{epoch_id:06d}-{partition_id:03d}.json"
        self.partial = open(self.path + ".partial", "w")
        return True

    def process(self, row: Row) -> None:
        self.partial.write(json.dumps(row.asDict()) + "\n")

    def close(self, error: Exception | None) -> None:
        self.partial.close()
        if error is None:
            os.replace(self.path + ".partial", self.path)


orders = spark.readStream.schema("order_id long, product string").option("maxFilesPerTrigger", 1).json("in/orders")
query = orders.writeStream.foreach(Writer()).option("checkpointLocation", "checkpoints/parts").start()
query.awaitTermination()
