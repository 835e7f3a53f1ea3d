"""Limits an HTTP server to so many connections at once, each for one short request within a short time.

aiohttp waits for the rest of a request as long as its sender likes. A few hundred of them took every descriptor of a replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

#: So many connections at once; a newer one takes the place of the oldest, for a probe is answered in a millisecond.
_CONNECTIONS = 32
#: Seconds after which a connection is closed, even in the middle of a request or an answer.
_WITHIN = 10.0
#: Bytes of a request with its headers; a probe has a few hundred.
_REQUEST = 16 << 10


class BoundedConnections:
    """A protocol factory for ``loop.create_server``. ``serve`` makes what answers one connection."""

    def __init__(
        self, serve: Callable[[], asyncio.Protocol], connections: int = _CONNECTIONS, within: float = _WITHIN
    ) -> None:
        self._serve = serve
        self._connections = connections
        self._within = within
        self._open: dict[_Connection, None] = {}  # in the order they came

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self._serve(), self._opened, self._closed)

    def close(self) -> None:
        for each in list(self._open):
            each.abort()

    def _opened(self, connection: _Connection) -> asyncio.TimerHandle:
        while len(self._open) >= self._connections:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[connection] = None
        return asyncio.get_running_loop().call_later(self._within, connection.abort)

    def _closed(self, connection: _Connection) -> None:
        self._open.pop(connection, None)


class _Connection(asyncio.Protocol):
    def __init__(
        self,
        inner: asyncio.Protocol,
        opened: Callable[[_Connection], asyncio.TimerHandle],
        closed: Callable[[_Connection], None],
    ) -> None:
        self._inner, self._opened, self._closed = inner, opened, closed
        self._received = 0

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._opened(self)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._closed(self)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > _REQUEST:
            self.abort()
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
