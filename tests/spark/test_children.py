"""Spark in another process than the driver's own, and another program in that: refused, in words that say what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import Advice, Ended

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REPLACED = """
import os, subprocess, sys
if os.fork() == 0:
    os.execvp("sh", ["sh", "-c", "echo a child is another program"])
os.wait()
try:
    if "LD_LIBRARY_PATH" not in os.environ:
        os.environ["LD_LIBRARY_PATH"] = "/opt/oracle/lib"
        EXECUTES
except BaseException:
    print("swallowed", flush=True)
print("plain", flush=True)
"""


@pytest.mark.parametrize(
    ("executes", "told"),
    [
        ("os.execv(sys.executable, [sys.executable, *sys.argv])", "os.execv: the script would replace its process by"),
        ("os.execlpe('true', 'true', os.environ)", "os.execve: the script would replace its process by"),
    ],
)
def test_a_script_that_replaces_its_process_ends_with_the_reason(tmp_path: Path, executes: str, told: str) -> None:
    with Rig(tmp_path, REPLACED.replace("EXECUTES", executes)) as rig:
        ended = rig.wait_for(Ended)
        assert (ended.code, ended.fatal, ended.error.startswith(told)) == (6, True, True), ended
        assert "set that where understudy run is started" in ended.error
        assert rig.process.wait(60) == 6
        assert rig.output.read_text() == "a child is another program\n"
        assert told in rig.errors.read_text()


STREAMS = """
import multiprocessing, sys

def stream():
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.getOrCreate()
    print('has a session', flush=True)
    spark.readStream.text("in").writeStream.format("json").option("checkpointLocation", "checkpoint").start("out").awaitTermination()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for target in (print, stream):
        child = context.Process(target=target)
        child.start()
        child.join()
        print("ended with", child.exitcode, flush=True)
"""


@pytest.mark.parametrize(("method", "code"), [("spawn", 1), ("forkserver", 1), ("fork", 6)])
def test_a_script_whose_child_uses_spark_has_not_ended_well(tmp_path: Path, method: str, code: int) -> None:
    feed(tmp_path, 1)
    with Rig(tmp_path, STREAMS, method) as rig:
        rig.lead()
        advice = rig.wait_for(Advice).text
        assert rig.wait_for(Ended) == Ended(6, advice, asked=False, fatal=True)
        assert advice.startswith("child process: a process that the script has started uses Spark")
        assert rig.output.read_text().split("\n")[1:] == ["ended with 0", f"ended with {code}", ""]
        assert f"understudy: {advice}" in rig.errors.read_text()
    assert not (tmp_path / "checkpoint").exists()


FORKS = (
    HEADER
    + """
import os
if os.fork() == 0:
    QUERY
    os._exit(0)
print("ended with", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
)


def test_a_query_of_a_forked_child_does_not_wait_for_a_grant_that_it_never_hears_of(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    query = "rows.writeStream.format('json').option('checkpointLocation', 'checkpoint').start('out').awaitTermination()"
    with Rig(tmp_path, FORKS.replace("QUERY", query)) as rig:
        rig.until(rig.output, "ended with 6")
        assert rig.wait_for(Ended).error.startswith("child process: ")


SUBMITS = """
import os, subprocess, sys
from pathlib import Path
import understudy
with understudy.current().step():
    Path("other.py").write_text(
        "import os; from pyspark.sql import SparkSession\\n"
        "print('other', SparkSession.builder.getOrCreate().range(3).count())"
    )
    subprocess.run([sys.argv[1], "--master", "local[1]", "other.py"], check=True)
"""


def test_a_script_may_submit_another_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with Rig(tmp_path, SUBMITS, str(Path(pyspark.__file__).parent / "bin" / "spark-submit")) as rig:
        rig.lead()
        rig.until(rig.output, "other 3")
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
