"""Rows that a rehearsed ``foreachBatch`` function gives to a thread of the script that was there before: they are never written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_rehearsal_user_code import HEADER, advice, committed, feed, noted
from understudy.protocol.messages import RehearsalReport, StaleSnapshot

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUEUE = """
import queue
audit = queue.Queue()
def writer():
    while True:
        number, count = audit.get()
        spark.createDataFrame([(number, count)], "batch long, rows long").write.mode("append").json("audit")
        note("written", number)
threading.Thread(target=writer, daemon=True).start()

def audited(batch, number):
    note("called", number, understudy.current().rehearsing)
    audit.put((number, batch.count()))

start("audited", audited)
spark.streams.awaitAnyTermination()
"""


def audits(home: Path) -> list[int]:
    lines = [line for path in (home / "audit").rglob("part-*.json") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["batch"] for line in lines)


def test_a_writers_thread_fed_by_rehearsals_writes_nothing_of_them_and_the_script_runs_again(tmp_path: Path) -> None:
    feed(tmp_path, "1")
    with Rig(tmp_path, HEADER + QUEUE) as leader:
        leader.lead()
        committed(leader, 0, "audited")
        leader.until(tmp_path / "written", "0")
    with Rig(tmp_path, HEADER + QUEUE, rehearse="live", every=0.1, rounds=30, user_code=True) as standby:
        while not (standing := standby.wait_for(RehearsalReport)).outdated:
            assert standing.rounds < 20, standing
        assert "a thread of the script waits to write at job.py:" in standing.outdated
        called = noted(tmp_path / "called")
        standby.wait_for(RehearsalReport)
        assert noted(tmp_path / "called") == called, "no function is called any more"
        assert len(advice(standby)) == 1
        feed(tmp_path, "2")
        standby.lead(epoch=2)
        assert standby.wait_for(StaleSnapshot).reason == standing.outdated
    assert audits(tmp_path) == [0]
    with Rig(tmp_path, HEADER + QUEUE, user_code=True) as again:
        again.lead(epoch=2, attempt=2)
        committed(again, 1, "audited")
        again.until(tmp_path / "written", "1")
    assert audits(tmp_path) == [0, 1]
