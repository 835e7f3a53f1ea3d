"""One of several queries dies, and the script goes on: who asks for status hears which, and of what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.rig import Rig
from understudy.protocol.messages import Running

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
def breaks(batch, number):
    raise ValueError("no such airport, password=hunter2hunter2")
lines = spark.readStream.text("in")
lines.writeStream.queryName("lasts").option("checkpointLocation", "lasts").format("parquet").start("out")
lines.writeStream.queryName("breaks").option("checkpointLocation", "breaks").foreachBatch(breaks).start()
time.sleep(600)
"""


def test_a_query_that_died_while_another_one_runs_is_named_with_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a\n")
    with Rig(tmp_path, SCRIPT) as rig:
        rig.lead()
        while not (said := rig.wait_for(Running)).failed:
            pass
        assert said.queries == 1
        (name,) = said.failed
        assert "breaks" in name
        assert "ValueError: no such airport" in said.failed[name] or "FOREACH_BATCH" in said.failed[name]
        assert "hunter2" not in said.failed[name]
