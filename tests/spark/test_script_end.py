"""The end of a script: what has to be over before it counts, and whether exit code 0 is believed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.spark.replicas import Replicas, everything_once, said
from tests.spark.rig import Rig
from understudy.errors import ScriptProblem
from understudy.protocol.messages import Attached, Ended, RehearsalReport, StillRunning

pytestmark = [pytest.mark.spark, pytest.mark.slow]

THREADS_AND_HANDLER = """
import atexit, threading, time
from pathlib import Path
import understudy

def wait_for(name):
    while not Path(name).exists():
        time.sleep(0.05)

def work():
    with understudy.current().step():
        print("in the thread", flush=True)
    wait_for("thread-may-end")

atexit.register(lambda: wait_for("handler-may-end"))
threading.Thread(target=work, name="worker").start()
"""


def test_a_script_ends_after_its_last_thread_and_its_exit_handlers_and_what_it_waits_for_is_said(
    tmp_path: Path,
) -> None:
    with Rig(tmp_path, THREADS_AND_HANDLER) as rig:
        rig.lead()
        rig.until(rig.output, "in the thread")
        assert rig.wait_for(StillRunning).what == "thread worker"
        (tmp_path / "thread-may-end").touch()
        assert "atexit" in rig.wait_for(StillRunning).what
        assert not any(isinstance(message, Ended) for message in rig.said)
        (tmp_path / "handler-may-end").touch()
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
        assert rig.process.wait(60) == 0


LOGS_THE_START = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("id LONG").json("in")
query = rows.writeStream.option("checkpointLocation", "checkpoint").format("noop").start()
try:
    query.awaitTermination()
except Exception as error:
    print("logged", type(error).__name__, flush=True)
"""


def test_a_script_that_logs_why_no_query_of_it_could_start_is_not_finished(tmp_path: Path) -> None:
    """Under plain Spark, as under a leader, ``start()`` itself raises; a standby's stand-in raises where it is first asked."""
    (tmp_path / "in").mkdir()
    with Rig(tmp_path, LOGS_THE_START) as rig:
        rig.wait_for(RehearsalReport)
        (tmp_path / "checkpoint").write_text("no directory")
        rig.lead()
        ended = rig.wait_for(Ended)
        assert "logged" in rig.text()
        assert (ended.code, ended.fatal) == (1, False)
        assert "the last end of a query was an exception" in ended.error


SILENT = """
import sys
import understudy
with understudy.current().step():
    sys.stdout = sys.stderr = None
"""


def test_a_script_without_streams_ends_as_any_other(tmp_path: Path) -> None:
    with Rig(tmp_path, SILENT) as rig:
        rig.lead()
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)


OS_EXIT = """
import multiprocessing, os, sys, threading, time
import understudy
if os.fork() == 0:
    sys.exit(0)  # runs the exit handlers that it has inherited
child = multiprocessing.get_context("fork").Process(target=print)
child.start()
child.join()
os.wait()
with understudy.current().step():
    print("the children are gone", flush=True)
threading.Thread(target=time.sleep, args=(3600,)).start()
os._exit({code})
"""


@pytest.mark.parametrize("code", [0, 3])
def test_os_exit_is_an_end_with_that_code_and_forked_children_have_no_say(tmp_path: Path, code: int) -> None:
    with Rig(tmp_path, OS_EXIT.replace("{code}", str(code))) as rig:
        rig.lead()
        rig.until(rig.output, "the children are gone")
        error = f"the script exited with code {code}" if code else ""
        assert rig.wait_for(Ended) == Ended(code, error, asked=True)
        assert rig.process.wait(60) == code
        assert sum(isinstance(message, Ended) for message in rig.said) == 1


WITHOUT_STOP = """
import os
import understudy
from pathlib import Path
from pyspark.sql import SparkSession
Path("events").mkdir()
logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": Path("events").absolute().as_uri()}
spark = SparkSession.builder.config(map=logged).getOrCreate()
with understudy.current().step():
    spark.range(1).count()
"""


