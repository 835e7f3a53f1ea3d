"""``foreachBatch`` functions that the user lets rehearse: nothing of what they write reaches a sink before the grant."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.spark.rehearsal_stage import contents
from tests.spark.rig import Rig
from tests.spark.zoo.exhibits import CONNECTORS, delta_jars, jdbc_jars
from understudy.protocol.messages import Advice, RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HEADER = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import understudy
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.schema("k string, v int").option("maxFilesPerTrigger", 1).json("in")
pool = ThreadPoolExecutor(1)
pool.submit(int).result()
def note(name, *facts):
    with open(name, "a") as file:
        print(*facts, file=file)
def start(name, function):
    return rows.writeStream.queryName(name).foreachBatch(function).start()
"""

WRITES = """
def unmarked(batch, number):
    note("unmarked", number, understudy.current().rehearsing)

@understudy.rehearsable
def writes(batch, number):
    note("begun", number, batch.count(), understudy.current().rehearsing, understudy.current().leads)
    batch.write.mode("append").partitionBy("k").parquet("out/files")
    if understudy.current().rehearsing:  # a catalog in memory does not know the table of another process
        batch.write.mode("append").saveAsTable("kept")
    batch.createOrReplaceTempView("batch")
    batch.sparkSession.sql("INSERT OVERWRITE DIRECTORY 'out/of_sql' USING parquet SELECT k, v FROM batch")
    spark.createDataFrame([("script", number)], "k string, v int").write.mode("append").json("out/of_session")
    pool.submit(lambda: batch.write.mode("append").csv("out/of_pool")).result()
    thread = threading.Thread(target=lambda: batch.write.mode("append").orc("out/of_thread"))
    thread.start()
    thread.join()
    note("ended", number, understudy.current().rehearsing)

@understudy.rehearsable
def by_tasks(batch, number):
    note("before_tasks", understudy.current().rehearsing)
    note("nothing_cached", spark._jsparkSession.sharedState().cacheManager().isEmpty())
    derived = batch.withColumn("number", F.lit(number)).persist()
    derived.count()
    batch.foreachPartition(lambda rows: note("tasks", len(list(rows))))
    note("after_tasks", understudy.current().rehearsing)
    derived.unpersist()

@understudy.rehearsable
def fails(batch, number):
    note("fails", understudy.current().rehearsing)
    if understudy.current().rehearsing:
        raise ValueError("not on a standby")

@understudy.rehearsable
def slow(batch, number):
    rehearsing = understudy.current().rehearsing
    while rehearsing and Path("hold").exists():
        note("waits", understudy.current().leads)
        time.sleep(0.1)
    try:
        batch.write.mode("append").json("out/slow")
        note("written", number, rehearsing)
    except BaseException as error:
        note("refused", type(error).__name__, rehearsing)
        raise

for function in (unmarked, writes, by_tasks, fails, slow):
    start(function.__name__, function)
print(understudy.current().rehearsing, flush=True)
spark.streams.awaitAnyTermination()
"""


def feed(home: Path, name: str) -> None:
    (home / "in").mkdir(exist_ok=True)
    (home / f".{name}").write_text('{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n')
    (home / f".{name}").rename(home / "in" / f"{name}.json")


