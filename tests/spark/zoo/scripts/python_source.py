"""A streaming source of one's own, in Python: it counts the orders' files by itself."""

import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, InputPartition, SimpleDataSourceStreamReader


class OrdersReader(SimpleDataSourceStreamReader):
    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def initialOffset(self) -> dict:
        return {"files": 0}

    def _rows(self, start: int, end: int):
        rows = []  # no generator: Spark copies the iterator
        for path in sorted(self.directory.glob("orders-*.json"))[start:end]:
            for line in path.read_text().splitlines():
                order = json.loads(line)
                rows.append((order["order_id"], order["product"]))
        return iter(rows)

    def read(self, start: dict):
        there = len(list(self.directory.glob("orders-*.json")))
        end = min(there, start["files"] + 1)
        return self._rows(start["files"], end), {"files": end}

    def readBetweenOffsets(self, start: dict, end: dict):
        return self._rows(start["files"], end["files"])


class Orders(DataSource):
    @classmethod
    def name(cls) -> str:
        return "orders"

    def schema(self) -> str:
        return "order_id long, product string"

    def simpleStreamReader(self, schema) -> OrdersReader:
        return OrdersReader(self.options["directory"])


spark = SparkSession.builder.appName("python-source").getOrCreate()
spark.dataSource.register(Orders)
orders = spark.readStream.format("orders").option("directory", str(Path("in/orders").absolute())).load()
orders.writeStream.format("json").option("checkpointLocation", "checkpoints/own").start("out/own").awaitTermination()
