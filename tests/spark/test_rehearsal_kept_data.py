"""What a rehearsed ``foreachBatch`` function keeps outside of itself: nothing of it outlives the rehearsal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_rehearsal_user_code import HEADER, committed, feed, led_once, noted, rounds
from understudy.protocol.messages import Starting

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


@pytest.mark.long
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


OVERTAKEN = """
def frame(value):
    return spark.createDataFrame([(value,)], "value string")

def changes(value):
    return {
        "createTempView": lambda: frame(value).createTempView("made"),
        "createOrReplaceTempView": lambda: frame(value).createOrReplaceTempView("seen"),
        "registerTempTable": lambda: frame(value).registerTempTable("seen"),
        "dropTempView": lambda: spark.catalog.dropTempView("made"),
        "uncacheTable": lambda: spark.catalog.uncacheTable("kept"),
        "clearCache": lambda: spark.catalog.clearCache(),
        "unpersist": lambda: spark.table("kept").unpersist(),
        "CREATE VIEW": lambda: spark.sql(f"CREATE OR REPLACE TEMP VIEW seen AS SELECT '{value}' AS value"),
        "in the JVM": lambda: spark._jsparkSession.sql(f"CREATE OR REPLACE TEMP VIEW seen AS SELECT '{value}' AS value"),
        "SET": lambda: spark.sql(f"SET spark.told={value}"),
        "conf.set": lambda: spark.conf.set("spark.told", value),
        "conf.unset": lambda: spark.conf.unset("spark.told"),
        "udf.register": lambda: spark.udf.register("told", lambda: value),
        "setCurrentDatabase": lambda: spark.catalog.setCurrentDatabase("default"),
    }

@understudy.rehearsable
def overtaken(batch, number):
    if not understudy.current().rehearsing:
        for change in changes("real").values():
            change()
        frame("real").createOrReplaceTempView("kept")
        spark.catalog.cacheTable("kept")
        spark.conf.set("spark.told", "real")
        note("began", number)
        while number > 0 and not Path("tried").exists():
            time.sleep(0.05)
        told = spark.sql("SELECT value, told() FROM seen").first()
        note("told", number, *told, spark.conf.get("spark.told"), spark.catalog.isCached("kept"))
    elif Path("hold").exists():
        note("waits", number)
        while Path("hold").exists():
            time.sleep(0.05)
        for name, change in changes("stale").items():
            try:
                change()
            except BaseException as error:
                note("ended", name, type(error).__name__)
            else:
                note("changed", name)
        Path("tried").touch()
    else:
        for change in changes("rehearsed").values():
            change()
        note("rehearsed", number)

frame("script").createOrReplaceTempView("kept")
spark.catalog.cacheTable("kept")
start("overtaken", overtaken)
spark.streams.awaitAnyTermination()
"""


def test_a_function_that_a_grant_overtakes_changes_nothing_that_a_batch_reads(tmp_path: Path) -> None:
    led_once(tmp_path, HEADER + OVERTAKEN, "overtaken")
    with Rig(tmp_path, HEADER + OVERTAKEN, rehearse="live", every=0.1) as standby:
        rounds(standby, 2)
        assert noted(tmp_path / "rehearsed")
        (tmp_path / "hold").touch()
        standby.until(tmp_path / "waits", "0")
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        standby.until(tmp_path / "began", "1")
        (tmp_path / "hold").unlink()
        committed(standby, 1, "overtaken")
    assert noted(tmp_path / "changed") == []
    assert {line.rsplit(" ", 1)[1] for line in noted(tmp_path / "ended")} == {"RehearsalAbandoned", "Py4JJavaError"}
    assert noted(tmp_path / "told") == [f"{number} real real real True" for number in (0, 1)]


CACHED_SLOWLY = """
class Slow(str):
    "A name that is sent to the JVM when the test says so."
    def replace(self, *how):
        if understudy.current().rehearsing and Path("hold").exists():
            note("caching", "now")
            while Path("hold").exists():
                time.sleep(0.05)
            note("order", "sent")
        return str.replace(self, *how)

@understudy.rehearsable
def slowly(batch, number):
    if not understudy.current().rehearsing:
        note("order", "batch", number)
    frame = spark.read.schema("k string, price int").json("prices").select("price")
    frame.createOrReplaceTempView("named")
    spark.catalog.cacheTable(Slow("named"))
    note("slowly", number, understudy.current().rehearsing, sorted({row.price for row in spark.table("named").collect()}))
    spark.catalog.uncacheTable("named")

start("slowly", slowly)
spark.streams.awaitAnyTermination()
"""


def test_a_takeover_waits_for_what_a_function_is_caching(tmp_path: Path) -> None:
    price(tmp_path, 1)
    led_once(tmp_path, HEADER + CACHED_SLOWLY, "slowly")
    with Rig(tmp_path, HEADER + CACHED_SLOWLY, rehearse="live", every=0.1) as standby:
        rounds(standby, 2)
        (tmp_path / "hold").touch()
        standby.until(tmp_path / "caching", "now")
        price(tmp_path, 2)
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        standby.wait_for(Starting)
        time.sleep(2)  # without the wait the batch begins within it
        (tmp_path / "hold").unlink()
        committed(standby, 1, "slowly")
    assert noted(tmp_path / "order") == ["batch 0", "sent", "batch 1"]
    assert noted(tmp_path / "slowly")[-1] == "1 False [2]"


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


@pytest.mark.long
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
