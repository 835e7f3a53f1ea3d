"""At a grant the queries that a script has declared start first: what it does after their ``start()`` comes after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.rig import Rig
from understudy.protocol.messages import Ended, RehearsalReport, Started

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEADER = """
import threading, time
from pathlib import Path
from pyspark.sql import SparkSession
import understudy.driver.pending_query as pending_query
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("k string, v int").json("in")
stock = pending_query.PendingQuery.begin
def started(name):
    return rows.writeStream.queryName(name).format("noop").start()
"""

SETTINGS = """
def slowly(self):  # Spark copies the session's settings some time after this
    time.sleep(1.0)
    return stock(self)
pending_query.PendingQuery.begin = slowly
for database in ("raw", "marts"):
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {database} LOCATION '{Path(database).absolute()}'")
spark.sql("USE raw")
query = started("one")
spark.sql("USE marts")
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
day = spark.createDataFrame([("today", 1)], "day string, v int")
day.write.mode("overwrite").partitionBy("day").parquet("daily")
day.write.saveAsTable("dim")
query.processAllAvailable()
"""


def feed(home: Path) -> None:
    (home / "in").mkdir()
    (home / "in" / "1.json").write_text('{"k": "a", "v": 1}\n')


def held(rig: Rig) -> None:
    while not rig.wait_for(RehearsalReport).held:
        pass


def test_a_held_writer_has_the_settings_and_the_database_that_the_script_has_set_after_a_start(tmp_path: Path) -> None:
    feed(tmp_path)
    (tmp_path / "daily" / "day=yesterday").mkdir(parents=True)
    (tmp_path / "daily" / "day=yesterday" / "part-0.parquet").write_bytes(b"of yesterday")
    with Rig(tmp_path, HEADER + SETTINGS, rehearse="off") as standby:
        held(standby)
        standby.lead()
        assert standby.wait_for(Ended).code == 0, standby.text()
    assert (tmp_path / "daily" / "day=yesterday" / "part-0.parquet").exists()
    (part,) = (tmp_path / "daily" / "day=today").glob("*.parquet")
    assert pq.read_table(part).num_rows == 1
    assert list((tmp_path / "marts").rglob("*.parquet"))
    assert not list((tmp_path / "raw").rglob("*.parquet"))


FAILS = """
def fails(self):
    if self.name == "orders":
        raise OSError("503 Slow Down")
    return stock(self)
pending_query.PendingQuery.begin = fails
orders, payments = started("orders"), started("payments")
try:
    WAIT
except OSError as error:
    print("told", error, flush=True)
    payments.awaitTermination()
"""


def test_a_start_that_failed_at_the_grant_ends_a_script_that_does_not_ask_for_that_query(tmp_path: Path) -> None:
    feed(tmp_path)
    script = HEADER + FAILS.replace("WAIT", "payments.awaitTermination()")
    with Rig(tmp_path, script, rehearse="off") as standby:
        held(standby)
        standby.lead()
        assert standby.wait_for(Started).queries == 1
        assert standby.wait_for(Ended) == Ended(1, "StartFailed: query orders: OSError: 503 Slow Down", asked=True)


def test_a_script_that_asks_is_told_of_a_start_that_failed_and_goes_on_as_it_likes(tmp_path: Path) -> None:
    feed(tmp_path)
    script = HEADER + FAILS.replace("WAIT", "orders.awaitTermination()")
    script = script.replace(
        "    payments.awaitTermination()", "    time.sleep(8)  # longer than is waited for a question"
    )
    with Rig(tmp_path, script, rehearse="off") as standby:
        held(standby)
        standby.lead()
        ended = standby.wait_for(Ended)
        assert "told 503 Slow Down" in standby.text()
        assert "StartFailed" not in ended.error


STOPS = """
query = rows.writeStream.queryName("one").format("json").start("out")
while not Path("stop").exists():
    time.sleep(0.05)
print("stops", flush=True)
spark.stop()
"""


def test_a_script_that_stops_spark_has_its_queries_started_first(tmp_path: Path) -> None:
    feed(tmp_path)
    with Rig(tmp_path, HEADER + STOPS, rehearse="live", every=0.2) as standby:
        while not standby.wait_for(RehearsalReport).rehearsed:
            pass
        (tmp_path / "stop").touch()
        standby.until(standby.output, "stops")
        while not standby.wait_for(RehearsalReport).held:
            pass
        standby.lead()
        assert standby.wait_for(Ended) == Ended(0, "", asked=True), standby.text()
    assert (tmp_path / "checkpoints" / "one" / "metadata").exists()


def test_a_script_that_fails_on_a_standby_stops_spark_and_fails_at_once(tmp_path: Path) -> None:
    feed(tmp_path)
    script = HEADER + "query = started('one')\ntry:\n    raise ValueError('as it is')\nfinally:\n    spark.stop()\n"
    with Rig(tmp_path, script, rehearse="off") as standby:
        assert standby.wait_for(Ended).error == "ValueError: as it is"
