"""Replicas as separate processes, started again when they exit, as a Deployment would; and gone with us, however we go.

Every process carries ``UNDERSTUDY_BENCH=<run>`` in its environment: at the end every process that still carries this run's mark is
killed, so that nothing is left behind even when a tree was torn apart. If *we* are SIGKILLed, the kernel kills each
replica's first process (PR_SET_PDEATHSIG), and what hangs below it dies with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from testkit import procs

MARK = "UNDERSTUDY_BENCH"
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_us() -> None:
    """Between fork and exec: ask the kernel for SIGKILL when the thread that started this process ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@dataclass(slots=True)
class Life:
    """One run of a replica's first process, from ``born`` to ``died`` (s since 1970; None: it was stopped at the end)."""

    lane: int
    pid: int
    log: Path
    born: float
    died: float | None = None


@dataclass(slots=True)
class Replica:
    """One place in the Deployment: the process in it now, how often it was started, and where its output goes."""

    index: int
    logs: Path
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None
    down_since: float | None = None
    _output: IO[bytes] | None = None

    @property
    def name(self) -> str:
        return f"replica {self.index + 1}"

    @property
    def pid(self) -> int | None:
        return None if self.process is None or self.process.poll() is not None else self.process.pid

    @property
    def log(self) -> Path:
        return self.logs / f"replica-{self.index + 1}-{self.starts}.log"

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.starts += 1
        self.logs.mkdir(parents=True, exist_ok=True)
        if self._output is not None:
            self._output.close()
        self._output = self.log.open("wb")
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=die_with_us,  # noqa: PLW1509 - one libc call on a handle that was opened before the fork
        )
        self.down_since = None

    def processes(self) -> procs.ReplicaProcesses | None:
        pid = self.pid
        return None if pid is None else procs.replica_of(pid)

    def close(self) -> None:
        if self._output is not None:
            self._output.close()


@dataclass(slots=True)
class Deployment:
    """Keeps ``count`` replicas of ``command`` running; one that exits is started again ``back_in_s`` later.

    ``command`` gets the replica's index. All processes are started from one thread, which lives until ``stop()``: the
    kernel takes the death of the *thread* that forked as the death of the parent.
    """

    command: Callable[[int], Sequence[str]]
    count: int
    logs: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    back_in_s: float = 1.0
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    replicas: list[Replica] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self.replicas = [Replica(index, self.logs) for index in range(self.count)]
        self._thread = threading.Thread(target=self._keep, name="deployment", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        environment = {**os.environ, **self.environment, MARK: self.run}
        for replica in self.replicas:
            self._begin(replica, environment)
        while not self._stopped.wait(0.02):
            for replica in self.replicas:
                if replica.pid is not None:
                    continue
                now = time.monotonic()
                if replica.down_since is None:
                    replica.down_since = now
                    self._ended(replica)
                if now - replica.down_since >= self.back_in_s and not self._stopped.is_set():
                    self._begin(replica, environment)

    def _begin(self, replica: Replica, environment: Mapping[str, str]) -> None:
        replica.start(self.command(replica.index), environment)
        if replica.pid is not None:
            self.lives.append(Life(replica.index, replica.pid, replica.log, time.time()))

    def _ended(self, replica: Replica) -> None:
        for life in self.lives:
            if life.log == replica.log:
                life.died = life.died or time.time()

    def stop(self, patience_s: float = 8.0) -> None:
        """SIGTERM to every replica, then SIGKILL to every process of this run that is left. Safe to call twice."""
        self._stopped.set()
        for replica in self.replicas:
            if replica.process is not None and replica.process.poll() is None:
                replica.process.send_signal(signal.SIGCONT)
                replica.process.terminate()
        deadline = time.monotonic() + patience_s
        while marked(self.run) and time.monotonic() < deadline:
            for replica in self.replicas:
                if replica.process is not None:
                    replica.process.poll()
            time.sleep(0.05)
        kill_marked(self.run)
        for replica in self.replicas:
            if replica.process is not None:
                replica.process.wait()
                self._ended(replica)
            replica.close()
        if self._thread is not None:
            self._thread.join()


def marked(run: str) -> list[int]:
    """Every living process that carries this run's mark in its environment."""
    mark = f"{MARK}={run}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def kill_marked(run: str, within_s: float = 5.0) -> list[int]:
    """SIGKILL until nothing carries the mark; returns what could not be killed in time."""
    deadline = time.monotonic() + within_s
    while (left := marked(run)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return left
