"""What has changed while a script stood by: the standby says so, and a leader that fails on it says that."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.rig import Rig
from understudy.protocol.messages import Committed, Ended, RehearsalReport, StaleSnapshot

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
names = spark.read.parquet("names")
rows = spark.readStream.schema("k string, v int").csv("in")
def keep(batch, number):
    batch.join(names, "k").write.mode("append").json("out")
q = rows.writeStream.foreachBatch(keep).queryName("kept").start()
q.awaitTermination()
"""


def overwrite(home: Path, **names: str) -> None:
    """As Spark overwrites a table: other files in place of the old ones."""
    (home / "names").mkdir(exist_ok=True)
    for old in (home / "names").iterdir():
        old.unlink()
    table = pa.table({"k": list(names), "name": list(names.values())})
    pq.write_table(table, home / "names" / f"part-{time.monotonic_ns()}.parquet")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("a,1\n")
    overwrite(tmp_path, a="old")
    return tmp_path


def test_a_standby_notices_that_a_table_it_has_read_was_overwritten(home: Path) -> None:
    with Rig(home, SCRIPT, rehearse="live", rounds=1, every=0.2) as rig:
        while not (standing := rig.wait_for(RehearsalReport)).rehearsed:
            pass
        assert standing.outdated == ""
        overwrite(home, a="new")
        while not (standing := rig.wait_for(RehearsalReport)).outdated:
            pass
        assert standing.outdated.endswith("/names has changed since the script read it")


def test_a_held_script_notices_too(home: Path) -> None:
    script = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
    script += "spark.read.parquet('names').write.json('out')\n"
    with Rig(home, script, rehearse="live", every=0.2) as rig:
        standing = rig.wait_for(RehearsalReport)
        assert (standing.rehearsed, standing.reason, standing.outdated) == (
            False,
            "held at job.py:3, not rehearsed",
            "",
        )
        overwrite(home, a="new")
        assert "names has changed" in rig.wait_for(RehearsalReport).outdated
    assert not (home / "out").exists()


ENDLESS = """
import time
from pathlib import Path
import understudy
@understudy.rehearsable
def keep(batch, number):
    while understudy.current().rehearsing:
        Path("runs").write_text("yes")
        time.sleep(0.1)
    batch.join(names, "k")"""


def test_a_standby_whose_rehearsed_function_never_returns_notices_too(home: Path) -> None:
    script = SCRIPT.replace('def keep(batch, number):\n    batch.join(names, "k")', ENDLESS)
    with Rig(home, script) as leader:
        leader.lead()
        leader.until(home / "checkpoints" / "kept" / "commits" / "0", "{")
    with Rig(home, script, rehearse="live", rounds=1, every=0.2) as rig:
        rig.until(home / "runs", "yes")
        overwrite(home, a="new")
        standing = rig.wait_for(RehearsalReport)
        assert standing.outdated.endswith("/names has changed since the script read it")
        assert not standing.rehearsed


def test_a_leader_that_fails_on_a_file_that_went_while_it_stood_by_says_so_before_it_ends(home: Path) -> None:
    with Rig(home, SCRIPT) as rig:
        rig.wait_for(RehearsalReport)
        overwrite(home, a="new")
        rig.lead()
        told = rig.wait_for(StaleSnapshot)
        assert told.reason.startswith("a file or table is missing: StreamingQueryException: ")
        assert rig.wait_for(Ended).code == 1


def test_a_leader_from_the_start_and_one_that_has_committed_fail_as_any_script_does(home: Path) -> None:
    with Rig(home, SCRIPT) as rig:
        rig.lead()
        rig.wait_for(Committed)
        overwrite(home, a="new")
        (home / "in" / "2.csv").write_text("a,2\n")
        assert rig.wait_for(Ended).code == 1
        assert not any(isinstance(said, StaleSnapshot) for said in rig.said)


def test_an_error_of_the_scripts_own_is_none_of_what_changed(home: Path) -> None:
    with Rig(home, SCRIPT.replace('batch.join(names, "k")', "1 / 0; batch")) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        assert rig.wait_for(Ended).code == 1
        assert not any(isinstance(said, StaleSnapshot) for said in rig.said)