def noted(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def lines_of(directory: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in directory.rglob("part-*"))


def rounds(rig: Rig, many: int) -> RehearsalReport:
    while (standing := rig.wait_for(RehearsalReport)).rounds < many:
        assert not standing.reason, standing
    return standing


def advice(rig: Rig) -> list[str]:
    return sorted(said.text for said in rig.said if isinstance(said, Advice) and "foreachBatch" in said.text)


NAMES = ("unmarked", "writes", "by_tasks", "fails", "slow")


def committed(rig: Rig, number: int, *names: str) -> None:
    for name in names:
        rig.until(rig.home / "checkpoints" / name / "commits" / str(number), "{")


def led_once(home: Path, script: str, *names: str) -> None:
    """A leader of ``script`` has committed the first batch of each query, and is gone."""
    feed(home, "1")
    with Rig(home, script) as leader:
        leader.lead()
        committed(leader, 0, *names)


def test_no_write_of_a_rehearsed_function_reaches_a_sink_and_no_takeover_waits_for_one(tmp_path: Path) -> None:
    feed(tmp_path, "1")
    submit = ("--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse")
    sinks = (tmp_path / "out", tmp_path / "warehouse")
    with Rig(tmp_path, HEADER + WRITES, submit=submit) as leader:
        leader.lead()
        committed(leader, 0, *NAMES)
        assert noted(tmp_path / "begun") == ["0 2 False True"]
        leader.until(leader.output, "False")
    before, tasks = contents(*sinks), noted(tmp_path / "tasks")
    for name in ("unmarked", "begun", "ended", "before_tasks", "nothing_cached", "after_tasks", "fails", "written"):
        (tmp_path / name).unlink()
    with Rig(tmp_path, HEADER + WRITES, rehearse="live", every=0.1, submit=submit) as standby:
        assert rounds(standby, 3).how == "live"
        assert set(noted(tmp_path / "begun")) == {"0 2 True False"}
        assert set(noted(tmp_path / "ended")) == {"0 True"}
        assert set(noted(tmp_path / "before_tasks")) == {"True"}
        assert set(noted(tmp_path / "nothing_cached")) == {"True"}, (
            "what a function that was ended had cached is let go"
        )
        assert noted(tmp_path / "fails") == ["True"], "a function that has failed is not called again"
        assert not [name for name in ("unmarked", "after_tasks", "refused") if (tmp_path / name).exists()]
        assert advice(standby) == [
            "the foreachBatch function by_tasks was rehearsed up to DataFrame.foreachPartition, which cannot be redirected",
            "the foreachBatch function fails failed, and is not rehearsed any more: ValueError: not on a standby",
        ]
        assert (contents(*sinks), noted(tmp_path / "tasks")) == (before, tasks)
        (tmp_path / "hold").touch()
        standby.until(tmp_path / "waits", "False")
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        committed(standby, 1, *NAMES)
        assert not (tmp_path / "refused").exists(), "the function is still under way"
        (tmp_path / "hold").unlink()
        standby.until(tmp_path / "refused", "RehearsalAbandoned True")
    assert set(noted(tmp_path / "waits")) == {"False"}, "a rehearsal leads nothing, also while its replica does"
    assert [line for line in noted(tmp_path / "written") if "False" in line] == ["1 False"]
    assert [lines_of(tmp_path / "out" / name) for name in ("of_session", "of_pool", "slow")] == [2, 4, 4]
    assert noted(tmp_path / "unmarked") == ["1 False"]
    assert sum(map(int, noted(tmp_path / "tasks"))) == 4


@pytest.mark.long  # `make test` has no time for it on two lines
@pytest.mark.spark43
def test_the_same_on_every_line(tmp_path: Path) -> None:
    test_no_write_of_a_rehearsed_function_reaches_a_sink_and_no_takeover_waits_for_one(tmp_path)


DATABASES = (
    f"""
import sys
sys.path.append({str(CONNECTORS / "python")!r})
"""
    """
from delta.tables import DeltaTable
TABLE = {"url": "jdbc:sqlite:shop.db", "dbtable": "kept", "driver": "org.sqlite.JDBC"}
def merge(batch, number):
    spread = batch.withColumn("v", F.col("v") + number)
    matched = kept.alias("t").merge(spread.alias("s"), "t.k = s.k").whenMatchedUpdateAll()
    matched.whenNotMatchedInsertAll().execute()
    spread.createOrReplaceTempView("spread")
    batch.sparkSession.sql(
        f"MERGE INTO delta.`{Path('merged').absolute()}` t USING spread s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    note("merged_into", number, understudy.current().rehearsing)

def append(batch, number):
    (
        DeltaTable.createIfNotExists(spark).location(str(Path("merged").absolute()))
        .addColumn("k", "STRING").addColumn("v", "INT").execute()
    )
    batch.write.format("delta").mode("append").save("appended")
    batch.write.format("jdbc").options(**TABLE).mode("append").save()
    note("appended_to", number, understudy.current().rehearsing)

kept = (
    DeltaTable.createIfNotExists(spark).location(str(Path("merged").absolute()))
    .addColumn("k", "STRING").addColumn("v", "INT").execute()
)
start("merge", merge)
start("append", append)
spark.streams.awaitAnyTermination()
"""
)


@pytest.mark.long
def test_merges_go_into_a_clone_and_a_database_keeps_its_rows(tmp_path: Path) -> None:
    feed(tmp_path, "1")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE kept (k TEXT, v INTEGER)")
    submit = jars_of_both()
    sinks = [tmp_path / name for name in ("merged", "appended")]
    with Rig(tmp_path, HEADER + DATABASES, submit=submit) as leader:
        leader.lead()
        committed(leader, 0, "merge", "append")
    before, stored = contents(*sinks), rows_of(tmp_path / "shop.db")
    assert stored == 2
    with Rig(tmp_path, HEADER + DATABASES, rehearse="live", every=0.1, submit=submit, user_code=True) as standby:
        merges: set[Path] = set()
        end = time.monotonic() + 120
        while len(merges) < 2:
            assert time.monotonic() < end, standby.said
            merges.update(standby.scratch.glob("q0.0/round-*/clone-*/_delta_log/*01.json"))
            time.sleep(0.01)
        standing = rounds(standby, 3)
        assert (standing.how, standing.reason, advice(standby)) == ("live", "", [])
        assert "0 True" in noted(tmp_path / "merged_into")
        assert "0 True" in noted(tmp_path / "appended_to")
        assert (contents(*sinks), rows_of(tmp_path / "shop.db")) == (before, stored)
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        committed(standby, 1, "merge", "append")
        assert not list(standby.scratch.glob("q*.*/round-*"))
    assert rows_of(tmp_path / "shop.db") == 4


def jars_of_both() -> tuple[str, ...]:
    (flag, delta, *others), (_, jdbc) = delta_jars(), jdbc_jars()
    return (flag, f"{delta},{jdbc}", *others)


def rows_of(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM kept").fetchone()
    return int(found)
