"""Scripts that cannot be rehearsed, or break in a standby: the leader's batches go on, and status and log say why."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.spark.replicas import Replicas, everything_once, said

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: ``{trick}`` is what is wrong with it, once there is a file ``bad``: in standbys that are started after it.
SCRIPT = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", 1).text("in")
bad = Path("bad").exists()
{trick}
lines.writeStream.format("parquet").option("checkpointLocation", "checkpoint").trigger(processingTime="100 milliseconds").start("out")
spark.streams.awaitAnyTermination()
"""

FAILS = """
@F.udf(returnType="string")
def only_one_of_me(value):
    # One process per machine: the rehearsal's finds the leader's there.
    if bad:
        raise OSError("the device is busy")
    return value
lines = lines.select(only_one_of_me("value").alias("value"))
"""

BINARY = r"""
for stream in (sys.stdout, sys.stderr):
    stream.buffer.write(bytes(range(256)) * 40 + b"\n{\"time\": \xff}\n" + b"x" * 100_000 + b"\0\r\x1b[2J\n")
    stream.flush()
"""

MEMORY = """
if bad:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    hoard = [bytearray(64 << 20) for _ in range(1000)]
"""

ONE_PER_MACHINE = """
import socket
only = socket.socket(socket.AF_UNIX)
only.bind("\\0" + os.getcwd())
"""


@pytest.fixture
def replicas(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    """One replica that leads, and is fed; then the file ``bad``, and another one."""
    monkeypatch.setenv("UNDERSTUDY_LOG", "json")
    found = Replicas(tmp_path, SCRIPT.replace("{trick}", request.param))
    found.start()
    found.feed()
    try:
        found.wait_for("the first rows", lambda: everything_once(found))
        (tmp_path / "bad").touch()
        found.start("--rehearse-every", "2")
        yield found
    finally:
        found.stop()


def standby(replicas: Replicas) -> dict[str, Any]:
    return next((each for each in replicas.status()["replicas"] if each["role"] == "standby"), {"reason": ""})


def goes_on(replicas: Replicas) -> None:
    """In the same epoch, by the same leader."""
    before = replicas.status()
    replicas.feed()
    replicas.wait_for("the rows of a leader with a bad standby", lambda: everything_once(replicas))
    after = replicas.status()
    assert (after["epoch"], after["leader"]) == (before["epoch"], before["leader"])
    assert said(replicas.home, "driver-died") == []


@pytest.mark.long
@pytest.mark.parametrize("replicas", [FAILS], indirect=True)
def test_a_rehearsal_that_always_fails(replicas: Replicas) -> None:
    replicas.wait_for("the reason", lambda: "the device is busy" in standby(replicas)["reason"])
    assert standby(replicas)["rehearsed"] is False
    goes_on(replicas)
    assert any("the device is busy" in told for told in said(replicas.home, "not-rehearsed"))


@pytest.mark.parametrize("replicas", [BINARY], indirect=True)
def test_a_script_that_prints_binary(replicas: Replicas) -> None:
    replicas.wait_for("a standby", lambda: standby(replicas).get("rehearsed"))
    goes_on(replicas)
    assert all(b"\x1b[2J" in path.read_bytes() for path in replicas.home.glob("replica-*.log"))


@pytest.mark.long
@pytest.mark.parametrize("replicas", [MEMORY], indirect=True)
def test_a_script_that_eats_all_memory(replicas: Replicas) -> None:
    replicas.wait_for("the reason", lambda: "MemoryError" in standby(replicas)["reason"])
    goes_on(replicas)
    assert any("MemoryError" in told for told in said(replicas.home, "standby-ended"))


@pytest.mark.parametrize("replicas", [ONE_PER_MACHINE], indirect=True)
def test_a_script_that_can_run_but_once_has_a_cold_standby(replicas: Replicas) -> None:
    replicas.wait_for("the reason", lambda: "Address already in use" in standby(replicas)["reason"])
    assert standby(replicas)["rehearsed"] is False
    goes_on(replicas)
    os.kill(replicas.leader(), signal.SIGKILL)
    replicas.feed()
    replicas.wait_for("a new leader's rows", lambda: everything_once(replicas))
    assert replicas.status()["epoch"] == 2


@pytest.mark.long
@pytest.mark.parametrize("replicas", [""], indirect=True)
def test_when_memory_is_short_a_standby_goes_before_its_leader_and_a_new_leader_does_not(replicas: Replicas) -> None:
    replicas.wait_for("a standby with all its rounds", lambda: standby(replicas).get("rounds", 0) > 4)
    ours = _score("self")
    leader, second = replicas.leader(), standby(replicas)["pid"]
    assert _scores(leader) == {ours}
    assert _scores(second) == {ours + 300}
    os.kill(leader, signal.SIGKILL)
    replicas.feed()
    replicas.wait_for("a new leader's rows", lambda: everything_once(replicas))
    assert _scores(second) == {ours}


def _scores(supervisor: int) -> set[int]:
    """Of the driver and its JVM. What the JVM runs besides, chmod and the like, is gone in a moment."""
    (driver,) = psutil.Process(supervisor).children()
    (jvm,) = (each for each in driver.children() if each.name() == "java")
    return {_score(driver.pid), _score(jvm.pid)}


def _score(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())
