"""Python and pandas UDFs, of a module beside this script."""

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, pandas_udf, udf
from udfs_pricing import gross, label  # beside this script

spark = SparkSession.builder.appName("udfs").getOrCreate()

to_label = udf(label, "string")


@pandas_udf("double")
def to_gross(price: pd.Series, country: pd.Series) -> pd.Series:
    return pd.Series([gross(net, where) for net, where in zip(price, country)])


spark.udf.register("shout", lambda text: text.upper(), "string")

orders = spark.readStream.schema("order_id long, country string, product string, price double").json("in/orders")
priced = orders.select(
    "order_id",
    to_label("product", "country").alias("label"),
    to_gross(col("price"), col("country")).alias("gross"),
).selectExpr("order_id", "shout(label) AS label", "gross")
priced.writeStream.format("parquet").option("checkpointLocation", "checkpoints/priced").start(
    "out/priced"
).awaitTermination()
