"""One session with an ensemble of ZooKeeper, over kazoo, for an event loop.

kazoo sends each request once: what it calls ``retry`` is not used, and a connection that breaks answers all requests on it with an error. It
connects again by itself. A server that is silent for longer than a request may take is left: the session is given up, and another one begins
with another server, because kazoo would wait for it for two thirds of a session. Nothing here depends on sessions.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from understudy.documents import zookeeper_tls
from understudy.documents.zookeeper_address import ZooKeeperAddress

#: Between two rounds through all servers, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

#: After these it is unknown what has become of a request that was sent.
_LOST = (ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError, SessionMovedError)


class UnansweredError(Exception):
    """No answer, and never one any more. A write may have landed, or may land yet."""


class _Secure(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, with connections of ours."""

    def __init__(self, address: ZooKeeperAddress) -> None:
        super().__init__()
        self._address = address

    def create_connection(self, *, address: tuple[str, int], hostname: str, timeout: float, **_: object) -> Any:
        """``address``: of the server ``hostname``. ``timeout`` is in seconds. Raises ``OSError``."""
        return zookeeper_tls.connect(self._address, address, hostname, timeout)


class _Session:
    """A client, and how often it has lost its connection. ``moved`` is set at every change of its state."""

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.client, self._loop = client, loop
        self.losses, self._refused = 0, False
        self.moved = asyncio.Event()
        client.add_listener(self._hear)
        client.start_async()

    def _hear(self, state: str) -> None:
        """Called in a thread of kazoo's, between the end of all requests and the next connection."""
        if state != "CONNECTED":
            self.losses += 1
        # Here, because it is CLOSED next, and may be that by the time our loop has its turn.
        if self.client.client_state == KeeperState.AUTH_FAILED:
            self._refused = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.moved.set)

    async def connected(self) -> None:
        """Raises ``AuthFailedError``."""
        while True:
            self.moved.clear()
            if self._refused:
                raise AuthFailedError
            if self.client.connected:
                return
            await self.moved.wait()

    def end(self) -> None:
        """Blocks for up to ten seconds."""
        with suppress(Exception):  # a connection that does not end by itself ends with the process
            self.client.stop()
        with suppress(Exception):
            self.client.close()


class ZooKeeperConnection:
    """``request_timeout`` is in seconds. The first request connects. ``sent`` counts requests, writes and the bytes of these."""

    def __init__(self, address: ZooKeeperAddress, request_timeout: float) -> None:
        self.address, self.timeout = address, request_timeout
        self.acl = CREATOR_ALL_ACL if address.digest or address.sasl or address.kerberos else OPEN_ACL_UNSAFE
        self.sent: Counter[str] = Counter()
        self._session: _Session | None = None

    async def ask(self, send: Callable[[Any], Sequence[Any]], within: float | None = None) -> list[Any]:
        """The results of what ``send`` asks of a ``KazooClient``, all of it over one connection.

        Raises ``UnansweredError``, and kazoo's errors that are answers, such as ``NoNodeError``. ``within``: seconds, if not ``request_timeout``.
        """
        if self._session is None:
            self._session = self._begin()
        session, limit = self._session, within or self.timeout
        self.sent["requests"] += 1
        try:
            async with asyncio.timeout(limit):
                await session.connected()
                losses = session.losses
                asked = [_future(each) for each in send(session.client)]
                answers = await asyncio.gather(*asked, return_exceptions=True)
        except (TimeoutError, AuthFailedError) as error:
            self._give_up(session)
            if isinstance(error, AuthFailedError):
                raise
            raise UnansweredError(f"{self.address}: no answer within {limit:g} s") from error
        for each in answers:
            if isinstance(each, _LOST):
                raise UnansweredError(f"{self.address}: {type(each).__name__}") from each
            if isinstance(each, BaseException):
                raise each
        # Otherwise a read may have been sent to another server than the sync before it.
        if session.losses != losses:
            raise UnansweredError(f"{self.address}: the connection has changed in between")
        return answers

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            ended = asyncio.Event()
            self._end(session, ended.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.timeout):
                    await ended.wait()

    def _begin(self) -> _Session:
        address = self.address
        sasl = None
        if address.sasl:
            user, _, password = address.sasl.partition(":")
            sasl = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
        elif address.kerberos:
            sasl = {"mechanism": "GSSAPI", "service": address.kerberos}
        quiet = logging.getLogger("understudy.zookeeper")  # what it says is said by errors of ours
        quiet.propagate = False
        quiet.addHandler(logging.NullHandler())
        client = KazooClient(
            hosts=str(address),
            timeout=self.timeout,  # also for one attempt to connect; servers make a session last longer
            auth_data=[("digest", address.digest)] if address.digest else None,
            sasl_options=sasl,
            connection_retry=KazooRetry(max_tries=-1, delay=_FIRST_PAUSE, backoff=2, max_delay=_LONGEST_PAUSE),
            command_retry=KazooRetry(max_tries=0),
            logger=quiet,
            handler=_Secure(address) if address.ca else None,
        )
        return _Session(client, asyncio.get_running_loop())

    def _give_up(self, session: _Session) -> None:
        if self._session is session:
            self._session = None
            self._end(session, lambda: None)

    @staticmethod
    def _end(session: _Session, then: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            session.end()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(then)

        threading.Thread(target=run, daemon=True, name="zookeeper-end").start()


def _future(asked: Any) -> asyncio.Future[Any]:
    """What kazoo will answer, for the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def told(done: Any) -> None:
        error = done.exception
        value = done.value if error is None else None
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, value, error)

    asked.rawlink(told)
    return future