@pytest.mark.parametrize("end", ["", "os._exit(0)"])
def test_spark_is_told_of_the_end_of_a_script_that_does_not_stop_it(tmp_path: Path, end: str) -> None:
    with Rig(tmp_path, WITHOUT_STOP + end) as rig:
        rig.lead()
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
        assert rig.process.wait(60) == 0
    logs = [each.name for each in (tmp_path / "events").rglob("*") if each.is_file()]
    assert any(name.startswith(("events", "local")) for name in logs), logs
    assert not [name for name in logs if name.endswith(".inprogress")]


REFUSED_IN_A_THREAD = """
import threading
from understudy.errors import ScriptProblem
def work():
    raise ScriptProblem("no checkpoint location", remedy="Set one")
threading.Thread(target=work).start()
"""


def test_what_is_refused_in_a_thread_is_said_as_in_the_main_thread(tmp_path: Path) -> None:
    with Rig(tmp_path, REFUSED_IN_A_THREAD) as rig:
        rig.lead()
        told = Ended(ScriptProblem.exit_code, "no checkpoint location. Set one", asked=False, fatal=True)
        assert rig.wait_for(Ended) == told


JVM_GONE = """
import os, signal, time
from pyspark.sql import SparkSession
import understudy
spark = SparkSession.builder.getOrCreate()
jvm = spark.sparkContext._gateway.proc.pid
with understudy.current().step():
    os.kill(jvm, signal.{signal})
    try:
        while True:
            spark.range(10).count()
    except BaseException as error:
        print("logged:", type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_exit_code_0_is_not_believed_of_a_script_whose_jvm_has_died_or_is_about_to(tmp_path: Path, how: str) -> None:
    with Rig(tmp_path, JVM_GONE.replace("{signal}", how)) as rig:
        rig.lead()
        ended = rig.wait_for(Ended)
        assert "logged:" in rig.text()
        assert (ended.code, ended.error) == (1, "the script ended with exit code 0 after its JVM had died")


QUERIES = """
import threading
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 100).load()

def batches(name, function):
    query = rate.writeStream.foreachBatch(function).option("checkpointLocation", name).queryName(name)
    return query.trigger(processingTime="100 milliseconds").start()

def once(batch, number):
    if not done.is_set():
        done.set()
        raise OSError("only the first time")
    again.set()

def slow(batch, number):
    batch.rdd.foreach(lambda row: __import__("time").sleep(60))

done, again = threading.Event(), threading.Event()
restarted = batches("restarted", once)
try:
    restarted.awaitTermination()
except Exception as error:
    print("logged:", type(error).__name__, flush=True)
restarted = batches("restarted", once)
again.wait()
restarted.stop()
slow = batches("slow", slow)
{wrong}
while not slow.status["isTriggerActive"]:
    pass
spark.stop()
"""

WRONG = """
failed = batches("failed", lambda batch, number: 1 / 0)
try:
    failed.awaitTermination()
