"""Every way to write in batch waits on a standby, and leaves no trace before the grant."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from tests.spark.rehearsal_stage import contents
from tests.spark.rig import Rig
from understudy.protocol.messages import Ended, RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CALLS = {
    "save": "frame.write.format('json').save('made/save')",
    "saveAsTable": "frame.write.saveAsTable('saved')",
    "insertInto": "frame.write.insertInto('there')",
    "parquet": "frame.write.parquet('made/parquet')",
    "csv": "frame.write.csv('made/csv')",
    "json": "frame.write.json('made/json')",
    "orc": "frame.write.orc('made/orc')",
    "text": "frame.selectExpr('string(id)').write.text('made/text')",
    "xml": "frame.write.option('rowTag', 'r').xml('made/xml')",
    "jdbc": "frame.write.jdbc('jdbc:derby:made/derby;create=true', 'jdbc', properties={'driver': DERBY})",
    "append": "frame.writeTo('there').append()",
    "overwrite": "frame.writeTo('there').overwrite(F.lit(True))",
    "overwritePartitions": "frame.writeTo('there').overwritePartitions()",
    "create": "frame.writeTo('created').using('json').create()",
    "replace": "frame.writeTo('there').replace()",
    "createOrReplace": "frame.writeTo('there').createOrReplace()",
    "merge": "frame.mergeInto('there', F.expr('true')).whenMatched().delete().merge()",
    "foreach": "frame.foreach(touch)",
    "foreachPartition": "frame.foreachPartition(touch)",
    "rdd.foreach": "frame.rdd.foreach(touch)",
    "rdd.foreachPartition": "frame.rdd.foreachPartition(touch)",
    "saveAsTextFile": "frame.rdd.saveAsTextFile('made/saveAsTextFile')",
    "saveAsPickleFile": "frame.rdd.saveAsPickleFile('made/saveAsPickleFile')",
    "saveAsSequenceFile": "frame.rdd.map(tuple).keyBy(str).mapValues(str).saveAsSequenceFile('made/sequence')",
    "saveAsHadoopFile": "pairs.saveAsHadoopFile('made/hadoop', OLD + 'TextOutputFormat')",
    "saveAsNewAPIHadoopFile": "pairs.saveAsNewAPIHadoopFile('made/hadoop-new', NEW + 'TextOutputFormat')",
    "saveAsHadoopDataset": "pairs.saveAsHadoopDataset(into('made/dataset', 'mapred.output.format.class', OLD))",
    "saveAsNewAPIHadoopDataset": (
        "pairs.saveAsNewAPIHadoopDataset(into('made/dataset-new', 'mapreduce.job.outputformat.class', NEW))"
    ),
    "sql of a template": (
        "spark.sql(\"INSERT OVERWRITE DIRECTORY 'made/template' USING json SELECT * FROM {frame}\", frame=frame)"
    ),
    "ml": "Binarizer(inputCol='id').write().overwrite().save('model')",
    "ml in Python": "InPython().write().overwrite().save('model-in-python')",
    "mllib": "LinearRegressionModel(Vectors.dense([1.0]), 0.0).save(spark.sparkContext, 'made/mllib')",
    "dstream": "stream()",
    "sql": "spark.sql(\"INSERT OVERWRITE DIRECTORY 'made/sql' USING json SELECT 1 AS a\")",
    "catalog.createTable": "spark.catalog.createTable('made_table', schema=frame.schema, source='parquet')",
    "catalog.createExternalTable": "spark.catalog.createExternalTable('outside', here, 'parquet', frame.schema)",
    "catalog.createDatabase": "spark.catalog.createDatabase('base')",
    "catalog.dropDatabase": "spark.catalog.dropDatabase('none', ifExists=True)",
    "catalog.dropTable": "spark.catalog.dropTable('none', ifExists=True)",
    "catalog.dropView": "spark.catalog.dropView('none', ifExists=True)",
    "catalog.truncateTable": "spark.catalog.truncateTable('there')",
    "catalog.analyzeTable": "spark.catalog.analyzeTable('there')",
    "catalog.recoverPartitions": "spark.catalog.recoverPartitions('there')",
}
#: What Spark itself refuses once it may: there is no such table, or its source does not do that.
REFUSED_BY_SPARK = {
    *("insertInto", "append", "overwrite", "overwritePartitions", "replace", "createOrReplace", "merge"),
    *("catalog.recoverPartitions", "catalog.truncateTable", "catalog.analyzeTable"),
}

SCRIPT = f"""
import threading
from pathlib import Path
from pyspark.ml import Transformer
from pyspark.ml.feature import Binarizer
from pyspark.ml.util import DefaultParamsWritable
from pyspark.mllib.linalg import Vectors
from pyspark.mllib.regression import LinearRegressionModel
from pyspark.sql import SparkSession, functions as F
from pyspark.streaming import StreamingContext
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
here = str(Path.cwd())
OLD, NEW = "org.apache.hadoop.mapred.", "org.apache.hadoop.mapreduce.lib.output."
pairs = spark.sparkContext.parallelize([("a", "b")], 1)
def into(path, key, package):
    text = "org.apache.hadoop.io.Text"
    classes = {{"mapreduce.job.output.key.class": text, "mapreduce.job.output.value.class": text}}
    return {{key: package + "TextOutputFormat", "mapreduce.output.fileoutputformat.outputdir": path, **classes}}
