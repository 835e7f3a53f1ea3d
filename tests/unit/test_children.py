"""Processes of a script that ask PySpark for a JVM, and what their driver learns of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from threading import Event

import pytest

from understudy.driver.children import PORT_VARIABLE, Children, as_without_jvm, names_a_jvm, only_in
from understudy.errors import ScriptProblem
from understudy.protocol.messages import Advice, Message

ASKS = "from pyspark.java_gateway import launch_gateway; launch_gateway()"


class Driver:
    """``environ``: of the processes that it starts."""

    def __init__(self) -> None:
        self.refused: list[ScriptProblem] = []
        self.sent: list[Message] = []
        self.environ = dict(os.environ)
        Children(self.refused.append, self.sent.append).listen(self.environ)

    def starts(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script], env=self.environ, capture_output=True, text=True, check=False
        )


@pytest.mark.spark43
@pytest.mark.parametrize("pinned", ["true", "false"])
def test_a_process_that_asks_for_a_jvm_is_told_why_there_is_none(pinned: str) -> None:
    driver = Driver()
    driver.environ["PYSPARK_PIN_THREAD"] = pinned
    for _ in range(2):
        ended = driver.starts(ASKS)
        assert ended.returncode == 1
        assert "understudy: child process: a process that the script has started uses Spark" in ended.stderr
    assert [str(error) for error in driver.refused] == [str(driver.refused[0])] * 2
    assert driver.sent == [Advice(str(driver.refused[0]))]


def test_a_process_that_imports_pyspark_alone_runs_as_it_is() -> None:
    driver = Driver()
    ended = driver.starts("import pyspark.sql; print('runs')")
    assert (ended.stdout, ended.stderr) == ("runs\n", "")
    assert driver.refused == []


def test_who_does_not_know_the_secret_is_not_answered_and_hinders_no_other() -> None:
    driver = Driver()
    for said in (b"A\nsecret\n", b"GET / HTTP/1.1\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", int(driver.environ[PORT_VARIABLE]))) as link:
            link.sendall(said)
            link.shutdown(socket.SHUT_WR)
            assert link.recv(100) == b""
    assert driver.refused == []
    assert driver.starts(ASKS).returncode == 1
    assert len(driver.refused) == 1


def test_a_forked_child_is_refused_and_its_driver_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    known = Event()
    Children(lambda error: known.set(), driver.sent.append).listen(driver.environ)
    monkeypatch.setattr(os, "environ", driver.environ)
    only_in(os.getpid())
    assert not known.is_set()
    with pytest.raises(ScriptProblem, match="uses Spark"):
        only_in(os.getppid())
    assert known.is_set()


def test_the_drivers_own_jvm_is_launched_as_if_there_was_none() -> None:
    driver = Driver()
    before = dict(driver.environ)
    with as_without_jvm(driver.environ):
        assert not [name for name in driver.environ if name.startswith("PYSPARK_GATEWAY")]
    assert driver.environ == before


def test_a_replica_that_is_started_below_a_driver_finds_no_jvm() -> None:
    driver = Driver()
    assert not names_a_jvm(driver.environ)
    assert not names_a_jvm({})
    assert names_a_jvm({PORT_VARIABLE: "4711", "PYSPARK_GATEWAY_SECRET": "of-spark-submit"})
    assert names_a_jvm({PORT_VARIABLE: "4711"})
