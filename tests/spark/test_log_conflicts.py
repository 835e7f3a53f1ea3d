"""A rightful leader that meets its predecessor's last write, which landed late: the query begins again, and the script hears nothing."""

from __future__ import annotations

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
query = rows.writeStream.queryName("one").format("noop").start()
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
