"""The driver's end of the socketpair to its supervisor."""

from __future__ import annotations

import socket
import threading

from understudy.driver.assembly import Driver
from understudy.protocol.messages import (
    LONGEST_LINE,
    Drain,
    Granted,
    Hold,
    LetGo,
    Message,
    PauseRehearsals,
    Quiesce,
    Reclaim,
    Revoked,
    Save,
    decode,
    encode,
)


class Channel:
    """Sending never raises: without a supervisor this process is about to die anyway."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        try:
            with self._lock:
                self._socket.sendall(encode(message))
        except OSError:
            return

    def listen(self, driver: Driver) -> None:
        """Carry out what the supervisor sends, in this thread; returns at the end of the channel."""
        with self._socket.makefile("rb") as lines:
            while line := lines.readline(LONGEST_LINE):
                match decode(line):
                    case Granted() as granted:
                        driver.takeover.granted(granted)
                    case Reclaim():
                        driver.takeover.reclaim()
                    case Revoked():
                        driver.takeover.revoked()
                    case PauseRehearsals(seconds):
                        driver.rehearsals.pause(seconds)
                    case Hold() | Drain() | Save() | LetGo() as asked:
                        _hold(driver, asked)
                    case Quiesce(patience):
                        driver.quiesce.before_handover(patience)
                    case other:
                        raise AssertionError(f"a supervisor does not send {other}")


def _hold(driver: Driver, asked: Hold | Drain | Save | LetGo) -> None:
    match asked:
        case Hold():
            driver.hold.begin(asked)
        case Drain(request, roots):
            driver.drain.begin(request, roots)
        case Save():
            driver.hold.save(asked)
        case LetGo():
            driver.hold.let_go()