except Exception as error:
    print("logged:", type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("wrong", ["", WRONG], ids=["begun again, or stopped with the context", "failed"])
def test_the_last_end_of_each_query_counts(tmp_path: Path, wrong: str) -> None:
    with Rig(tmp_path, QUERIES.replace("{wrong}", wrong)) as rig:
        rig.lead()
        rig.wait_for(Attached)
        ended = rig.wait_for(Ended)
        assert rig.text().count("logged: StreamingQueryException") == (2 if wrong else 1)
        if wrong:
            assert ended.code == 1
            assert "the last end of a query was an exception: query failed: " in ended.error
            assert "query restarted" not in ended.error
            assert "query slow" not in ended.error
        else:
            assert ended == Ended(0, "", asked=True)


WITHOUT_SPARK = """
import builtins, os, signal, sys, threading, time
from pathlib import Path
import understudy

def attempt():
    with understudy.current().step():
        number = len(list(Path().glob("attempt-*")))
        Path(f"attempt-{number}").touch()
        return number

def ends_early():
    attempted.wait()
    sys.exit(3)  # of this thread

def work():
    global number
    number = attempt()
    attempted.set()
    while number == 0:
        time.sleep(1)
    if number == 2:
        os._exit(0)

class KilledOnTheWay:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        kill(pid, signal.SIGKILL)

attempted = threading.Event()
builtins.kept_until_the_interpreter_ends = KilledOnTheWay()
for each in (work, ends_early):
    threading.Thread(target=each).start()
"""


@pytest.fixture
def replicas(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    found = Replicas(tmp_path, request.param)
    try:
        yield found
    finally:
        found.stop()


@pytest.mark.parametrize("replicas", [WITHOUT_SPARK], indirect=True)
def test_a_driver_that_is_killed_after_its_main_thread_or_after_its_last_word_has_not_finished(
    replicas: Replicas,
) -> None:
    for _ in range(2):
        replicas.start("--restart-delay", "0.1")
    replicas.wait_for("the first attempt", (replicas.home / "attempt-0").exists)
    replicas.wait_for("its thread's end", lambda: any("sys.exit(3)" in told for told in said(replicas.home, "advice")))
    (driver,) = psutil.Process(replicas.leader()).children()
    os.killpg(driver.pid, signal.SIGKILL)
    replicas.wait_for("the end", lambda: all(process.poll() is not None for process in replicas.started))
    assert [process.returncode for process in replicas.started] == [0, 0]
    assert replicas.status()["status"] == "FINISHED"
    assert len(list(replicas.home.glob("attempt-*"))) == 3
    first, second = said(replicas.home, "driver-died")
    assert first == "the driver was killed by signal 9"
    assert second.startswith("the script had ended with exit code 0, and its process was still there")


IN_THREADS = """
import threading
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", 1).text("in")

def begin(name, function=None):
    if function is not None:
        writer = lines.writeStream.foreachBatch(function)
    else:
        writer = lines.writeStream.format("parquet").option("path", name)
    return writer.option("checkpointLocation", f"checkpoint/{name}").trigger(processingTime="100 milliseconds").start()

def picky(batch, number):
    if Path("bad").exists():
        raise OSError("the service is down")

def log_and_go_on(query, other):
    try:
        query.awaitTermination()
    except Exception as error:
        print("logged:", type(error).__name__, flush=True)
    other.stop()

def begun_in_a_thread(other):
    log_and_go_on(begin("picky", picky), other)

out = begin("out")
threading.Thread(target=out.awaitTermination).start()
threading.Thread(target=begun_in_a_thread, args=(out,)).start()
"""


def standbys(replicas: Replicas) -> list[dict[str, Any]]:
    return [each for each in replicas.status()["replicas"] if each["role"] == "standby"]


@pytest.mark.long
@pytest.mark.parametrize("replicas", [IN_THREADS], indirect=True)
def test_queries_of_threads_nobody_joins_survive_a_dead_jvm_and_a_logged_exception_is_a_failure(
    replicas: Replicas,
) -> None:
    for _ in range(2):
        replicas.start("--restart-delay", "0.1")
    replicas.feed()
    replicas.wait_for("the first rows", lambda: everything_once(replicas))
    replicas.wait_for("a rehearsed standby", lambda: any(each["how"] == "live" for each in standbys(replicas)))
    leader = replicas.status()
    (driver,) = psutil.Process(replicas.leader()).children()
    (jvm,) = (each for each in driver.children() if each.name() == "java")
    jvm.kill()
    replicas.feed()
    replicas.wait_for("rows of a new leader", lambda: everything_once(replicas))
    assert replicas.status()["epoch"] > leader["epoch"]
    (replicas.home / "bad").touch()
    replicas.feed()
    replicas.wait_for("a failure", lambda: any("service is down" in why for why in said(replicas.home, "driver-died")))
    (replicas.home / "bad").unlink()
    replicas.feed()
    replicas.wait_for("every row", lambda: everything_once(replicas))
    assert replicas.status()["status"] == "RUNNING"
    assert set(replicas.rows().values()) == {1}
    assert all(
        "the last end of a query was an exception" in why or "JVM" in why for why in said(replicas.home, "driver-died")
    )
