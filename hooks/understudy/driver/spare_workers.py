"""Spare Python interpreters for what Spark runs in the driver: at a takeover a query's start finds one that has its imports.

Each is the copy of a process that Spark has started here before, as far as can be: same program, directory and environment, and the
libraries that the last one has imported. It is used once, for a process that would have been started the same way.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.driver.worker_path.understudy_spare import receive, send
from understudy.launcher import from_lasting_thread
from understudy.processes import die_with_parent

#: What Spark is told to start, in place of the workers' Python.
PROGRAM = Path(__file__).parent / "worker_path" / "understudy-python"

#: How long after a start another spare is made ready, in seconds: what was started has the processors first.
_PAUSE = 5.0
#: How many times as long that is on a leader, which needs one if its query fails.
_LEADS = 12
#: Spares of one kind, one of which no rehearsal takes: a takeover may come in the middle of it. Each is as large as its worker.
_READY = 2
#: How long a process that asks may take to say what for, in seconds.
_PATIENCE = 5.0
#: Different for every worker, and read by it at its start.
_EACH_TIME = "PYTHON_WORKER_FACTORY_"


@dataclass(slots=True, eq=False)
class _Spare:
    process: subprocess.Popen[bytes]
    link: socket.socket
    made_for: dict[str, Any]

    def told(self, message: Any, descriptors: tuple[int, ...] = ()) -> bool:
        """False where it has ended."""
        try:
            send(self.link, message, descriptors)
        except OSError:
            return False
        return True

    def end(self) -> None:
        self.link.close()
        self.process.kill()
        self.process.wait()


@dataclass(slots=True, eq=False)
class _Kind:
    """Spares for one module of Spark's, which is the last of ``imports``. ``wanted``: how many of them are there, or will be."""

    imports: list[str]
    ready: list[_Spare] = field(default_factory=list)
    wanted: int = 0


class SpareWorkers:
    """Answers the processes of ``PROGRAM``. ``alive``: the descriptor of the proof of life, which spares inherit. ``standing_by``: whether
    what is started now belongs to a rehearsal.
    """

    def __init__(self, alive: int, standing_by: Callable[[], bool], pause: float = _PAUSE) -> None:
        self._alive = alive
        self._standing_by = standing_by
        self._pause = pause
        self._kinds: dict[str, _Kind] = {}
        self._lock = threading.Lock()  # guards _kinds
        self._python = ""
        self._name = f"understudy-{secrets.token_hex(16)}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("\0" + self._name)  # no file to clean up after a kill
        self._listener.listen()
        threading.Thread(target=self._answer, name="spare-workers", daemon=True).start()

    def environment(self, python: str) -> dict[str, str]:
        """What the JVM's environment needs, so that its workers' ``python`` may be replaced by ``PROGRAM``."""
        self._python = python
        return {"UNDERSTUDY_SPARES": self._name, "UNDERSTUDY_WORKER_PYTHON": python}

    def program(self, python: str) -> str:
        """What Spark is to start for ``python``: itself where the JVM was started for another, or where ours cannot be executed."""
        return str(PROGRAM) if python == self._python and os.access(PROGRAM, os.X_OK) else python

    def _answer(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with client, suppress(OSError, EOFError, ValueError, KeyError, IndexError):
                client.settimeout(_PATIENCE)
                if _user(client) == os.getuid():
                    self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        """Closing the link to ``client``, without an answer, makes it do the work itself."""
        task, descriptors = receive(client, 2)
        try:
            made_for = _made_for(task)
            kind = self._kind(task["arguments"][1])
            spare = self._taken(kind, made_for)
            client.setblocking(True)
            taken = spare is not None and spare.told(task, (client.fileno(), *descriptors))
        finally:
            for each in descriptors:
                os.close(each)
        if spare is not None and taken:
            threading.Thread(target=self._learn, args=(spare, kind), name="spare-worker", daemon=True).start()
        self._replace(kind, made_for)

    def _kind(self, module: str) -> _Kind:
        with self._lock:
            return self._kinds.setdefault(module, _Kind([module]))

    def _taken(self, kind: _Kind, made_for: dict[str, Any]) -> _Spare | None:
        """One that is what Spark would start now. Those of another environment are of no use any more."""
        kept = _READY - 1 if self._standing_by() else 0
        with self._lock:
            fit = [each for each in kind.ready if each.made_for == made_for and each.process.poll() is None]
            unfit = [each for each in kind.ready if each not in fit]
            taken = fit.pop(0) if len(fit) > kept else None
            kind.wanted -= len(kind.ready) - len(fit)
            kind.ready = fit
        for each in unfit:
            each.end()
        return taken

    def _replace(self, kind: _Kind, made_for: dict[str, Any]) -> None:
        pause = self._pause if self._standing_by() else self._pause * _LEADS
        with self._lock:
            missing = _READY - kind.wanted
            kind.wanted += missing
        for _ in range(missing):
            timer = threading.Timer(pause, self._make, (kind, made_for))
            timer.daemon = True
            timer.start()

    def _make(self, kind: _Kind, made_for: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    [self._python, "-m", "understudy_spare", "stand-by", str(theirs.fileno())],
                    cwd=made_for["directory"],
                    env=made_for["environment"],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._alive),
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - as for the JVM
                )

            try:
                process = from_lasting_thread(start)
            except OSError:  # the interpreter or the directory has gone: Spark will say so
                ours.close()
                with self._lock:
                    kind.wanted -= 1
                return
        spare = _Spare(process, ours, made_for)
        with self._lock:
            spare.told(kind.imports)
            kind.ready.append(spare)

    def _learn(self, spare: _Spare, kind: _Kind) -> None:
        """What it has imported, those that wait import as well."""
        with suppress(OSError, EOFError, ValueError):
            while True:
                found, _ = receive(spare.link)
                with self._lock:
                    before, kind.imports = kind.imports, [*map(str, found), kind.imports[-1]]
                    for each in kind.ready if kind.imports != before else ():
                        each.told(kind.imports)
        spare.link.close()
        spare.process.wait()


def _made_for(task: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be the same for a spare to be what Spark would start."""
    kept = {name: text for name, text in task["environment"].items() if not name.startswith(_EACH_TIME)}
    return {"arguments": task["arguments"], "directory": task["directory"], "environment": kept}


def _user(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
