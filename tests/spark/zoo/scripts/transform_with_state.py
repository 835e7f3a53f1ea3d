"""Every customer's biggest order so far, with a timer: transformWithState on RocksDB."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import TimerValues

spark = (
    SparkSession.builder.appName("biggest-orders")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)


class Biggest(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.biggest = handle.getValueState("biggest", "order_id long, total double")

    def handleInputRows(
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        before = self.biggest.get()
        best = before
        for frame in rows:
            for order in frame.itertuples():
                total = round(order.price * order.quantity, 2)
                if best is None or (total, order.order_id) > (best[1], best[0]):
                    best = (order.order_id, total)
        if best != before:
            self.biggest.update(best)
            yield pd.DataFrame({"customer": [key[0]], "order_id": [best[0]], "total": [best[1]]})

    def close(self) -> None:
        pass


orders = (
    spark.readStream.schema("customer string, order_id long, price double, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
)
biggest = orders.groupBy("customer").transformWithStateInPandas(
    statefulProcessor=Biggest(),
    outputStructType="customer string, order_id long, total double",
    outputMode="Append",
    timeMode="None",
)
query = biggest.writeStream.format("parquet").option("checkpointLocation", "checkpoints/biggest").start("out/biggest")
query.awaitTermination()
