"""Ports for servers that are told theirs, and bind it a while later."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def ports(count: int) -> Iterator[tuple[int, ...]]:
    """Different ones of this machine, which no other process is given until the context is left.

    A port that was found free and let go may be given to another process before the server has bound it. So each is bound here, and
    not listened on: Linux lets a server bind it as well if both have SO_REUSEADDR, as those in Go and in Java have by themselves, and
    gives it to none that asks for any port. While no server listens there, connections are refused.
    """
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield tuple(int(each.getsockname()[1]) for each in sockets)
