"""A listener that looks at all running queries whenever one starts."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

spark = SparkSession.builder.appName("listener-asks").getOrCreate()


class Counts(StreamingQueryListener):
    def onQueryStarted(self, event):
        print("started", event.name, "of", [query.name for query in spark.streams.active])

    def onQueryProgress(self, event):
        pass

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        print("ended", event.id)


spark.streams.addListener(Counts())
(
    spark.readStream.schema("order_id long, ordered_at timestamp, country string, product string, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
    .writeStream.queryName("asked for")
    .format("parquet")
    .option("checkpointLocation", "checkpoints/asked")
    .start("out/asked")
    .awaitTermination()
)
