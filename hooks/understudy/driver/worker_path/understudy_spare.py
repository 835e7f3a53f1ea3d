"""A spare Python interpreter, and the process that hands a worker's task over to it.

Where Spark runs Python in the driver itself (a stateful processor's first call, a streaming source of one's own) it starts an
interpreter for every start of the query, which then imports pandas while the query waits. ``hand-over`` is what Spark starts in
its place: it asks the driver for a spare, and becomes the interpreter itself where there is none. ``stand-by`` is the spare, which
has imported what such a worker does, and forks one for each task.

A message is one packet of JSON, with descriptors; one that is too large for the socket is not sent, and then no spare takes the task.
A spare says when it is idle, and is given nothing else while it imports: Spark waits ten seconds for a worker, and not longer.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Of one packet: more than Linux sends.
_LIMIT = 1 << 20
#: Names of modules in one packet.
NAMES = 1000
#: What a spare says when it waits for something to do.
IDLE = "idle"
#: How long an idle spare may take to take a task, in seconds: beyond that the work is done without it.
_PATIENCE = 2.0
#: What the worker answers once the task is its own: nothing may be done a second time after that.
_TAKEN = b"t"
_PR_SET_PDEATHSIG = 1


def send(link: socket.socket, message: Any, descriptors: tuple[int, ...] = ()) -> None:
    """Raises ``OSError`` where the other side is gone, does not listen within the link's time-out, or the message is too large."""
    socket.send_fds(link, [json.dumps(message).encode()], descriptors)


def receive(link: socket.socket, descriptors: int = 0) -> tuple[Any, list[int]]:
    """A message with its descriptors. Raises ``EOFError`` at the end of the link, and ``OSError`` after its time-out."""
    body, found, _, _ = socket.recv_fds(link, _LIMIT, descriptors)
    if not body:
        raise EOFError("the other side is gone")
    return json.loads(body), list(found)


def hand_over(arguments: list[str]) -> None:
    """Let a spare do it and end as it does; become the interpreter where none takes it."""
    python = os.environ["UNDERSTUDY_WORKER_PYTHON"]
    asked = {"arguments": arguments, "directory": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        try:
            link.settimeout(_PATIENCE)
            link.connect("\0" + os.environ["UNDERSTUDY_SPARES"])
            send(link, asked, (1, 2))
            taken = _taken(link)
        except OSError:
            taken = False
        if taken:
            link.setblocking(True)
            status = link.recv(1)
            os._exit(status[0] if status else 1)
    sys.path.insert(0, str(Path(__file__).parent))  # which an isolated interpreter leaves out
    import understudy_alive  # type: ignore[import-not-found]

    if (alive := understudy_alive.join()) is not None:
        os.set_inheritable(alive, True)
    os.execvp(python, [python, *arguments])  # noqa: S606 - Spark's own command


def _taken(link: socket.socket) -> bool:
    """Whether a worker has taken the task. If not, none does later: it could not say so, and would not begin."""
    try:
        return link.recv(1) == _TAKEN
    except TimeoutError:
        link.shutdown(socket.SHUT_RD)
        return link.recv(1) == _TAKEN  # what was said in that moment


def stand_by(link: socket.socket) -> None:
    """Import what the driver names, and fork a worker for each task that it gives. Ends with the driver, which it is a child of, or when
    it is needed no more and its last worker has ended.
    """
    import ctypes  # noqa: F401 - workers need it, and at once

    ours, workers = os.getpid(), set[int]()
    while True:
        try:
            send(link, IDLE)
            message, descriptors = receive(link, 3)
        except (EOFError, OSError):
            break
        workers = {each for each in workers if _runs(each)}
        if isinstance(message, list):
            for name in message:
                with suppress(Exception):  # what is wrong with it, the worker is told when it imports it by itself
                    importlib.import_module(name)
        elif (worker := _forked()) == 0:
            _work(message["arguments"], link, _begun(ours, message, descriptors))
            return
        elif worker is not None:
            workers.add(worker)
        for each in descriptors:
            os.close(each)
    while workers := {each for each in workers if _runs(each)}:  # they die with this process
        time.sleep(1.0)


def _runs(worker: int) -> bool:
    try:
        return os.waitpid(worker, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # a library has waited for all children
        return False


def _forked() -> int | None:
    """As ``os.fork``; ``None`` where the system makes no more processes. Then none takes the task."""
    try:
        return os.fork()
    except OSError:
        return None


def _begun(parent: int, task: dict[str, Any], descriptors: list[int]) -> socket.socket:
    """What Spark's process would have had is the worker's: the environment, where it writes, and its end. The link to that process."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died before the line above took effect
    client = socket.socket(fileno=descriptors[0])
    for standard, given in zip((1, 2), descriptors[1:], strict=True):
        os.dup2(given, standard)
        os.close(given)
    os.environ.clear()
    os.environ.update(task["environment"])
    if (numbers := sys.modules.get("numpy.random")) is not None:
        numbers.seed()  # Python's own are seeded at the fork
    try:
        client.sendall(_TAKEN)
    except OSError:
        os._exit(1)  # it came too late, and is done elsewhere
    return client


def _work(arguments: list[str], link: socket.socket, client: socket.socket) -> None:
    import runpy
    import threading

    def watch() -> None:
        if not client.recv(1):  # Spark has killed the process that it knows
            try:
                _tell_imports(link)
            finally:
                os._exit(143)

    threading.Thread(target=watch, daemon=True).start()
    # this worker may run as long as its query, and the next one be wanted before
    later = threading.Timer(5.0, _tell_imports, (link,))
    later.daemon = True
    later.start()
    _, module, *rest = arguments
    sys.argv = [module, *rest]
    sys.modules.pop(module, None)  # imported to have what it imports; now it is the program
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
        for first in range(0, len(found), NAMES):
            send(link, found[first : first + NAMES])


if __name__ == "__main__":
    match sys.argv[1]:
        case "hand-over":
            hand_over(sys.argv[2:])
        case "stand-by":
            stand_by(socket.socket(fileno=int(sys.argv[2])))
