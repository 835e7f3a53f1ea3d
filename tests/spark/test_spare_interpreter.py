"""What Spark runs in Python in the driver, at the start of a query: after rehearsals it finds its imports."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from tests.spark.rig import PATIENCE, Rig
from understudy.protocol.messages import RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: The processor tells of each process that calls it first, and whether pandas was there before the user's class.
SCRIPT = """
import json, os, sys
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

spark = SparkSession.builder.config(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
).getOrCreate()

class Highest(StatefulProcessor):
    def init(self, handle):
        started_by = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\\0")
        with open("begun", "a") as file:
            print(json.dumps([os.getpid(), started_by, sys.argv[0]]), file=file)
        self.highest = handle.getValueState("highest", "v long")

    def handleInputRows(self, key, rows, timerValues):
        highest = max(int(frame["v"].max()) for frame in rows)
        self.highest.update((highest,))
        yield pd.DataFrame({"k": [key[0]], "v": [highest]})

    def close(self):
        pass

rows = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json("in")
highest = rows.groupBy("k").transformWithStateInPandas(Highest(), "k string, v long", "Append", "None")
highest.writeStream.option("checkpointLocation", "checkpoint").start("out", "json").awaitTermination()
"""

#: The worker in the driver, among those of tasks.
DRIVER = "transform_with_state_driver_worker"


def begun(home: Path) -> list[list[str]]:
    """How each process was started that called the processor for Spark's driver, in order."""
    told = [json.loads(line) for line in (home / "begun").read_text().splitlines()]
    return [started_by for _, started_by, module in told if DRIVER in module]


def spares(rig: Rig) -> list[psutil.Process]:
    return [each for each in psutil.Process(rig.process.pid).children() if "understudy_spare" in each.cmdline()]


def warm(standby: Rig) -> None:
    """Wait for a spare that has imported what its worker did, and is idle: one that imports is not waited for at a start."""
    give_up = time.monotonic() + PATIENCE
    seen = -1.0
    while "pandas" not in str(spares(standby)[0].memory_maps()) or used(standby) > seen:
        assert time.monotonic() < give_up, f"still without pandas, or busy, after {used(standby)} s of a processor"
        seen = used(standby)
        time.sleep(1.0)


def used(standby: Rig) -> float:
    """Seconds of a processor that its spare has used."""
    return sum(spares(standby)[0].cpu_times()[:2])


@pytest.mark.long
def test_a_takeover_s_first_call_of_a_stateful_processor_is_forked_by_a_warm_interpreter(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"k": "a", "v": {number}}}\n')
    with Rig(tmp_path, SCRIPT) as leader:
        leader.lead()
        leader.until(leader.fence_log, "/checkpoint/commits/1")
    assert "understudy_spare" not in begun(tmp_path)[-1]  # there was none yet
    with Rig(tmp_path, SCRIPT, rehearse="live", rounds=30) as standby:
        while "understudy_spare" not in begun(tmp_path)[-1]:
            assert standby.wait_for(RehearsalReport).rehearsed
        warm(standby)
        before = len(begun(tmp_path))
        (tmp_path / "in" / "2.json").write_text('{"k": "a", "v": 2}\n')
        standby.lead(epoch=2)
        standby.until(standby.fence_log, "/checkpoint/commits/2")
        assert "understudy_spare" in begun(tmp_path)[before:][-1]
    rows = [json.loads(line) for part in (tmp_path / "out").glob("*.json") for line in part.read_text().splitlines()]
    assert sorted(row["v"] for row in rows) == [0, 1, 2]


#: A source in Python: it tells of each process that makes its reader.
SOURCE = """
import json, os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

spark = SparkSession.builder.getOrCreate()

class Reader(SimpleDataSourceStreamReader):
    def __init__(self):
        started_by = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\\0")
        with open("begun", "a") as file:
            print(json.dumps(started_by), file=file)

    def initialOffset(self):
        return {"row": 0}

    def read(self, start):
        end = len(list(Path("in").iterdir()))
        return self.readBetweenOffsets(start, {"row": end}), {"row": end}

    def readBetweenOffsets(self, start, end):
        return iter([(number,) for number in range(start["row"], end["row"])])

class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "v long"

    def simpleStreamReader(self, schema):
        return Reader()

spark.dataSource.register(Numbers)
rows = spark.readStream.format("numbers").load()
rows.writeStream.option("checkpointLocation", "checkpoint").start("out", "json").awaitTermination()
"""


@pytest.mark.long
@pytest.mark.spark43
def test_a_takeover_s_source_in_python_is_forked_by_a_warm_interpreter_and_no_rehearsal_calls_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0").touch()
    with Rig(tmp_path, SOURCE) as leader:
        leader.lead()
        leader.until(leader.fence_log, "/checkpoint/commits/0")
    before = (tmp_path / "begun").read_text()
    with Rig(tmp_path, SOURCE, rehearse="live", rounds=30) as standby:
        while not spares(standby):
            assert standby.wait_for(RehearsalReport).how == "synthetic"
        warm(standby)
        assert (tmp_path / "begun").read_text() == before
        (tmp_path / "in" / "1").touch()
        standby.lead(epoch=2)
        standby.until(standby.fence_log, "/checkpoint/commits/1")
        begun = [json.loads(line) for line in (tmp_path / "begun").read_text().removeprefix(before).splitlines()]
        assert any("understudy_spare" in each for each in begun)
        assert {each[2] for each in begun if each[1] == "-m"} <= {"understudy_spare", "understudy_worker_daemon"}
    rows = [json.loads(line) for part in (tmp_path / "out").glob("*.json") for line in part.read_text().splitlines()]
    assert sorted(row["v"] for row in rows) == [0, 1]
