"""Four queries, of which each one's id is asked before the next is declared; a memory sink; a listener that asks for all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testkit.tails import whole_lines
from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import Committed, RehearsalReport, Running, Started

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = (
    HEADER
    + """
from pyspark.sql.streaming import StreamingQueryListener

class Asks(StreamingQueryListener):
    def onQueryStarted(self, event):
        mine = spark.streams.get(str(event.id))
        print(f"heard of {event.name}: {mine.id == str(event.id)}, {len(spark.streams.active) > 0}\\n", end="", flush=True)
    def onQueryProgress(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event): pass

spark.streams.addListener(Asks())
print("before any", spark.streams.active, spark.streams.get("00000000-0000-0000-0000-000000000000"), flush=True)
print("nothing ended", spark.streams.awaitAnyTermination(1), flush=True)
known = spark.read.csv("in")
board = rows.writeStream.queryName("board").format("memory").start()
print("board is", board.name, flush=True)
kept = []
for name in ("first", "second", "third"):
    writer = known.sparkSession.readStream.schema(known.schema).csv("in").writeStream.format("parquet").queryName(name)
    kept.append(writer.option("checkpointLocation", f"checkpoints/{name}").start(f"out/{name}"))
    print("declared", name, kept[-1].id, flush=True)
shown = spark.sql("WITH last AS (SELECT * FROM board) SELECT count(*) AS n FROM last")
for query in spark.streams.active: query.processAllAvailable()
print("on the board", shown.first()["n"], spark.table("board").count(), spark.catalog.tableExists("board"), flush=True)
board.stop()
print("stopped", len(spark.streams.active), flush=True)
spark.streams.awaitAnyTermination()
"""
)
KEPT = ("first", "second", "third")
HELD = next(f"job.py:{number}" for number, line in enumerate(SCRIPT.splitlines(), 1) if line.startswith("shown ="))


def declared(rig: Rig) -> list[str]:
    return [line for line in rig.text().splitlines() if line.startswith("declared")]


def claimed(rig: Rig) -> set[str]:
    """What the fence has claimed, below the rig's home."""
    log: list[dict[str, Any]] = [json.loads(line) for line in whole_lines(rig.fence_log.read_text())]
    assert any(line["op"] == "publish" and line["outcome"] == "accepted" for line in log), "the fence is in force"
    return {str(Path(line["path"]).relative_to(rig.home)) for line in log if line["op"] == "claim"}


def test_every_query_is_rehearsed_and_starts_whatever_is_asked_between_them(tmp_path: Path) -> None:
    feed(tmp_path, 1, 2)
    expected = {f"{place}/{name}" for place in ("checkpoints", "out") for name in KEPT}
    with Rig(tmp_path, SCRIPT) as first:
        first.lead()
        first.until(first.output, "stopped 3")
        assert "on the board 4 4 True" in first.text()
        while first.wait_for(Running).queries < len(KEPT) + 1:
            pass
        ids = declared(first)
        assert len(ids) == len(KEPT)
        assert claimed(first) == expected, "nothing is claimed of Spark's temporary directory"

    with Rig(tmp_path, SCRIPT, rehearse="live", rounds=1, every=0.2) as second:
        while not ((standing := second.wait_for(RehearsalReport)).rehearsed and standing.queries == len(KEPT) + 1):
            pass
        assert standing.held == HELD
        assert standing.how == "live,throwaway"
        assert "before any [] None" in second.text()
        assert "nothing ended False" in second.text()
        assert "board is board" in second.text()
        assert declared(second) == ids, "the ids that the leader's queries have"
        feed(tmp_path, 3)
        for _ in range(3):
            assert second.wait_for(RehearsalReport).outdated == "", "what is streamed may grow"
        second.lead(epoch=2)
        told: dict[type, Any] = {}
        while not {Started, Committed} <= told.keys():  # the first commit may come before the last start
            message = second.hear()
            told[type(message)] = message
        assert told[Started].queries == len(KEPT) + 1
        assert Path(told[Committed].root).name in KEPT
        second.until(second.output, "on the board 6 6 True")  # a memory sink begins from the start, as in Spark
        second.until(second.output, "stopped 3")
        for name in (*KEPT, "board"):
            second.until(second.output, f"heard of {name}: True, True")
        assert claimed(second) == expected
