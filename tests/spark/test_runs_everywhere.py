"""The lines of ``docs/what-runs-where.md`` that every replica executes and no other test has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from understudy.protocol.messages import Ended, RehearsalReport

pytestmark = pytest.mark.spark

HEADER = """
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
"""


def test_accumulators_count_what_the_job_does_and_nothing_that_was_rehearsed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1\n" * 50)
    script = HEADER + (
        "seen = spark.sparkContext.accumulator(100)\n"
        "seen += 10\n"
        "@F.udf('int')\n"
        "def noted(v):\n"
        "    seen.add(1)\n"
        "    return v\n"
        "spark.range(3).select(noted(F.col('id').cast('int'))).collect()\n"
        "print('a batch', seen.value, flush=True)\n"
        "rows = spark.readStream.schema('v int').csv('in').select(noted('v'))\n"
        "query = rows.writeStream.queryName('kept').format('noop').start()\n"
        "query.processAllAvailable()\n"
        "print('in all', seen.value, flush=True)\n"
    )
    with Rig(tmp_path, script, rehearse="live", rounds=2) as rig:
        rig.until(rig.output, "a batch 113")
        while rig.wait_for(RehearsalReport).rounds < 2:
            pass
        rig.lead()
        rig.until(rig.output, "in all 163")


def test_functions_of_an_action_run_and_a_checkpoint_of_a_frame_leaves_a_directory(tmp_path: Path) -> None:
    script = HEADER + (
        "def written(value):\n"
        "    Path(f'trace-{value}').touch()\n"
        "    return value\n"
        "print('counted', spark.sparkContext.parallelize([1, 2]).map(written).count(), flush=True)\n"
        "spark.sparkContext.setCheckpointDir('kept')\n"
        "print('rows', spark.range(4).checkpoint().count(), flush=True)\n"
        "spark.range(1).write.parquet('out')\n"
    )
    with Rig(tmp_path, script) as rig:
        assert rig.wait_for(RehearsalReport).held == "job.py:12"
        assert "counted 2" in rig.text()
        assert "rows 4" in rig.text()
        assert {path.name for path in tmp_path.glob("trace-*")} == {"trace-1", "trace-2"}
        assert len(list((tmp_path / "kept").iterdir())) == 1


def test_what_is_written_past_pyspark_is_not_held_and_is_stopped_by_the_fence(tmp_path: Path) -> None:
    script = HEADER + (
        "print('writes', flush=True)\nspark.range(3)._jdf.write().parquet('past')\nprint('written', flush=True)\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.until(rig.output, "writes")
        time.sleep(3)  # it does not say that it waits: it is held by the fence, which knows no lines of scripts
        assert "written" not in rig.text()
        assert not list((tmp_path / "past").glob("*.parquet"))
        rig.lead()
        assert rig.wait_for(Ended).code == 0
        assert "written" in rig.text()
