"""Requests to etcd over its JSON gateway: one time-out each, and each is sent once.

Only what has certainly not been done is sent again: a request to a member that takes no connection goes to the next one, and a request that etcd
refuses for an old token goes with a new one. After everything else a write may have landed, or may land yet, and ``UnansweredError`` says so.
aiohttp repeats requests of some methods by itself when a connection breaks; POST, which all of etcd's are, is none of them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from understudy_etcd.address import EtcdAddress

Json = dict[str, Any]

#: Codes of gRPC's.
INVALID, NOT_FOUND, DENIED, EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED = 3, 5, 7, 8, 14, 16
#: Those of a request that has not been carried out: these, failed precondition, out of range and unimplemented. After all others, such as
#: unavailable, it may have been.
_REFUSED = frozenset({INVALID, NOT_FOUND, DENIED, EXHAUSTED, UNAUTHENTICATED, 9, 11, 12})


class UnansweredError(Exception):
    """No answer, and never one any more. A write may have landed, or may land yet."""


class UnavailableError(UnansweredError):
    """A member's answer is that it cannot now: its cluster elects a leader, for instance. The same is true of what was asked."""


class RefusedError(Exception):
    """etcd's answer is that it does not do it. ``code`` is gRPC's."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class EtcdClient:
    """``request_timeout`` is in seconds, and is of each request. ``sent`` counts requests, and is for metrics.

    It belongs to the event loop of its first request, and has to be closed there.
    """

    def __init__(self, address: EtcdAddress, request_timeout: float) -> None:
        self.address, self.timeout = address, request_timeout
        self.sent: Counter[str] = Counter()
        self._member = 0
        self._token = ""
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, path: str, body: Json) -> Json:
        """etcd's answer. Raises ``UnansweredError`` and ``RefusedError``."""
        member = self._member
        try:
            async with asyncio.timeout(self.timeout):
                return await self._authorized(path, body)
        except TimeoutError as error:
            self._leave(member)  # it may be frozen, and another one may not
            raise UnansweredError(f"{self.address}: no answer within {self.timeout:g} s") from error

    @asynccontextmanager
    async def watch(self, key: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Yields a function that waits until something has happened to ``key``, for so many seconds at most. It returns first when the watch has
        begun, and ``False`` when it has ended.

        Raises ``UnansweredError``. Not guaranteed: that a change is told, or that what is told is one.
        """
        member = self._member
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._send("/v3/watch", {"create_request": {"key": key}})
        except TimeoutError as error:
            self._leave(member)
            raise UnansweredError(f"{self.address}: no watch within {self.timeout:g} s") from error

        async def happened(seconds: float) -> bool:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        said = await response.content.readany()
                        return bool(said) and b'"canceled":true' not in said
            except aiohttp.ClientError as error:
                raise UnansweredError(f"the watch broke: {error}") from error
            return True

        try:
            yield happened
        finally:
            response.close()

    async def _authorized(self, path: str, body: Json) -> Json:
        if self.address.user and not self._token:
            await self._authenticate()
        try:
            return await self._answer(path, body)
        except RefusedError as refused:
            # A token ends five minutes after its last use, and when its user is changed; a signed one with any change of users and roles.
            old = refused.code == UNAUTHENTICATED or "auth store is old" in str(refused)
            if not old or not self.address.user:
                raise
            await self._authenticate()
            return await self._answer(path, body)

    async def _authenticate(self) -> None:
        self._token = ""
        who = {"name": self.address.user, "password": self.address.password}
        self._token = str((await self._answer("/v3/auth/authenticate", who))["token"])

    async def _answer(self, path: str, body: Json) -> Json:
        response = await self._send(path, body)
        member = self._member
        try:
            data = await response.read()
        except aiohttp.ClientError as error:
            self._leave(member)
            raise UnansweredError(f"{self.address}: the answer broke off: {_said(error)}") from error
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if response.status == 200 and isinstance(answer, dict) and "header" in answer:
            return answer
        if response.status == 404 and not isinstance(answer, dict):
            raise RefusedError(NOT_FOUND, "what answers there is no etcd of 3.4 or newer with its JSON gateway")
        code, message = (answer.get("code"), answer.get("message")) if isinstance(answer, dict) else (None, None)
        if isinstance(code, int) and code in _REFUSED:
            raise RefusedError(code, str(message))
        self._leave(member)
        kind = UnavailableError if code == UNAVAILABLE else UnansweredError
        raise kind(f"{self.address}: {message or f'an answer with status {response.status}'}")

    async def _send(self, path: str, body: Json) -> aiohttp.ClientResponse:
        """To the member that answered last, or the next one that takes a connection. Raises ``UnansweredError``."""
        if self._session is None:
            # Its own time-outs would end a watch; the callers' count everything.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeout))
        self.sent["requests"] += 1
        headers = {"Authorization": self._token} if self._token else {}
        tls = True if self.address.tls is None else self.address.tls
        tried = []
        for _ in self.address.members:
            member = self._member
            place = self.address.url(self.address.members[member])
            try:
                return await self._session.post(
                    place + path, json=body, headers=headers, ssl=tls, allow_redirects=False
                )
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:  # nothing was sent
                tried.append(f"{place}: {_said(error)}")
                self._leave(member)
            except aiohttp.ClientError as error:
                self._leave(member)
                raise UnansweredError(f"{place}: {_said(error)}") from error
        raise UnansweredError("; ".join(tried))

    def _leave(self, member: int) -> None:
        """Go on with the next one, unless another request has by now."""
        if self._member == member:
            self._member = (member + 1) % len(self.address.members)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