class InPython(Transformer, DefaultParamsWritable):
    def _transform(self, frame):
        return frame
streams = StreamingContext(spark.sparkContext, 1)
streams.queueStream([spark.sparkContext.parallelize([1])]).foreachRDD(lambda _: Path("streamed").touch())
def stream():
    streams.start()
    while not Path("streamed").exists(): streams.awaitTerminationOrTimeout(0.1)
    streams.stop(stopSparkContext=False)
DERBY = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
frame = spark.range(3).coalesce(1)
def touch(_):
    Path(here, "touched").touch()
calls = {{{"".join(f"{name!r}: lambda: {call}, " for name, call in CALLS.items())}}}
def run(name):
    try:
        calls[name]()
        print(f"<done {{name}}>\\n", end="", flush=True)
    except Exception as error:
        print(f"<refused {{name}}> {{str(error).splitlines()[0]}}\\n", end="", flush=True)
threads = [threading.Thread(target=run, args=(name,)) for name in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all of them", flush=True)
"""


def test_every_writer_waits_and_writes_once_it_may(tmp_path: Path) -> None:
    for model in ("model", "model-in-python"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "of-yesterday").touch()
    with Rig(tmp_path, SCRIPT) as rig:
        for _ in CALLS:
            assert rig.wait_for(RehearsalReport).reason.endswith("not rehearsed")
        assert "<" not in rig.text()
        made = [
            path
            for path in contents(tmp_path)
            if Path(path).name in {"made", "touched", "spark-warehouse", "metastore_db", "streamed"}
        ]
        assert made == []
        assert [path.name for path in sorted(tmp_path.glob("model*/*"))] == ["of-yesterday", "of-yesterday"]
        rig.lead()
        rig.until(rig.output, "all of them")
        refused = {name for name in CALLS if f"<refused {name}>" in rig.text()}
        assert refused == REFUSED_BY_SPARK
        assert all(f"<done {name}>" in rig.text() for name in CALLS.keys() - refused)
        assert rig.wait_for(Ended).code == 0
    assert (tmp_path / "touched").exists()
    assert (tmp_path / "streamed").exists()
    assert not (tmp_path / "model" / "of-yesterday").exists()
    assert not (tmp_path / "model-in-python" / "of-yesterday").exists()


class Asked(BaseHTTPRequestHandler):
    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Not into the tests' output."""


AROUND_SPARK = """
import sys, urllib.request
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(3).createOrReplaceTempView("three")
total = spark.sql("SELECT sum(id) AS total FROM three").collect()[0].total
Path("total.txt").write_text(str(total))
urllib.request.urlopen(sys.argv[1]).close()
print("read", total, flush=True)
spark.range(3).write.parquet("made")
"""


def test_reading_and_what_spark_knows_nothing_of_run_on_a_standby(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Asked) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with Rig(tmp_path, AROUND_SPARK, f"http://127.0.0.1:{server.server_port}/hello") as rig:
            assert rig.wait_for(RehearsalReport).held.endswith("job.py:11")
            rig.until(rig.output, "read 3")
            assert Asked.paths == ["/hello"]
            assert (tmp_path / "total.txt").read_text() == "3"
            assert not (tmp_path / "made").exists()
        server.shutdown()
