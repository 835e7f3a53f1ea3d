"""Spark in processes that a script starts: refused, because only the script's own process has the gate and the fence.

PySpark asks two variables for a JVM that is there already, as under spark-submit, and every process of the script inherits them. Here
they name a port of the driver's, where the answer is the reason, and by which the driver learns of it. Python workers do not inherit
them (the JVM's environment lacks them), and spark-submit sets them for a job of its own.

*Not* seen: a process that is started without these variables, and Spark in another language.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress

from understudy.errors import ScriptProblem
from understudy.protocol.messages import Advice, Message

PORT_VARIABLE = "PYSPARK_GATEWAY_PORT"
_SECRET_VARIABLE = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 - its name
#: What every secret of ours begins with: a replica that is started below a driver knows by it that there is no JVM.
_PREFIX = "understudy-"

#: Seconds for one message of a process that has connected.
_PATIENCE = 5.0
#: Seconds without an answer after an error, such as no more descriptors.
_AFTER_ERROR = 0.1
_LONGEST_LINE = 1 << 12
#: Of Py4J's protocol: a command is closed by this line; "done"; and "an error, which is this text". The first two lines are the proof.
_END = b"e"
_DONE = b"!yv\n"
_FAILED = b"!xs%s\n"


def refusal() -> ScriptProblem:
    return ScriptProblem(
        "a process that the script has started uses Spark, and only the script's own process has the gate and the fence",
        where="child process",
        remedy="Use Spark in the script's own process, in threads where several things run at a time; start another job by spark-submit",
    )


def only_in(driver: int) -> None:
    """Raise ``ScriptProblem`` in any process but the one with this number, a forked child of it, and let the driver know."""
    if os.getpid() != driver:
        _tell(os.environ)
        raise refusal()


@contextmanager
def as_without_jvm(environ: MutableMapping[str, str]) -> Iterator[None]:
    """For the driver's own launch of a JVM, and for that JVM's environment."""
    taken = {name: environ.pop(name) for name in (PORT_VARIABLE, _SECRET_VARIABLE) if name in environ}
    try:
        yield
    finally:
        environ.update(taken)


def names_a_jvm(environ: Mapping[str, str]) -> bool:
    """Whether there is one already for PySpark to use."""
    return bool(environ.get(PORT_VARIABLE)) and not environ.get(_SECRET_VARIABLE, "").startswith(_PREFIX)


class Children:
    """``refused`` gets the error that a process has met, in a thread."""

    def __init__(self, refused: Callable[[ScriptProblem], None], send: Callable[[Message], None]) -> None:
        self._refused = refused
        self._send = send
        self._secret = f"{_PREFIX}{secrets.token_hex(32)}"
        self._listener = socket.create_server(("127.0.0.1", 0))  # where Py4J looks
        self._told = False

    def listen(self, environ: MutableMapping[str, str]) -> None:
        """Answer from now on the processes that inherit ``environ``."""
        environ[PORT_VARIABLE], environ[_SECRET_VARIABLE] = str(self._listener.getsockname()[1]), self._secret
        threading.Thread(target=self._answer_all, name="children", daemon=True).start()

    def _answer_all(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                client.settimeout(_PATIENCE)
                with client:
                    self._answer(client)
            except OSError:
                time.sleep(_AFTER_ERROR)

    def _answer(self, client: socket.socket) -> None:
        with client.makefile("rb") as lines:
            _, proof = lines.readline(_LONGEST_LINE), lines.readline(_LONGEST_LINE).rstrip(b"\n")
            if not hmac.compare_digest(proof, self._secret.encode()):
                return
            error = refusal()
            self._note(error)
            client.sendall(_DONE)
            while lines.readline(_LONGEST_LINE).rstrip(b"\n") not in (_END, b""):
                pass
            client.sendall(_FAILED % f"understudy: {error}".encode())

    def _note(self, error: ScriptProblem) -> None:
        self._refused(error)
        if not self._told:  # a script may try again and again
            self._told = True
            self._send(Advice(str(error)))


def _tell(environ: Mapping[str, str]) -> None:
    """What PySpark would do in a process that was not forked. Returns once the driver knows."""
    port, secret = environ.get(PORT_VARIABLE, ""), environ.get(_SECRET_VARIABLE, "")
    with suppress(OSError, ValueError), socket.create_connection(("127.0.0.1", int(port)), timeout=_PATIENCE) as link:
        link.sendall(f"A\n{secret}\n".encode())
        link.recv(len(_DONE))
