"""A listener that keeps a file of progress, and a query it listens to."""

import json

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

spark = SparkSession.builder.appName("listener").getOrCreate()


class Progress(StreamingQueryListener):
    def write(self, **facts: object) -> None:
        with open("out/progress.jsonl", "a") as file:
            file.write(json.dumps(facts) + "\n")

    def onQueryStarted(self, event) -> None:
        self.write(started=event.name)

    def onQueryProgress(self, event) -> None:
        if event.progress.numInputRows:
            self.write(batch=event.progress.batchId, rows=event.progress.numInputRows)

    def onQueryIdle(self, event) -> None:
        pass

    def onQueryTerminated(self, event) -> None:
        self.write(terminated=str(event.id))


spark.streams.addListener(Progress())
orders = spark.readStream.schema("order_id long, customer string").option("maxFilesPerTrigger", 1).json("in/orders")
query = (
    orders.writeStream.queryName("listened-to")
    .option("checkpointLocation", "checkpoints/listened")
    .start("out/listened")
)
query.awaitTermination()
