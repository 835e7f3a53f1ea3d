"""Each query started and waited for in a thread of its own, in a pool of its own."""

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("threads").config("spark.scheduler.mode", "FAIR").getOrCreate()


def run(kind: str) -> None:
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", kind)
    schema = {"orders": "order_id long, product string", "payments": "order_id long, method string"}[kind]
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(f"in/{kind}")
    query = frame.writeStream.option("checkpointLocation", f"checkpoints/{kind}").start(f"out/{kind}", queryName=kind)
    query.awaitTermination()


with ThreadPoolExecutor() as pool:
    for done in [pool.submit(run, kind) for kind in ("orders", "payments")]:
        done.result()
