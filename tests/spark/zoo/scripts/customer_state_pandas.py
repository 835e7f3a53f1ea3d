"""A running total per customer, with arbitrary state in pandas."""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

spark = SparkSession.builder.appName("customer-totals").config("spark.sql.shuffle.partitions", "2").getOrCreate()


def add_up(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    orders, total = state.get if state.exists else (0, 0.0)
    for frame in frames:
        orders += len(frame)
        total = round(total + float((frame["price"] * frame["quantity"]).sum()), 2)
    state.update((orders, total))
    yield pd.DataFrame({"customer": [key[0]], "orders": [orders], "total": [total]})


(
    spark.readStream.schema("customer string, price double, quantity int")
    .option("maxFilesPerTrigger", 1)
    .json("in/orders")
    .groupBy("customer")
    .applyInPandasWithState(
        add_up,
        outputStructType="customer string, orders long, total double",
        stateStructType="orders long, total double",
        outputMode="append",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )
    .writeStream.format("json")
    .outputMode("append")
    .option("path", "out/totals")
    .option("checkpointLocation", "checkpoints/totals")
    .start()
    .awaitTermination()
)
