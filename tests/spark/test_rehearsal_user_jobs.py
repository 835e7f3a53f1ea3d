"""Spark jobs that a rehearsed ``foreachBatch`` function starts hold no takeover, in whichever thread they were started."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_rehearsal_user_code import HEADER, committed, feed, led_once, noted, rounds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = """
def nap(rows):
    for row in rows:
        time.sleep(1.0)
        yield row

def lookup():
    tasks = 200 if understudy.current().rehearsing and Path("large").exists() else 1
    return spark.range(0, tasks, 1, tasks).rdd.mapPartitions(nap).count()

def looked_up(name, number, way):
    note(name, "begins", number, Path("large").exists())
    note(name, "has", number, way())

@understudy.rehearsable
def in_a_pool(batch, number):
    looked_up("in_a_pool", number, lambda: pool.submit(lookup).result())

@understudy.rehearsable
def again_and_again(batch, number):
    spark.sparkContext.setJobGroup("lookups", "a name on Spark's page")
    for _ in range(3):
        try:
            return looked_up("again_and_again", number, lookup)
        except Exception:
            note("swallowed", number)

start("in_a_pool", in_a_pool)
start("again_and_again", again_and_again)
rows.writeStream.queryName("plain").format("json").start("out")
spark.streams.awaitAnyTermination()
"""

NAMES = ("in_a_pool", "again_and_again", "plain")


@pytest.mark.long
def test_a_takeover_does_not_wait_for_jobs_of_a_rehearsed_function(tmp_path: Path) -> None:
    led_once(tmp_path, HEADER + JOBS, *NAMES)
    with Rig(tmp_path, HEADER + JOBS, rehearse="live", every=0.1, rounds=30) as standby:
        rounds(standby, 3)
        (tmp_path / "large").touch()
        for name in NAMES[:2]:
            standby.until(tmp_path / name, "begins 0 True")
        time.sleep(2.0)  # until tasks of them run
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        committed(standby, 1, *NAMES)
        standby.until(tmp_path / "swallowed", "0\n0\n0\n")  # the jobs that followed were cancelled, too
    for name in NAMES[:2]:
        assert noted(tmp_path / name)[-1] == "has 1 1"
        assert "has 0 200" not in noted(tmp_path / name), "the lookups of the rehearsal, which take 100 s"
