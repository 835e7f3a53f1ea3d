"""A checkpoint of plain Spark runs under understudy, and back: every row once, and the state goes on counting."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark import quick
from tests.spark.rig import Rig
from understudy.environment import find_java
from understudy.protocol.messages import Ended

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spark43, pytest.mark.long]

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.readStream.schema("id LONG").json("in")
copied = rows.coalesce(1).writeStream.format("json").option("checkpointLocation", "copied-checkpoint")
copied.trigger(availableNow=True).start("copied").awaitTermination()
def counted(frame, number):
    frame.coalesce(1).write.mode("overwrite").json("counted")
state = rows.groupBy("id").count().writeStream.outputMode("complete").foreachBatch(counted)
state.option("checkpointLocation", "state-checkpoint").trigger(availableNow=True).start().awaitTermination()
"""


def ids(home: Path) -> list[int]:
    """Of the files that the sink's log names."""
    log = (entry for entry in (home / "copied" / "_spark_metadata").iterdir() if not entry.name.startswith("."))
    written = [line for entry in log for line in entry.read_text().splitlines() if line.startswith("{")]
    names = {Path(json.loads(line)["path"]).name for line in written}
    return sorted(json.loads(row)["id"] for name in names for row in (home / "copied" / name).read_text().splitlines())


def counts(home: Path) -> dict[int, int]:
    rows = [json.loads(row) for part in (home / "counted").glob("part-*") for row in part.read_text().splitlines()]
    return {row["id"]: row["count"] for row in rows}


def test_a_checkpoint_of_plain_spark_runs_under_understudy_and_back(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, plainly in enumerate((True, False, True, False)):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": 7}}\n{{"id": {number}}}\n')
        if plainly:
            (tmp_path / "job.py").write_text(SCRIPT)
            environment = {
                "JAVA_HOME": str(find_java().home),
                "PATH": "/usr/bin:/bin",
                "PYSPARK_SUBMIT_ARGS": shlex.join([*quick.submit_options(), "pyspark-shell"]),
            }
            subprocess.run([sys.executable, "job.py"], cwd=tmp_path, env=environment, check=True, capture_output=True)
        else:
            with Rig(tmp_path, SCRIPT) as rig:
                rig.lead(epoch=number)
                assert rig.wait_for(Ended).code == 0
        done = number + 1
        assert ids(tmp_path) == [*range(done), *[7] * done]
        assert counts(tmp_path) == {**dict.fromkeys(range(done), 1), 7: done}
