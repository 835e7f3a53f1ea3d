"""Spare Python interpreters for what Spark runs in the driver: at a takeover a query's start finds one that has its imports.

Each is a copy of a process that Spark has started here before, as far as can be: same program, directory and environment, and the
libraries that the last one has imported. It forks a worker where a process would have been started the same way.
"""

from __future__ import annotations

import enum
import os
import re
import secrets
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.driver.worker_path.understudy_spare import IDLE, NAMES, receive, send
from understudy.launcher import from_lasting_thread
from understudy.processes import die_with_parent

#: What Spark is told to start, in place of the workers' Python.
PROGRAM = Path(__file__).parent / "worker_path" / "understudy-python"

#: How long after a start of a process a spare is made ready for the next one, in seconds: the first has the processors first.
_PAUSE = 5.0
#: How long a process that asks may take to say what for, in seconds.
_PATIENCE = 5.0
#: How long a spare that forks a worker is waited for by the next one, in seconds: less than the program waits.
_PATIENCE_OF_FORK = 1.0
#: How long nothing is answered after an error, in seconds.
_AFTER_ERROR = 0.1
#: Variables that every shell passes on; and functions of a shell, which its scripts alone may miss.
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*|BASH_FUNC_.*")
#: Different for every worker, and read by it at its start.
_EACH_TIME = "PYTHON_WORKER_FACTORY_"


class _State(enum.Enum):
    IMPORTS = enum.auto()
    IDLE = enum.auto()
    FORKS = enum.auto()


@dataclass(slots=True, eq=False)
class _Spare:
    """``state``: what it does, as far as it has told. ``known``: what it was told to import."""

    process: subprocess.Popen[bytes]
    link: socket.socket
    made_for: dict[str, Any]
    state: _State = _State.IMPORTS
    known: set[str] = field(default_factory=set)

    def imports(self, names: list[str]) -> None:
        """Of one that is idle."""
        self.state = _State.IMPORTS
        self.known.update(names)
        with suppress(OSError):  # it has ended, which is noticed when it is wanted
            send(self.link, names)

    def takes(self, task: dict[str, Any], descriptors: tuple[int, ...]) -> bool:
        """False where it has ended, or is not idle."""
        if self.state is not _State.IDLE:
            return False
        self.state = _State.FORKS
        try:
            send(self.link, task, descriptors)
        except OSError:
            return False
        return True

    def end(self) -> None:
        """It ends by itself, once its last worker has."""
        with suppress(OSError):  # closed where it was listened to, to its end
            self.link.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True, eq=False)
class _Kind:
    """What is known of the workers of one module of Spark's."""

    imports: dict[str, None]
    spare: _Spare | None = None
    lock: threading.Condition = field(default_factory=threading.Condition)  # guards the others; notified of states


class SpareWorkers:
    """Answers the processes of ``PROGRAM``. ``alive``: the descriptor of the proof of life, which spares inherit."""

    def __init__(self, alive: int, pause: float = _PAUSE) -> None:
        self._alive = alive
        self._pause = pause
        self._kinds: dict[str, _Kind] = {}
        self._python = ""
        self._name = f"understudy-{secrets.token_hex(16)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind("\0" + self._name)  # no file to clean up after a kill
        self._listener.listen()
        threading.Thread(target=self._answer, name="spare-workers", daemon=True).start()

    def environment(self, python: str) -> dict[str, str]:
        """What the JVM's environment needs, so that its workers' ``python`` may be replaced by ``PROGRAM``."""
        self._python = python
        return {"UNDERSTUDY_SPARES": self._name, "UNDERSTUDY_WORKER_PYTHON": python}

    def program(self, python: str, variables: Iterable[str]) -> str:
        """What Spark is to start for ``python``, with these environment variables: itself where the JVM was started for another, where
        ours cannot be executed, and where the shell that executes it would lose a variable, whose name is none to it.
        """
        runs = all(os.access(each, os.X_OK) for each in (PROGRAM, "/bin/sh"))
        passes = all(map(_NAME.fullmatch, variables))
        return str(PROGRAM) if python == self._python and runs and passes else python

    def _answer(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                with client:
                    client.settimeout(_PATIENCE)
                    if _user(client) == os.getuid():
                        self._serve(client)
            except Exception:  # noqa: BLE001 - of this one; no more descriptors or threads, perhaps
                time.sleep(_AFTER_ERROR)

    def _serve(self, client: socket.socket) -> None:
        """Closing the link to ``client``, without an answer, makes it do the work itself."""
        task, descriptors = receive(client, 2)
        try:
            made_for = _made_for(task)
            client.setblocking(True)
            module = task["arguments"][1]
            kind = self._kinds.setdefault(module, _Kind({module: None}))
            with kind.lock:
                spare = _fit(kind, made_for)
                if spare is not None:
                    kind.lock.wait_for(lambda: spare.state is not _State.FORKS, _PATIENCE_OF_FORK)
                    spare.takes(task, (client.fileno(), *descriptors))
        finally:
            for each in descriptors:
                os.close(each)
        if spare is None:
            timer = threading.Timer(self._pause, self._make, (kind, made_for))
            timer.daemon = True
            timer.start()

    def _make(self, kind: _Kind, made_for: dict[str, Any]) -> None:
        with kind.lock:
            if _fit(kind, made_for) is not None:
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    [self._python, "-m", "understudy_spare", "stand-by", str(theirs.fileno())],
                    cwd=made_for["directory"],
                    env=made_for["environment"],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._alive),
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - as for the JVM
                )

            with theirs:
                try:
                    process = from_lasting_thread(start)
                except OSError:  # the interpreter or the directory has gone: Spark will say so
                    ours.close()
                    return
            kind.spare = _Spare(process, ours, made_for)
        threading.Thread(target=_learn, args=(kind.spare, kind), name="spare-worker", daemon=True).start()


def _made_for(task: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be the same for a spare's workers to be what Spark would start."""
    kept = {name: text for name, text in task["environment"].items() if not name.startswith(_EACH_TIME)}
    return {"arguments": task["arguments"], "directory": task["directory"], "environment": kept}


def _fit(kind: _Kind, made_for: dict[str, Any]) -> _Spare | None:
    """The spare, if it is what Spark would start now. One of another environment is of no use any more."""
    spare = kind.spare
    if spare is not None and (spare.made_for != made_for or spare.process.poll() is not None):
        kind.spare = None
        spare.end()
    return kind.spare


def _learn(spare: _Spare, kind: _Kind) -> None:
    """What a worker has imported, the spare imports as well, once; the next ones have it. Until the spare has ended."""
    with spare.link, suppress(OSError, EOFError, ValueError):
        while True:
            message, _ = receive(spare.link)
            with kind.lock:
                if message == IDLE:
                    spare.state = _State.IDLE
                    kind.lock.notify_all()
                else:
                    kind.imports.update(dict.fromkeys(map(str, message)))
                more = [name for name in kind.imports if name not in spare.known][:NAMES]
                if spare.state is _State.IDLE and more:
                    spare.imports(more)
    spare.process.wait()


def _user(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
