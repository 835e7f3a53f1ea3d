"""A spare Python interpreter, and the process that hands a worker's task over to it.

Where Spark runs Python in the driver itself (a stateful processor's first call, a streaming source of one's own) it starts an
interpreter for every start of the query, which then imports pandas while the query waits. ``hand-over`` is what Spark starts in
its place: it asks the driver for a spare, and becomes the interpreter itself where there is none. ``stand-by`` is the spare.

Both sides send a length, then JSON; descriptors come with the length.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_LENGTH = 8
#: What the spare answers once the task is its own: nothing may be done a second time after that.
_TAKEN = b"t"


def send(link: socket.socket, message: Any, descriptors: tuple[int, ...] = ()) -> None:
    """Raises ``OSError`` where the other side is gone, or does not listen within the link's time-out."""
    body = json.dumps(message).encode()
    socket.send_fds(link, [len(body).to_bytes(_LENGTH, "big")], descriptors)
    link.sendall(body)


def receive(link: socket.socket, descriptors: int = 0) -> tuple[Any, list[int]]:
    """A message with its descriptors. Raises ``EOFError`` at the end of the link, and as ``send`` does."""
    header, found, _, _ = socket.recv_fds(link, _LENGTH, descriptors)
    while len(header) < _LENGTH:
        header += _some(link, _LENGTH - len(header))
    length = int.from_bytes(header, "big")
    body = b""
    while len(body) < length:
        body += _some(link, length - len(body))
    return json.loads(body), list(found)


def _some(link: socket.socket, at_most: int) -> bytes:
    part = link.recv(at_most)
    if not part:
        raise EOFError("the other side is gone")
    return part


def hand_over(arguments: list[str]) -> None:
    """Let a spare do it and end as it does; become the interpreter where none takes it."""
    python = os.environ["UNDERSTUDY_WORKER_PYTHON"]
    asked = {"arguments": arguments, "directory": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect("\0" + os.environ["UNDERSTUDY_SPARES"])
            send(link, asked, (1, 2))
            taken = link.recv(1) == _TAKEN
        except OSError:
            taken = False
        if taken:
            status = link.recv(1)
            os._exit(status[0] if status else 1)
    sys.path.insert(0, str(Path(__file__).parent))  # which an isolated interpreter leaves out
    import understudy_alive  # type: ignore[import-not-found]

    if (alive := understudy_alive.join()) is not None:
        os.set_inheritable(alive, True)
    os.execvp(python, [python, *arguments])  # noqa: S606 - Spark's own command


def stand_by(link: socket.socket) -> None:
    """Import what the driver names until it gives a task, do that, and tell what has been imported then. Ends with the driver."""
    try:
        task, descriptors = receive(link, 3)
        while isinstance(task, list):
            for name in task:
                with suppress(Exception):  # what is wrong with it, the worker is told when it imports it by itself
                    importlib.import_module(name)
            task, descriptors = receive(link, 3)
    except EOFError:
        return
    client = socket.socket(fileno=descriptors[0])
    for standard, given in zip((1, 2), descriptors[1:], strict=True):
        os.dup2(given, standard)
        os.close(given)
    os.environ.clear()
    os.environ.update(task["environment"])
    client.sendall(_TAKEN)
    _work(task["arguments"], link, client)


def _work(arguments: list[str], link: socket.socket, client: socket.socket) -> None:
    import runpy
    import threading

    def watch() -> None:
        if not client.recv(1):  # Spark has killed the process that it knows
            os._exit(143)

    threading.Thread(target=watch, daemon=True).start()
    later = threading.Timer(5.0, _tell_imports, (link,))  # Spark kills a worker that runs as long as its query
    later.daemon = True
    later.start()
    _, module, *rest = arguments
    sys.argv = [module, *rest]
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    finally:
        later.cancel()
        _tell_imports(link)
        client.sendall(bytes([status & 0xFF]))


def _tell_imports(link: socket.socket) -> None:
    """Libraries only, in the order in which they were imported: modules of the job's own may be other ones the next time."""
    import sysconfig

    homes = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
    found = [name for name, each in list(sys.modules.items()) if str(getattr(each, "__file__", "")).startswith(homes)]
    with suppress(OSError):  # the driver is gone, and so are we in a moment
        send(link, found)


if __name__ == "__main__":
    match sys.argv[1]:
        case "hand-over":
            hand_over(sys.argv[2:])
        case "stand-by":
            stand_by(socket.socket(fileno=int(sys.argv[2])))
