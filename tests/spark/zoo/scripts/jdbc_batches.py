"""Into a database with Spark's own JDBC writer, one table for what comes and one for which batch it was."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

spark = SparkSession.builder.appName("jdbc").getOrCreate()
URL = "jdbc:sqlite:out/shop.db?busy_timeout=60000"


def store(batch: DataFrame, number: int) -> None:
    batch.withColumn("batch", lit(number)).coalesce(1).write.jdbc(
        URL, "payments", mode="append", properties={"driver": "org.sqlite.JDBC"}
    )


payments = (
    spark.readStream.schema("order_id long, method string").option("maxFilesPerTrigger", 1).json("in/payments")
)
payments.writeStream.foreachBatch(store).option("checkpointLocation", "checkpoints/jdbc").start().awaitTermination()
