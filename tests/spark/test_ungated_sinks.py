"""Which of a script's queries keep their driver from being parked, in a real Spark; and a session that a thread has made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from understudy.protocol.messages import Ended, RehearsalReport

pytestmark = pytest.mark.spark

#: Every sink's task says that it runs, and goes on when it is told to.
SCRIPT = """
import threading, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

made = []
starter = threading.Thread(target=lambda: made.append(SparkSession.builder.getOrCreate()))
starter.start()
starter.join()
spark = made[0].newSession()  # the active session of this thread, which Spark looks for Python's sources in
here = Path.cwd()

def task(name):
    (here / f"in-{name}").touch()
    while not (here / f"out-{name}").exists():
        time.sleep(0.02)

class Writer(DataSourceStreamWriter):
    def write(self, rows):
        task("source")
        return WriterCommitMessage()

class Source(DataSource):
    @classmethod
    def name(cls):
        return "slow"
    def streamWriter(self, schema, overwrite):
        return Writer()

spark.dataSource.register(Source)

@F.udf("int")
def slow(value):
    task("files")
    return value

def each(row):
    task("each")

rows = spark.readStream.schema("v int").csv("in")
for write in (
    rows.writeStream.queryName("source").format("slow"),
    rows.writeStream.queryName("each").foreach(each),
    rows.select(slow("v")).writeStream.queryName("files").format("parquet").option("path", "out"),
):
    query = write.start()
    query.processAllAvailable()
    query.stop()
    print("done", query.name, flush=True)
"""


def test_a_batch_that_tasks_write_past_every_gate_counts_as_the_users_code_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1\n")
    with Rig(tmp_path, SCRIPT, rehearse="off") as rig:
        assert rig.wait_for(RehearsalReport).held
        rig.lead()  # so the first query is started by the takeover, the others by the script
        for name, counts in (("source", 1), ("each", 1), ("files", 0)):
            rig.until(tmp_path / f"in-{name}", "")
            assert (name, rig.activity.running) == (name, counts)
            (tmp_path / f"out-{name}").touch()
            rig.until(rig.output, f"done {name}")
            give_up = time.monotonic() + 30
            while rig.activity.running:
                assert time.monotonic() < give_up
        assert rig.wait_for(Ended).code == 0
