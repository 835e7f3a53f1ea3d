"""Spare Python interpreters for what Spark runs in the driver: at a takeover a query's start finds one that has its imports.

Each is a copy of a process that Spark has started here before, as far as can be: same program, directory and environment, and the
libraries that the last one has imported. It forks a worker where a process would have been started the same way.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.driver.worker_path.understudy_spare import receive, send
from understudy.launcher import from_lasting_thread
from understudy.processes import die_with_parent

#: What Spark is told to start, in place of the workers' Python.
PROGRAM = Path(__file__).parent / "worker_path" / "understudy-python"

#: How long after a start of a process a spare is made ready for the next one, in seconds: the first has the processors first.
_PAUSE = 5.0
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
        """Its workers, if it has any, go on."""
        with suppress(OSError):  # closed where it was listened to, to its end
            self.link.shutdown(socket.SHUT_RDWR)
        self.process.kill()
        self.process.wait()


@dataclass(slots=True, eq=False)
class _Kind:
    """What is known of the workers of one module of Spark's, which is the last of ``imports``."""

    imports: list[str]
    spare: _Spare | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)  # guards the others


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

    def program(self, python: str) -> str:
        """What Spark is to start for ``python``: itself where the JVM was started for another, or where ours cannot be executed."""
        runs = all(os.access(each, os.X_OK) for each in (PROGRAM, "/bin/sh"))
        return str(PROGRAM) if python == self._python and runs else python

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
            client.setblocking(True)
            module = task["arguments"][1]
            kind = self._kinds.setdefault(module, _Kind([module]))
            with kind.lock:
                spare = _fit(kind, _made_for(task))
                taken = spare is not None and spare.told(task, (client.fileno(), *descriptors))
        finally:
            for each in descriptors:
                os.close(each)
        if not taken:
            timer = threading.Timer(self._pause, self._make, (kind, _made_for(task)))
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
            kind.spare.told(kind.imports)
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
    """What a worker has imported, the spare imports as well, once; the next ones have it."""
    with spare.link, suppress(OSError, EOFError, ValueError):
        while True:
            found, _ = receive(spare.link)
            with kind.lock:
                before, kind.imports = kind.imports, [*map(str, found), kind.imports[-1]]
                if set(kind.imports) - set(before):
                    spare.told(kind.imports)


def _user(client: socket.socket) -> int:
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
