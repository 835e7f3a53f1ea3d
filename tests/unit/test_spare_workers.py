"""Spare interpreters for what Spark runs in the driver, with the real program that Spark is told to start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from understudy.driver import spare_workers, workers
from understudy.driver.spare_workers import PROGRAM, SpareWorkers, _Kind, _State
from understudy.processes import Alive

MODULE = "pyspark.sql.streaming.toy"

#: What a worker of Spark's does here: tells who it is and what was there before it, and imports a library.
TOY = """
import os, sys, time
print(os.getpid(), os.getppid(), "psutil" in sys.modules, os.environ["PYTHON_WORKER_FACTORY_PORT"], flush=True)
import psutil
print("to be seen", file=sys.stderr, flush=True)
if os.environ["PYTHON_WORKER_FACTORY_PORT"] == "0":
    time.sleep(60)
sys.exit(3)
"""


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker tells: its process and that one's parent, whether the library was there before, and the port that it saw."""

    pid: int
    parent: int
    imported: bool
    port: int

    @classmethod
    def of(cls, line: str) -> Told:
        pid, parent, imported, port = line.split()
        return cls(int(pid), int(parent), imported == "True", int(port))


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
        self.spares = SpareWorkers(alive.descriptor, pause=0.0)
        self.environment = {
            **os.environ,
            **workers.with_path({"PYTHONPATH": str(home / "lib")}),
            "UNDERSTUDY_ALIVE": str(alive.path),
            **self.spares.environment(sys.executable),
        }
        self.workers: list[subprocess.Popen[str]] = []

    def start(self, port: int = 1, **environment: str) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [self.spares.program(sys.executable, ()), "-m", MODULE],
            cwd=self.home,
            env={**self.environment, **environment, "PYTHON_WORKER_FACTORY_PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.workers.append(worker)
        return worker

    def run(self, port: int = 1, **environment: str) -> Told:
        worker = self.start(port=port, **environment)
        out, err = worker.communicate(timeout=60)
        assert worker.returncode == 3, err
        assert err == "to be seen\n"
        return Told.of(out)

    @staticmethod
    def begun(worker: subprocess.Popen[str]) -> Told:
        """What a worker tells that stays."""
        assert worker.stdout is not None
        return Told.of(worker.stdout.readline())

    def standing_by(self) -> list[psutil.Process]:
        """Of this stage: one that the last test's stage made at its very end may be there as well."""
        return [each for each in psutil.Process().children() if self.made(each)]

    def made(self, process: psutil.Process) -> bool:
        try:
            return "understudy_spare" in process.cmdline() and process.cwd() == str(self.home)
        except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has ended
            return False

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stand_by(self) -> psutil.Process:
        """The spare, once it has imported what it was told to, and waits for a task."""
        self.until(lambda: len(self.standing_by()) == 1 and self.idle())
        return self.standing_by()[0]

    def idle(self) -> bool:
        spare = self.spares._kinds[MODULE].spare
        return spare is not None and spare.state is _State.IDLE and spare.process.poll() is None


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


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


def test_the_first_worker_is_the_process_that_was_started_and_others_are_forked_by_the_spare(stage: Stage) -> None:
    assert stage.run().pid == stage.workers[0].pid
    spare = stage.stand_by()
    for port in (2, 3):
        told = stage.run(port=port)
        assert told.parent == spare.pid == stage.stand_by().pid
        assert told.port == port


def test_two_workers_of_one_spare_run_at_a_time(stage: Stage) -> None:
    stage.run()
    spare = stage.stand_by()
    begun = [stage.begun(stage.start(port=0)) for _ in range(2)]
    assert [each.parent for each in begun] == [spare.pid] * 2
    assert len({each.pid for each in begun}) == 2


def test_a_spare_imports_what_a_worker_did(stage: Stage) -> None:
    stage.run()
    spare = stage.stand_by()
    assert not stage.run().imported  # none has told yet
    stage.until(lambda: "psutil" in str(spare.memory_maps()))
    stage.stand_by()
    assert stage.run().imported


def test_a_spare_imports_what_a_worker_did_that_was_killed(stage: Stage) -> None:
    stage.run()
    spare = stage.stand_by()
    worker = stage.start(port=0)
    assert worker.stderr is not None
    worker.stderr.readline()  # it has imported
    worker.kill()
    stage.until(lambda: "psutil" in str(spare.memory_maps()))
    stage.stand_by()
    assert stage.run().imported


def test_a_worker_of_another_environment_gets_no_spare_and_the_next_one_does(stage: Stage) -> None:
    stage.run()
    stage.stand_by()
    assert stage.run(THEIRS="changed").pid == stage.workers[-1].pid
    spare = stage.stand_by()
    assert stage.run(THEIRS="changed").parent == spare.pid


def test_a_forked_worker_ends_with_the_process_that_spark_knows(stage: Stage) -> None:
    stage.run()
    stage.stand_by()
    worker = stage.start(port=0)
    forked = psutil.Process(stage.begun(worker).pid)
    worker.send_signal(signal.SIGTERM)
    stage.until(lambda: ended(forked))


def test_a_forked_worker_ends_with_its_spare(stage: Stage) -> None:
    stage.run()
    spare = stage.stand_by()
    forked = psutil.Process(stage.begun(stage.start(port=0)).pid)
    spare.kill()
    stage.until(lambda: ended(forked))


def test_a_spare_that_imports_is_not_waited_for(stage: Stage) -> None:
    stage.spares._kinds[MODULE] = _Kind({MODULE: None, "slow_to_import": None})
    (stage.home / "lib" / "slow_to_import.py").write_text("import time; time.sleep(600)")
    stage.run()
    stage.until(lambda: len(stage.standing_by()) == 1)
    assert stage.run().pid == stage.workers[-1].pid


def test_a_spare_that_does_not_answer_is_not_waited_for_long_and_does_it_not_again(stage: Stage) -> None:
    stage.run()
    spare = stage.stand_by()
    spare.suspend()
    worker = stage.start(port=0)
    assert stage.begun(worker).pid == worker.pid
    spare.resume()
    stage.until(stage.idle)
    stage.until(lambda: not [each for each in spare.children() if each.status() != psutil.STATUS_ZOMBIE])


def test_workers_of_a_spare_that_is_of_no_use_any_more_go_on(stage: Stage) -> None:
    stage.run()
    spare = stage.stand_by()
    forked = psutil.Process(stage.begun(stage.start(port=0)).pid)
    stage.run(THEIRS="changed")
    stage.until(lambda: spare.pid not in [each.pid for each in stage.standing_by()] or len(stage.standing_by()) == 2)
    assert forked.is_running()
    assert stage.run(THEIRS="changed").parent != spare.pid
    forked.kill()
    stage.until(lambda: ended(spare))


def test_after_an_error_the_next_one_is_answered(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.run()
    spare = stage.stand_by()
    with monkeypatch.context() as patched:
        patched.setattr(spare_workers, "receive", lambda *_: 1 / 0)
        assert stage.run().pid == stage.workers[-1].pid
    assert stage.run().parent == spare.pid


def test_a_spare_that_has_died_is_missed_by_none(stage: Stage) -> None:
    stage.run()
    stage.stand_by().kill()
    assert stage.run().pid == stage.workers[-1].pid
    spare = stage.stand_by()
    assert stage.run().parent == spare.pid


@pytest.mark.parametrize("forked", [False, True])
def test_a_worker_holds_its_replicas_proof_of_life(stage: Stage, forked: bool) -> None:
    if forked:
        stage.run()
        stage.stand_by()
    worker = stage.start(port=0)
    pid = stage.begun(worker).pid
    assert str(stage.alive.path) in [each.path for each in psutil.Process(pid).open_files()]
    assert (pid == worker.pid) is not forked


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize(("user", "answer"), [(0, "t"), (65534, "")])
def test_another_user_is_given_no_interpreter_of_ours(stage: Stage, user: int, answer: str) -> None:
    stage.run()
    as_the_spare_was = stage.stand_by().environ()
    task = {"arguments": ["-m", MODULE], "directory": str(stage.home), "environment": as_the_spare_was}
    ask = f"""
import contextlib, json, os, socket, sys
from understudy.driver.worker_path.understudy_spare import send
task = json.load(sys.stdin)
os.setuid({user})
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect("\\0{stage.environment["UNDERSTUDY_SPARES"]}")
with contextlib.suppress(BrokenPipeError):
    send(link, task, (2, 2))
with contextlib.suppress(ConnectionResetError):
    print(link.recv(1).decode())
"""
    done = subprocess.run(
        [sys.executable, "-c", ask], input=json.dumps(task), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == answer


def test_where_nothing_answers_the_worker_starts_all_the_same(stage: Stage) -> None:
    assert stage.run(UNDERSTUDY_SPARES="none-of-this-name").pid == stage.workers[-1].pid


def test_another_python_than_the_jvms_is_started_as_it_is(stage: Stage) -> None:
    assert stage.spares.program(sys.executable, ()) == str(PROGRAM)
    assert stage.spares.program("theirs", ()) == "theirs"


@pytest.mark.parametrize(
    ("name", "passes"), [("HOME", True), ("BASH_FUNC_module%%", True), ("app.region", False), ("1", False)]
)
def test_workers_have_every_variable_of_theirs_though_a_shell_starts_ours(
    stage: Stage, name: str, passes: bool
) -> None:
    assert stage.spares.program(sys.executable, ["PATH", name]) == (str(PROGRAM) if passes else sys.executable)


def test_a_daemon_of_pysparks_is_ours_which_holds_the_proof_of_life(stage: Stage) -> None:
    (stage.home / "lib" / "understudy_worker_daemon.py").write_text("import sys; print(sys.argv[1:])")
    stage.environment["PYTHONPATH"] = str(stage.home / "lib")
    ask = [str(PROGRAM), "-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"]
    said = subprocess.run(ask, env=stage.environment, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['pyspark.sql.worker.plan_data_source_read']"


def test_whatever_else_is_started_is_the_workers_python(stage: Stage) -> None:
    ask = [str(PROGRAM), "-c", "import sys; print(sys.executable)"]
    said = subprocess.run(ask, env=stage.environment, capture_output=True, text=True, check=True).stdout
    assert said.strip() == sys.executable
