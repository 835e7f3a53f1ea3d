"""A supervisor's place taken by a test: a real driver process behind a real gate, led by hand."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.spark import quick
from tests.spark.in_force import unfenced
from understudy.clock import NEVER, Instant, instant
from understudy.config.tree import Rehearsal, RehearsalMode, SparkDefaults
from understudy.environment import find_fence, find_java, spark_environment, spark_version
from understudy.fencing.activity import Activity
from understudy.fencing.counters import CountersPage
from understudy.fencing.gate import GateWriter
from understudy.processes import Alive, kill_all
from understudy.protocol.counters import path_of
from understudy.protocol.driver_spec import CHANNEL_VARIABLE, HOLDER_VARIABLE, SPEC_VARIABLE, DriverSpec
from understudy.protocol.gate import State, View
from understudy.protocol.messages import Attached, Granted, Message, decode, encode
from understudy.protocol.token import Token
from understudy.supervisor.driver_process import COMMAND, like_submit

M = TypeVar("M", bound=Message)
PATIENCE = 120.0
_LOCAL = (
    *("--master", "local[2]"),
    *("--conf", "spark.ui.enabled=false"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)


class Rig:
    """``home`` holds everything; ``said`` every message so far. Leaving the context kills what is left."""

    def __init__(
        self,
        home: Path,
        script: str,
        *arguments: str,
        rehearse: RehearsalMode = "off",
        rounds: int = 2,
        every: float = 30.0,
        rows_per_hour: int = 10**9,
        submit: Sequence[str] = (),
        tune: bool = False,
        user_code: bool = False,
    ) -> None:
        self.home = home
        self.holder = str(uuid.uuid4())
        self._began = time.time()
        home.mkdir(parents=True, exist_ok=True)
        self.script = home / "job.py"
        self.script.write_text(script)
        self.fence_log = home / f"fence-{self.holder}.jsonl"
        # Two files: Python writes each argument of a print() by itself, and in one file a warning of the JVM's comes between.
        self.output = home / f"output-{self.holder[:8]}.txt"
        self.errors = home / f"errors-{self.holder[:8]}.txt"
        self.scratch = home / f"scratch-{self.holder[:8]}"
        self.gate = GateWriter(home / f"gate-{self.holder[:8]}")
        self.activity = Activity(Path(f"{self.gate.path}.activity"), create=True)
        self.counters = CountersPage.create(path_of(self.gate.path))
        self.alive = Alive(home / "alive" / self.holder)
        self.said: list[Message] = []
        self._heard: queue.Queue[Message] = queue.Queue()
        self._ours, theirs = socket.socketpair()
        spec = DriverSpec(
            holder=self.holder,
            cluster="test",
            job="test",
            lock_kind="file",
            gate=str(self.gate.path),
            alive=str(self.alive.path),
            fence_jar=os.environ.get("UNDERSTUDY_TEST_JAR") or str(find_fence(spark_version())),
            fence_log=str(self.fence_log),
            write_timeout=4.0,
            checkpoints=str(home / "checkpoints"),
            scratch=str(self.scratch),
            rehearsal=Rehearsal(
                mode=rehearse, rounds=rounds, user_code=user_code, every=every, rows=rows_per_hour, bytes=10**12
            ),
            spark=SparkDefaults(tune=tune),
            parent=os.getpid(),
            low_priority=False,
            script=str(self.script),
            arguments=list(arguments),
            submit=[*_LOCAL, *quick.submit_options(), *submit],
        )
        environment = {
            **like_submit(spark_environment()),
            "JAVA_HOME": str(find_java().home),
            SPEC_VARIABLE: spec.encode(),
            CHANNEL_VARIABLE: f"{theirs.fileno()},{self.alive.descriptor}",
            HOLDER_VARIABLE: self.holder,
        }
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                COMMAND,
                env=environment,
                cwd=home,
                pass_fds=(theirs.fileno(), self.alive.descriptor),
                start_new_session=True,
                stdout=output,
                stderr=errors,
            )
        theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            sys.stderr.write(f"--- output of the driver\n{self.text()}\n--- messages\n{self.said}\n")
        self.kill()
        self._ours.close()
        self.gate.discard()
        self.alive.leave()
        if kind is None:
            assert not unfenced(self.home, self._began), "the fence was not in force"

    def _listen(self) -> None:
        try:
            with self._ours.makefile("rb") as lines:
                for line in lines:
                    message = decode(line)
                    self.said.append(message)
                    self._heard.put(message)
        except (OSError, ValueError):
            return

    def text(self) -> str:
        """What the driver wrote: its standard error, then its standard output."""
        return "".join(path.read_text(errors="replace") for path in (self.errors, self.output))

    def until(self, path: Path, text: str) -> None:
        """Wait until ``text`` stands in the file ``path``; fail at once when the driver has ended without it."""
        give_up = time.monotonic() + PATIENCE
        while True:
            ended = self.process.poll() is not None
            if path.exists() and text in path.read_text(errors="replace"):
                return
            if ended or time.monotonic() > give_up:
                raise AssertionError(f"{text!r} never appeared in {path}")
            time.sleep(0.05)

    def wait_for(self, kind: type[M], timeout: float = PATIENCE) -> M:
        """The next message of this kind; ``queue.Empty`` when none comes."""
        while True:
            if isinstance(message := self.hear(timeout), kind):
                return message

    def hear(self, timeout: float = PATIENCE) -> Message:
        """The next message; ``queue.Empty`` when none comes."""
        return self._heard.get(timeout=timeout)

    def lead(
        self,
        epoch: int = 1,
        attempt: int = 1,
        close: Instant = NEVER,
        kill: Instant = NEVER,
        park: Instant = NEVER,
        recorded: dict[str, int] | None = None,
        committed: dict[str, int] | None = None,
    ) -> None:
        """Open the gate and grant. Without deadlines the gate stays open until told otherwise."""
        self.gate.publish(View(State.OPEN, Token(epoch, attempt), close, kill, park))
        self.say(Granted(int(Token(epoch, attempt)), recorded or {}, committed or {}))

    def expire(self) -> None:
        """The lease was not renewed: the close deadline passes now, the kill deadline has not come."""
        self.gate.publish(View(State.OPEN, self.gate.view.token, instant(), NEVER, NEVER))

    def revoke(self) -> None:
        self.gate.publish(View(State.REVOKED, self.gate.view.token))

    def say(self, message: Message) -> None:
        self._ours.sendall(encode(message))

    def attached(self) -> Attached:
        return self.wait_for(Attached)

    def kill(self) -> None:
        kill_all(self.process.pid, self.holder, within=20)
        self.process.wait()
