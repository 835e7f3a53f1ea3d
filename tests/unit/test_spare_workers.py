"""Spare interpreters for what Spark runs in the driver, with the real program that Spark is told to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from understudy.driver import workers
from understudy.driver.spare_workers import PROGRAM, SpareWorkers
from understudy.processes import Alive

MODULE = "pyspark.sql.streaming.toy"

#: What a worker of Spark's does here: tells who it is and what was there before it, and imports a library.
TOY = """
import os, sys, time
print(os.getpid(), "psutil" in sys.modules, os.environ["PYTHON_WORKER_FACTORY_PORT"], flush=True)
import psutil
print("to be seen", file=sys.stderr, flush=True)
if os.environ["PYTHON_WORKER_FACTORY_PORT"] == "0":
    time.sleep(60)
sys.exit(3)
"""


class Stage:
    """A directory in which workers are started as Spark starts them; one that is told port 0 stays."""

    def __init__(self, home: Path, alive: Alive) -> None:
        self.home = home
        self.alive = alive
        package = home / "lib" / "pyspark" / "sql" / "streaming"
        package.mkdir(parents=True)
        (package / "toy.py").write_text(TOY)
        for each in (package, package.parent, package.parents[1]):
            (each / "__init__.py").touch()
        self.rehearses = False
        self.spares = SpareWorkers(alive.descriptor, lambda: self.rehearses, pause=0.0)
        self.environment = {
            **os.environ,
            **workers.with_path({"PYTHONPATH": str(home / "lib")}),
            "UNDERSTUDY_ALIVE": str(alive.path),
            **self.spares.environment(sys.executable),
        }
        self.workers: list[subprocess.Popen[str]] = []

    def start(self, port: int = 1, **environment: str) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [self.spares.program(sys.executable), "-m", MODULE],
            cwd=self.home,
            env={**self.environment, **environment, "PYTHON_WORKER_FACTORY_PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.workers.append(worker)
        return worker

    def run(self, port: int = 1, **environment: str) -> tuple[int, bool, str]:
        """The process that did it, whether the library was there before, and the port that it saw."""
        worker = self.start(port=port, **environment)
        out, err = worker.communicate(timeout=60)
        assert worker.returncode == 3, err
        assert err == "to be seen\n"
        pid, imported, seen = out.split()
        return int(pid), imported == "True", seen

    @staticmethod
    def told(worker: subprocess.Popen[str]) -> int:
        """The process that does the worker's task."""
        assert worker.stdout is not None
        return int(worker.stdout.readline().split()[0])

    def standing_by(self) -> list[psutil.Process]:
        running = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
        return [each for each in running if "understudy_spare" in each.cmdline()]

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stand_by(self) -> list[psutil.Process]:
        """Both spares that have been made ready; they may still import, and take a task after that."""
        self.until(lambda: len(self.standing_by()) == 2)
        return self.standing_by()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    alive = Alive(tmp_path / "holder")
    stage = Stage(tmp_path, alive)
    yield stage
    for worker in stage.workers:
        worker.kill()
        worker.communicate()
    for spare in stage.standing_by():
        spare.kill()


def test_the_first_worker_is_the_process_that_was_started_and_the_next_one_is_a_spare(stage: Stage) -> None:
    first, _, _ = stage.run()
    assert first == stage.workers[0].pid
    spares = stage.stand_by()
    pid, _, port = stage.run(port=2)
    assert pid in [each.pid for each in spares]
    assert port == "2"


def test_a_spare_has_imported_what_the_last_one_did(stage: Stage) -> None:
    stage.run()
    stage.stand_by()
    assert not stage.run()[1]  # none has told yet
    spares = stage.stand_by()
    stage.until(lambda: all("psutil" in str(each.memory_maps()) for each in spares))
    assert stage.run()[1]


def test_rehearsals_leave_one_to_a_takeover_that_comes_meanwhile(stage: Stage) -> None:
    stage.rehearses = True
    stage.run()
    spares = {each.pid for each in stage.stand_by()}
    stage.spares._pause = 60.0  # nothing replaces what is taken
    first = stage.start(port=0)
    assert stage.told(first) in spares
    second = stage.start(port=0)
    assert stage.told(second) == second.pid
    stage.rehearses = False
    assert stage.run()[0] in spares


def test_a_worker_of_another_environment_gets_no_spare_and_the_next_one_does(stage: Stage) -> None:
    stage.run()
    stage.stand_by()
    pid, _, _ = stage.run(THEIRS="changed")
    assert pid == stage.workers[-1].pid
    spares = [each.pid for each in stage.stand_by()]
    assert stage.run(THEIRS="changed")[0] in spares


def test_a_spare_ends_with_the_process_that_spark_knows(stage: Stage) -> None:
    stage.run()
    spares = {each.pid: each for each in stage.stand_by()}
    worker = stage.start(port=0)
    spare = spares[stage.told(worker)]
    worker.send_signal(signal.SIGTERM)
    stage.until(lambda: not spare.is_running() or spare.status() == psutil.STATUS_ZOMBIE)


def test_spares_that_have_died_are_missed_by_none(stage: Stage) -> None:
    stage.run()
    for each in stage.stand_by():
        each.kill()
    pid, _, _ = stage.run()
    assert pid == stage.workers[-1].pid


@pytest.mark.parametrize("spared", [False, True])
def test_a_worker_holds_its_replicas_proof_of_life(stage: Stage, spared: bool) -> None:
    if spared:
        stage.run()
        stage.stand_by()
    worker = stage.start(port=0)
    pid = stage.told(worker)
    assert str(stage.alive.path) in [each.path for each in psutil.Process(pid).open_files()]
    assert (pid == worker.pid) is not spared


def test_where_nothing_answers_the_worker_starts_all_the_same(stage: Stage) -> None:
    pid, _, _ = stage.run(UNDERSTUDY_SPARES="none-of-this-name")
    assert pid == stage.workers[-1].pid


def test_another_python_than_the_jvms_is_started_as_it_is(stage: Stage) -> None:
    assert stage.spares.program(sys.executable) == str(PROGRAM)
    assert stage.spares.program("theirs") == "theirs"


def test_whatever_else_is_started_is_the_workers_python(stage: Stage) -> None:
    ask = [str(PROGRAM), "-c", "import sys; print(sys.executable)"]
    said = subprocess.run(ask, env=stage.environment, capture_output=True, text=True, check=True).stdout
    assert said.strip() == sys.executable
