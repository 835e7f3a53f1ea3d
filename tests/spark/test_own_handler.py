"""A script whose replica is told to stop: it gets to run its own handler of SIGTERM, behind a gate that is closed; and one that has
come to its end has ended.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.spark.replicas import Replicas, said

pytestmark = pytest.mark.spark

#: No Spark: nothing here starts a JVM.
HANDLES = """
import atexit, os, signal, sys, time
import understudy
from pathlib import Path

def say(line):
    os.write(1, (line + "\\n").encode())  # at once: the supervisor writes into the same log

def told(*_):
    say("<handler>")
    try:
        with understudy.current().step():
            Path("written-behind-the-gate").touch()
    except BaseException as error:
        say("<refused> " + type(error).__name__)
    sys.exit(0)

{install}
atexit.register(lambda: say("<atexit>"))
say("<begun>")
with understudy.current().step():
    say("<leads>")
try:
    while True:
        time.sleep(0.1)
finally:
    say("<finally>")
"""
INSTALL = "signal.signal(signal.SIGTERM, told)"
#: Patience of which a test uses the part it needs.
PATIENT = ("--stop-patience", "60")


def output(replicas: Replicas, number: int) -> str:
    return (replicas.home / f"replica-{number}.log").read_text(errors="replace")


def stopped(replicas: Replicas, number: int) -> str:
    """What the replica of that number printed, after SIGTERM; it has ended with 0."""
    process = replicas.started[number]
    process.send_signal(signal.SIGTERM)
    assert process.wait(50) == 0
    return output(replicas, number)


def test_handler_finally_and_atexit_run_and_write_nothing_that_the_gate_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    replicas = Replicas(tmp_path, HANDLES.format(install=INSTALL))
    try:
        replicas.start(*PATIENT)
        replicas.wait_for("the lead", lambda: "<leads>" in output(replicas, 0))
        leader = stopped(replicas, 0)
    finally:
        replicas.stop()
    assert [word for word in leader.split() if word.startswith("<")] == [
        *("<begun>", "<leads>", "<handler>", "<refused>", "<finally>", "<atexit>")
    ]
    assert "<refused> LeadershipLost" in leader
    assert not (tmp_path / "written-behind-the-gate").exists()
    assert len(said(tmp_path, "script-told")) == 1
    assert said(tmp_path, "job-ended") == [], "a handler's sys.exit(0) is not the end of the job"


@pytest.mark.parametrize("install", ["pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_a_script_without_a_handler_is_not_delayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: str
) -> None:
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    replicas = Replicas(tmp_path, HANDLES.format(install=install))
    try:
        replicas.start(*PATIENT)
        replicas.wait_for("the lead", lambda: "<leads>" in output(replicas, 0))
        leader = stopped(replicas, 0)
    finally:
        replicas.stop()
    assert "<finally>" not in leader
    assert said(tmp_path, "script-told") == []


#: Its last word is said, and its process takes so many seconds to be gone.
ENDS_SLOWLY = """
import os, sys, time
import understudy

class Slow:
    def __del__(self, write=os.write, sleep=time.sleep):
        write(1, b"<ends>\\n")
        sleep(SECONDS)

with understudy.current().step():
    os.write(1, b"<leads>\\n")
sys.slow = Slow()  # deleted with the interpreter, after all handlers of its exit
"""


@pytest.mark.parametrize(("seconds", "again"), [(3, False), (600, True)], ids=["slowly", "never"])
def test_a_script_that_has_come_to_its_end_is_run_again_only_if_its_process_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, *, again: bool
) -> None:
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    replicas = Replicas(tmp_path, ENDS_SLOWLY.replace("SECONDS", str(seconds)))
    try:
        replicas.start()
        replicas.wait_for("the lead", lambda: "<leads>" in output(replicas, 0))
        replicas.start()
        replicas.wait_for("the end", lambda: "<ends>" in output(replicas, 0))
        stopped(replicas, 0)
        if again:
            replicas.wait_for("the next lead", lambda: "<leads>" in output(replicas, 1))
        else:
            assert replicas.started[1].wait(50) == 0
            assert "<leads>" not in output(replicas, 1)
            assert said(tmp_path, "job-ended")
    finally:
        replicas.stop()
    assert all("is FINISHED" in end for end in said(tmp_path, "job-ended"))


GOOD_ORDER = """
import signal, threading, time
from pyspark.sql import SparkSession
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
def note(line):
    with open("calls.txt", "a") as file:
        file.write(line + "\\n")
def slowly(batch, number):
    note(f"begin {number}")
    batch.write.mode("overwrite").parquet(f"out/batch={number}")
    time.sleep(2)
    note(f"end {number}")
lines = spark.readStream.option("maxFilesPerTrigger", 1).text("in")
query = lines.writeStream.foreachBatch(slowly).option("checkpointLocation", "checkpoint").start()
while query.isActive and not told.wait(0.1):
    pass
query.stop()
note("left in good order")
"""


@pytest.mark.slow
def test_a_streaming_job_leaves_in_good_order(tmp_path: Path) -> None:
    replicas = Replicas(tmp_path, GOOD_ORDER)
    calls = tmp_path / "calls.txt"
    try:
        replicas.feed()
        replicas.start(*PATIENT)
        replicas.wait_for("a batch", lambda: calls.exists() and "begin 0" in calls.read_text())
        stopped(replicas, 0)
    finally:
        replicas.stop()
    assert calls.read_text().splitlines() == ["begin 0", "end 0", "left in good order"]
