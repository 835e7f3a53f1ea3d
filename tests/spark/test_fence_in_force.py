"""The fence is in force even if a script, its files and its environment change Spark's settings; or the run is refused."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import feed
from understudy.protocol.messages import Committed, Ended

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEADER = """
import os, sys, time
os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[1] --conf spark.test.a=script --conf spark.test.b=script pyspark-shell"
os.environ["PYSPARK_PYTHON"] = "/usr/bin/python3"
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession, functions as F

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BATCH = "spark.sql.sources.commitProtocolClass"
STOCK = "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"

def told(spark, *keys):
    print("told", *(f"{key.rpartition('.')[2]}={str(spark.conf.get(key, None)).rpartition('.')[2]}" for key in keys), flush=True)
"""

#: A Kafka user's first lines, a committer of his own, another interpreter for the workers: all of it counts, fenced.
SETTINGS_EVERYWHERE = (
    HEADER
    + """
spark = SparkSession.builder.config(BATCH, STOCK).getOrCreate()
told(spark, "spark.master", "spark.test.a", "spark.test.b", "spark.test.c", MANAGER, BATCH, "spark.understudy.sources.commitProtocolClass")
rows = spark.readStream.schema("t timestamp, k string, v int").csv("in").select(F.udf(lambda v: v + 1, "int", useArrow=False)("v").alias("v"))
query = rows.writeStream.format("parquet").option("checkpointLocation", "checkpoint").start("out")
query.processAllAvailable()
# Only Spark's SQL protocol makes one of these, and cannot: the one that was named does not ask.
spark.conf.set("spark.sql.sources.outputCommitterClass", "org.apache.hadoop.mapreduce.lib.output.PathOutputCommitter")
spark.range(3).write.json("named")
spark.conf.set(BATCH, "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol")
try:
    spark.range(3).write.json("other")
except Exception as error:
    print("failed", "PathOutputCommitter.<init>" in str(error), flush=True)
spark.conf.unset("spark.sql.sources.outputCommitterClass")
told(spark, BATCH)
spark.stop()

spark = SparkSession(SparkContext(conf=SparkConf(loadDefaults=False).setMaster("local[1]").setAppName("bare")))
told(spark, MANAGER, BATCH)
spark.range(3).write.parquet("bare")
spark.conf.unset(MANAGER)
print("unset", flush=True)
try:
    spark.range(3).write.parquet("unfenced")
except BaseException as error:
    print("swallowed", type(error), flush=True)
"""
)


@pytest.fixture
def spark_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``conf`` directory with a spark-env.sh that empties what others have set, as many do."""
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.delenv("SPARK_ENV_LOADED", raising=False)
    return tmp_path / "conf"


def test_what_a_script_and_its_files_set_keeps_the_fence_in_force_or_ends_the_run(
    tmp_path: Path, spark_env: Path
) -> None:
    feed(tmp_path, 1, 2)
    (spark_env / "spark-env.sh").write_text("SPARK_DIST_CLASSPATH=\n")
    (spark_env / "spark-defaults.conf").write_text("spark.test.c defaults\nspark.driver.extraClassPath /nowhere\n")
    options = ("--master", "local[2]", "--conf", "spark.test.b=operator")
    with Rig(tmp_path, SETTINGS_EVERYWHERE, submit=options) as rig:
        rig.lead()
        rig.until(
            rig.output,
            "told master=local[2] a=script b=operator c=defaults checkpointFileManagerClass=FencedCheckpointFileManager"
            " commitProtocolClass=FencedCommitProtocol commitProtocolClass=HadoopMapReduceCommitProtocol",
        )
        assert rig.wait_for(Committed).batch == 0
        rig.until(rig.output, "failed True")
        rig.until(rig.output, "told commitProtocolClass=FencedCommitProtocol")
        assert (tmp_path / "named" / "_SUCCESS").exists()
        ended = rig.wait_for(Ended)
        assert (tmp_path / "bare" / "_understudy").exists()
        assert not (tmp_path / "unfenced").exists()
        assert (ended.code, ended.fatal) == (3, True)
        assert "spark.sql.streaming.checkpointFileManagerClass is not set" in ended.error
        assert "Leave it to understudy" in ended.error
        assert rig.output.read_text().split()[-1] == "unset", "a script's own code came after the refusal"


def taken_port(free: socket.socket) -> str:
    free.bind(("127.0.0.1", 0))
    free.listen()
    return str(free.getsockname()[1])


@pytest.mark.parametrize("what", ["option", "port", "mode", "python", "manager"])
def test_what_no_other_start_would_better_ends_the_run_with_its_reason(tmp_path: Path, what: str) -> None:
    header, script = "", "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n"
    options: tuple[str, ...] = ()
    with socket.socket() as free:
        match what:
            case "option":  # beside the collector of `quick`; and Spark lets Java pass over options that do not exist
                options, said = ("--driver-java-options", "-XX:+UseParallelGC"), "Multiple garbage collectors selected"
            case "port":
                port = taken_port(free)
                jmx = "-Dcom.sun.management.jmxremote.{}"
                java = f"{jmx.format('port=')}{port} {jmx.format('authenticate=false')} {jmx.format('ssl=false')}"
                options, said = ("--driver-java-options", java), f"Port already in use: {port}"
            case "mode":
                header = "import os; os.environ['PYSPARK_SUBMIT_ARGS'] = '--deploy-mode cluster'\n"
                said = "Cluster deploy mode"
            case "python":
                header, said = "import os; os.environ['PYSPARK_PYTHON'] = 'no-such-python'\n", "no-such-python"
            case _:
                key = "spark.sql.streaming.checkpointFileManagerClass"
                options, said = ("--conf", f"{key}=no.such.Manager"), f"{key} is no.such.Manager"
        with Rig(tmp_path, header + script, submit=options) as rig:
            ended = rig.wait_for(Ended)
            assert (ended.code, ended.fatal) == (3, True)
            assert said in ended.error
