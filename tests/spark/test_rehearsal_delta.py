"""Rehearsals of queries into Delta tables: the table and its log stay as they are, and each round appends to a table of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.rehearsal_stage import contents
from tests.spark.rig import Rig
from tests.spark.zoo.exhibits import delta_jars
from understudy.protocol.messages import RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SCRIPT = """
import threading, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.schema("k string, v int").json("in")
rows.writeStream.queryName("kept").partitionBy("k").format("delta").start("table")
if spark.conf.get("spark.test.names", None):
    spaced = rows.withColumnRenamed("v", "a name that takes column mapping")
    spaced.writeStream.queryName("spaced").format("delta").start("spaced")
if spark.conf.get("spark.test.batches", None):
    rows.writeStream.queryName("batches").foreachBatch(lambda batch, _: open("called", "w").close()).start()
def tell():
    conf = spark._jsparkSession.sessionState().conf()
    cache = getattr(getattr(spark._jvm, "org.apache.spark.sql.delta.DeltaLog$"), "MODULE$").getOrCreateCache(conf)
    while True:
        logs = cache.asMap().values()
        with open("known", "w") as file:
            print([str(log.dataPath()) for log in logs], file=file)
        time.sleep(0.2)
if spark.conf.get("spark.test.known", None):
    threading.Thread(target=tell, daemon=True).start()
spark.streams.awaitAnyTermination()
"""

#: The standby tells whose logs Delta knows in its JVM.
KNOWN = ("--conf", "spark.test.known=yes")


def feed(home: Path, name: str) -> None:
    (home / "in").mkdir(exist_ok=True)
    (home / f".{name}").write_text('{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n')
    (home / f".{name}").rename(home / "in" / f"{name}.json")


def rounds(rig: Rig, many: int) -> RehearsalReport:
    while (standing := rig.wait_for(RehearsalReport)).rounds < many:
        assert not standing.reason, standing
    return standing


def see(directory: Path, pattern: str, many: int) -> None:
    """Return once so many different files were there."""
    seen: set[Path] = set()
    end = time.monotonic() + 120
    while len(seen) < many:
        assert time.monotonic() < end, f"no {many} of {pattern}, but {seen}"
        seen.update(directory.glob(pattern))
        time.sleep(0.01)


def test_a_round_appends_to_a_delta_table_of_its_own(tmp_path: Path) -> None:
    feed(tmp_path, "1")
    with Rig(tmp_path, SCRIPT, submit=delta_jars()) as leader:
        leader.lead()
        leader.until(tmp_path / "checkpoints" / "kept" / "commits" / "0", "{")
    before = contents(tmp_path / "table", tmp_path / "checkpoints")
    with Rig(tmp_path, SCRIPT, rehearse="live", every=0.1, submit=[*delta_jars(), *KNOWN]) as standby:
        see(standby.scratch, "q0.0/round-*/sink/_delta_log/*01.json", 3)
        standby.until(tmp_path / "known", f"{tmp_path}/table'")
        standing = rounds(standby, 4)
        assert (standing.how, standing.reason) == ("live", "")
        assert contents(tmp_path / "table", tmp_path / "checkpoints") == before
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        standby.until(tmp_path / "checkpoints" / "kept" / "commits" / "1", "{")
        assert not list(standby.scratch.glob("q0.*/round-*"))
    assert len(list((tmp_path / "table" / "_delta_log").glob("*.json"))) == 2


def test_what_delta_makes_no_table_of_is_rehearsed_without_one(tmp_path: Path) -> None:
    feed(tmp_path, "1")
    submit = (*delta_jars(), "--conf", "spark.test.names=1")
    with Rig(tmp_path, SCRIPT, rehearse="live", every=0.1, submit=submit) as standby:
        assert rounds(standby, 3).how == "throwaway"


def test_where_delta_is_at_hand_the_first_rounds_of_a_foreach_batch_merge_into_a_table_of_their_own(
    tmp_path: Path,
) -> None:
    feed(tmp_path, "1")
    submit = (*delta_jars(), "--conf", "spark.test.batches=1")
    with Rig(tmp_path, SCRIPT, rehearse="live", every=0.1, submit=submit) as standby:
        see(standby.scratch, "q1.0/round-*/sink/_delta_log/*02.json", 3)
        assert rounds(standby, 6).how == "throwaway"
        assert not list(standby.scratch.glob("q1.*/round-5/sink"))
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "table").exists()
