"""Every way to write in batch waits on a standby, and leaves no trace before the grant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.rehearsal_stage import contents
from tests.spark.rig import Rig
from understudy.messages import Ended, Standing

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
    "sql": "spark.sql(\"INSERT OVERWRITE DIRECTORY 'made/sql' USING json SELECT 1 AS a\")",
    "catalog.createTable": "spark.catalog.createTable('made_table', schema=frame.schema, source='parquet')",
    "catalog.recoverPartitions": "spark.catalog.recoverPartitions('there')",
}
#: What Spark itself refuses once it may: there is no such table, or its source does not do that.
REFUSED_BY_SPARK = {
    *("insertInto", "append", "overwrite", "overwritePartitions", "replace", "createOrReplace", "merge"),
    "catalog.recoverPartitions",
}

SCRIPT = f"""
import threading
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
here = str(Path.cwd())
DERBY = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
frame = spark.range(3).coalesce(1)
def touch(_):
    Path(here, "touched").touch()
calls = {{{"".join(f"{name!r}: lambda: {call}, " for name, call in CALLS.items())}}}
def run(name):
    try:
        calls[name]()
        print("<done", name + ">", flush=True)
    except Exception as error:
        print("<refused", name + ">", str(error).splitlines()[0], flush=True)
threads = [threading.Thread(target=run, args=(name,)) for name in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all of them", flush=True)
"""


def test_every_writer_waits_and_writes_once_it_may(tmp_path: Path) -> None:
    with Rig(tmp_path, SCRIPT) as rig:
        for _ in CALLS:
            assert rig.wait_for(Standing).reason.endswith("not rehearsed")
        assert "<" not in rig.text()
        made = [
            path
            for path in contents(tmp_path)
            if Path(path).name in {"made", "touched", "spark-warehouse", "metastore_db"}
        ]
        assert made == []
        rig.lead()
        rig.until(rig.output, "all of them")
        refused = {name for name in CALLS if f"<refused {name}>" in rig.text()}
        assert refused == REFUSED_BY_SPARK
        assert all(f"<done {name}>" in rig.text() for name in CALLS.keys() - refused)
        assert rig.wait_for(Ended).code == 0
    assert (tmp_path / "touched").exists()
