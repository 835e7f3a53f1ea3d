"""A rightful leader that meets its predecessor's last write, which landed late: the query begins again, and the script hears nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.spark.rig import Rig

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("id LONG").json("in")
query = rows.writeStream.queryName("one").option("checkpointLocation", "checkpoints/one").format("noop").start()
first = query.runId
while "Waiting" not in query.status["message"]: time.sleep(0.05)
print("runs", query.isActive, flush=True)
def again():
    while query.runId == first: time.sleep(0.05)
    print("again", flush=True)
match sys.argv[1]:
    case "isActive":
        while query.isActive and query.runId == first: pass
        print("active", query.isActive, query.exception(), flush=True)
    case "processAllAvailable":
        while not Path("go").exists(): pass
        query.processAllAvailable()
        print("active", query.isActive, query.exception(), flush=True)
    case "active":
        while (running := spark.streams.active) and query.runId == first: pass
        print("active", running == [query], spark.streams.get(query.id) is query, flush=True)
    case "each of active":
        for each in spark.streams.active: each.awaitTermination()
    case "awaitTermination":
        query.awaitTermination()
    case "awaitAnyTermination":
        spark.streams.awaitAnyTermination()
    case "awaitAnyTermination, later":
        again()
        print("ended", spark.streams.awaitAnyTermination(2), flush=True)
query.awaitTermination()
"""

LOGS = Path("checkpoints") / "one"

SAID = {
    "isActive": "active True None",
    "processAllAvailable": "active True None",
    "active": "active True True",
    "each of active": "",
    "awaitTermination": "",
    "awaitAnyTermination": "",
    "awaitAnyTermination, later": "ended False",
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with batch 0, and beside it what a predecessor wrote of batch 1 before it died."""
    home = tmp_path_factory.mktemp("predecessor")
    for number in range(2):
        feed(home, number)
        with Rig(home, SCRIPT, "none") as leader:
            leader.lead(epoch=number + 1)
            leader.until(home / LOGS / "commits" / str(number), "{")
        if number == 0:
            shutil.copytree(home / LOGS, home / "before")
    for name in ("offsets", "sources/0"):
        for entry in (home / LOGS / name).glob("*1*"):
            (home / "late" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(entry, home / "late" / name)
    return home


def feed(home: Path, number: int) -> None:
    (home / "in").mkdir(parents=True, exist_ok=True)
    (home / f".{number}").write_text(f'{{"id": {number}}}\n')
    (home / f".{number}").rename(home / "in" / f"{number}.json")


@pytest.mark.parametrize("question", SAID)
def test_a_query_that_met_a_late_write_runs_on(planned: Path, question: str) -> None:
    place = planned
    shutil.rmtree(place / LOGS)
    shutil.copytree(place / "before", place / LOGS)
    (place / "in" / "1.json").unlink(missing_ok=True)
    (place / "go").unlink(missing_ok=True)
    with Rig(place, SCRIPT, question) as leader:
        leader.lead(epoch=3)
        leader.until(leader.output, "runs True")
        shutil.copytree(place / "late", place / LOGS, dirs_exist_ok=True)
        feed(place, 1)
        (place / "go").touch()
        leader.until(place / LOGS / "commits" / "1", "{")
        leader.until(leader.output, SAID[question])
        feed(place, 2)
        leader.until(place / LOGS / "commits" / "2", "{")
        (place / "in" / "2.json").unlink()
        assert "Concurrent update to the log" in leader.text()
        assert "Traceback" not in leader.text()


FILE_SINK = """
import time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
home = Path.cwd()
@F.udf("LONG")
def held(id):
    if id == 1:
        (home / "in-batch").touch()
        while not (home / "go").exists(): time.sleep(0.05)
    return id
rows = spark.readStream.schema("id LONG").json("in").select(held("id").alias("id"))
query = rows.writeStream.queryName("one").format("json").start("out")
while not Path("checkpoints/one/commits/1").exists(): time.sleep(0.05)
print("rows", sorted(row.id for row in spark.read.schema("id LONG").json("out").collect()), flush=True)
query.awaitTermination()
"""


def test_a_batch_that_a_predecessor_logged_late_in_a_file_sink_is_adopted(tmp_path: Path) -> None:
    feed(tmp_path, 0)
    with Rig(tmp_path, FILE_SINK) as leader:
        leader.lead()
        leader.until(tmp_path / LOGS / "commits" / "0", "{")
        feed(tmp_path, 1)
        leader.until(tmp_path / "in-batch", "")
        written = tmp_path / "out" / "part-of-the-predecessor.json"
        written.write_text('{"id":1}\n')
        entry = json.loads((tmp_path / "out" / "_spark_metadata" / "0").read_text().splitlines()[-1])
        entry |= {"path": written.as_uri(), "size": written.stat().st_size}
        (tmp_path / ".late").write_text(f"v1\n{json.dumps(entry)}")
        (tmp_path / ".late").rename(tmp_path / "out" / "_spark_metadata" / "1")
        (tmp_path / "go").touch()
        leader.until(leader.output, "rows [0, 1]")  # all of it: print writes piece by piece
        assert "Race while writing batch 1" in leader.text()
        assert "Traceback" not in leader.text()
        data = {each.name for each in (tmp_path / "out").glob("part-*")}
        assert len(data) == 2, (
            "what this leader wrote of the batch is gone: every reader of the directory counts rows once"
        )
