"""A script that is held before it declares a query: its standby rehearses a query of ours, which the script must not notice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.rehearsal_stage import contents
from tests.spark.rig import Rig
from understudy.protocol.messages import WARM_UP, Ended, PauseRehearsals, RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.spark43, pytest.mark.slow]

SCRIPT = """
import time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event):
        print(f"<started {event.name}>\\n", end="", flush=True)
    def onQueryProgress(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass

spark = SparkSession.builder.getOrCreate()
spark.streams.addListener(Listener())
print(f"<settings {spark.conf.get('spark.sql.shuffle.partitions')}>\\n", end="", flush=True)
spark.range(3).write.json("made")
print(f"<queries {len(spark.streams.active)} views {len(spark.catalog.listTables())}>\\n", end="", flush=True)
rows = spark.readStream.schema("id long").json("made")
query = rows.writeStream.queryName("mine").option("checkpointLocation", "checkpoint").start("out", "json")
query.processAllAvailable()
print(f"<settings {spark.conf.get('spark.sql.shuffle.partitions')}>\\n", end="", flush=True)
print(f"<rows {sorted(row.id for row in spark.read.json('out').collect())}>\\n", end="", flush=True)
query.stop()
while not Path("enough").exists():
    time.sleep(0.05)
"""


def warm_up(rig: Rig) -> RehearsalReport:
    while (said := rig.wait_for(RehearsalReport)).how != WARM_UP:
        assert (said.rehearsed, said.rounds) == (False, 0)
    return said


def ended(rig: Rig) -> None:
    """The leader rehearses nothing any more, and what was written for it is gone while the script runs on."""
    give_up = time.monotonic() + 60
    while list(rig.scratch.glob("warm-up*")):
        assert time.monotonic() < give_up, contents(rig.scratch)
        time.sleep(0.1)
    (rig.home / "enough").touch()
    assert rig.wait_for(Ended).code == 0


def test_it_is_rehearsed_and_leaves_no_trace(tmp_path: Path) -> None:
    with Rig(tmp_path, SCRIPT, rehearse="live", rounds=3, submit=["--conf", "spark.sql.shuffle.partitions=5"]) as rig:
        assert [warm_up(rig).rounds for _ in range(3)] == [1, 2, 3]
        said = rig.said[-1]
        assert isinstance(said, RehearsalReport)
        assert (said.rehearsed, said.queries, said.reason) == (False, 0, f"held at {said.held}, not rehearsed")
        assert not {"made", "out", "checkpoint", "spark-warehouse"} & {Path(path).name for path in contents(tmp_path)}
        rig.lead()
        rig.until(rig.output, "<rows [0, 1, 2]>")
        ended(rig)
        told = rig.output.read_text()
        assert told.count("<settings 5>") == 2
        assert "<queries 0 views 0>" in told
        assert told.count("<started") == told.count("<started mine>") == 1
        assert list(rig.scratch.glob("warm-up*")) == []


@pytest.mark.long
def test_it_is_broken_off_by_a_takeover_that_is_about_to_come_and_goes_on_afterwards(tmp_path: Path) -> None:
    with Rig(tmp_path, SCRIPT, rehearse="live", rounds=1000) as rig:
        before = warm_up(rig).rounds
        rig.say(PauseRehearsals(20.0))
        time.sleep(2.0)
        told = len(rig.said)
        time.sleep(8.0)  # a round takes less, and the pause between two of them is at most five seconds
        assert len(rig.said) == told
        assert warm_up(rig).rounds > before
        rig.lead()
        rig.until(rig.output, "<rows [0, 1, 2]>")
        ended(rig)


@pytest.mark.long
def test_none_where_rehearsals_are_off(tmp_path: Path) -> None:
    with Rig(tmp_path, SCRIPT, rehearse="off") as rig:
        assert rig.wait_for(RehearsalReport).reason.endswith("not rehearsed")
        time.sleep(5.0)
        assert {said.how for said in rig.said if isinstance(said, RehearsalReport)} == {""}
        assert list(rig.scratch.glob("warm-up*")) == []
