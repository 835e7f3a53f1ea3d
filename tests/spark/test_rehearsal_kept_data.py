"""What a rehearsed ``foreachBatch`` function keeps outside of itself: nothing of it outlives the rehearsal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_rehearsal_user_code import HEADER, committed, feed, led_once, noted, rounds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CACHES = """
own = spark.range(7).cache()
own.count()
def entries():
    return spark._jsparkSession.sharedState().cacheManager().numCachedEntries()

def prices(*columns):
    return spark.read.schema("k string, price int").json("prices").select(*columns)

def priced(name, number, rows):
    note(name, number, understudy.current().rehearsing, sorted({row.price for row in rows.collect()}))

@understudy.rehearsable
def by_frame(batch, number):
    kept = prices("k", "price").cache()
    priced("by_frame", number, batch.join(kept, "k"))
    batch.foreachPartition(lambda rows: None)  # ends a rehearsal
    kept.unpersist()

@understudy.rehearsable
def by_name(batch, number):
    prices("price", "k").createOrReplaceTempView("named")
    spark.catalog.cacheTable("named")
    priced("by_name", number, spark.table("named"))
    batch.foreachPartition(lambda rows: None)
    spark.catalog.uncacheTable("named")

@understudy.rehearsable
def by_statement(batch, number):
    spark.sql("CACHE TABLE stated AS SELECT price FROM json.`prices`")
    priced("by_statement", number, spark.table("stated"))

@understudy.rehearsable
def under_way(batch, number):
    kept = prices("price").persist()
    priced("under_way", number, kept)
    while understudy.current().rehearsing and Path("hold").exists():
        note("waits", number)
        time.sleep(0.1)
    kept.unpersist()

for function in (by_frame, by_name, by_statement, under_way):
    start(function.__name__, function)
if not understudy.current().leads:
    while not Path("look").exists():
        time.sleep(0.1)
    note("entries", entries(), own.storageLevel.useMemory)
spark.streams.awaitAnyTermination()
"""

CACHING = ("by_frame", "by_name", "by_statement", "under_way")


def price(home: Path, amount: int) -> None:
    (home / "prices").mkdir(exist_ok=True)
    for old in (home / "prices").iterdir():
        old.unlink()
    lines = "".join(f'{{"k": "{key}", "price": {amount}}}\n' for key in "ab")
    (home / "prices" / f"{amount}.json").write_text(lines)


def test_a_batch_never_finds_what_a_rehearsal_has_cached(tmp_path: Path) -> None:
    price(tmp_path, 1)
    led_once(tmp_path, HEADER + CACHES, *CACHING)
    with Rig(tmp_path, HEADER + CACHES, rehearse="live", every=0.1, rounds=30) as standby:
        rounds(standby, 3)
        assert {name: "0 True [1]" in noted(tmp_path / name) for name in CACHING} == dict.fromkeys(CACHING, True)
        (tmp_path / "hold").touch()
        standby.until(tmp_path / "waits", "0")
        price(tmp_path, 2)
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        committed(standby, 1, *CACHING)
        (tmp_path / "look").touch()
        standby.until(tmp_path / "entries", "True")
    found = {name: [line for line in noted(tmp_path / name) if line.startswith("1 False")] for name in CACHING}
    assert found == {name: ["1 False [2]"] for name in CACHING}
    assert noted(tmp_path / "entries") == ["2 True"], "what the script has cached, and the statement of the real batch"


CHECKPOINTS = """
spark.sparkContext.setCheckpointDir("kept")

@understudy.rehearsable
def checkpointed(batch, number):
    frame = batch.checkpoint()
    later = batch.select("k").checkpoint(eager=False)
    rdd = batch.rdd.map(tuple)
    rdd.checkpoint()
    note("counted", frame.count(), later.count(), rdd.count(), understudy.current().rehearsing)

start("checkpointed", checkpointed)
spark.streams.awaitAnyTermination()
"""


def test_a_rehearsal_leaves_nothing_in_the_checkpoint_directory(tmp_path: Path) -> None:
    led_once(tmp_path, HEADER + CHECKPOINTS, "checkpointed")
    kept = sorted((tmp_path / "kept").rglob("part-*"))
    assert kept, "a leader checkpoints"
    with Rig(tmp_path, HEADER + CHECKPOINTS, rehearse="live", every=0.1) as standby:
        rounds(standby, 3)
        assert sorted((tmp_path / "kept").rglob("part-*")) == kept
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        committed(standby, 1, "checkpointed")
    assert len(list((tmp_path / "kept").rglob("part-*"))) > len(kept)
    assert set(noted(tmp_path / "counted")) == {"2 2 2 False", "2 2 2 True"}
