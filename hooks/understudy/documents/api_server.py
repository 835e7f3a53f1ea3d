"""Requests to a Kubernetes API server: one time-out each, credentials read again when they are refused, patience when told to.

The official client does TLS, kubeconfig and its credential plugins; requests and answers are plain JSON. Nothing is sent twice
that the server may have acted on: only an answer that says "not done" (401, 429) is followed by another attempt.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp

from understudy.errors import AccessDenied, DocumentError, ServerUnreachable, SettingsError
from understudy.protocol.names import FIELD_MANAGER


def _bare(*packages: str) -> None:
    """Let modules of these packages be imported without their ``__init__``.

    Those import all of the client, twice. That is half of what a replica's start costs a processor, and it starts when another
    one is taking over.
    """
    for package in packages:
        if package not in sys.modules and (spec := importlib.util.find_spec(package)) is not None:
            parent, _, name = package.rpartition(".")
            sys.modules[package] = module = importlib.util.module_from_spec(spec)
            if parent:
                setattr(sys.modules[parent], name, module)


_bare("kubernetes", "kubernetes.aio")
from kubernetes.aio import client  # noqa: E402

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Seconds after which a mounted token is read again: the kubelet replaces it well before it expires.
_TOKEN_AGE = 60.0
#: Seconds a watch stays open before the server ends it; then it is begun again.
_WATCH_FOR = 240
#: Bytes of one event of a watch; etcd stores no object of more than 1.5 MiB.
_LONGEST_LINE = 4 << 20

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """``status`` is HTTP's; ``body`` the object, or a ``Status`` that says why there is none."""

    status: int
    body: Json

    @property
    def reason(self) -> str:
        return f"{self.status} {self.body.get('reason', '')}: {self.body.get('message', '')}".strip(": ")


class _MountedToken:
    """A service account's token, which changes under us."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = float("-inf")
        self._token = ""

    def value(self, *, again: bool = False) -> str:
        if again or time.monotonic() - self._read_at > _TOKEN_AGE:
            self._token = self._path.read_text(encoding="ascii").strip()
            self._read_at = time.monotonic()
        return self._token


class _Kubeconfig:
    """What kubeconfig says of a user, which a plug-in of it may know for a quarter of an hour only."""

    def __init__(self, context: str, configuration: client.Configuration) -> None:
        self._context, self._configuration = context, configuration
        self._loading: asyncio.Task[Any] | None = None

    async def load(self) -> Any:
        """Raises ``ConfigException``, ``OSError`` and ``ValueError``. Goes on where who waits is canceled: a plug-in may take longer
        than a request.
        """
        from kubernetes.aio import config

        if self._loading is None or self._loading.done():
            load = config.load_kube_config(context=self._context or None, client_configuration=self._configuration)
            self._loading = asyncio.create_task(load)
        return await asyncio.shield(self._loading)

    async def load_again(self) -> None:
        """As ``load``, and what it says stays as it was where it cannot be had."""
        from kubernetes.aio.config.config_exception import ConfigException

        with suppress(ConfigException, OSError, ValueError):
            await self.load()


class ApiServer:
    """One client of one API server, for the objects of ``namespace``. ``timeout`` is of each request, in seconds."""

    def __init__(
        self,
        configuration: client.Configuration,
        namespace: str,
        timeout: float,
        token: _MountedToken | None = None,
        kubeconfig: _Kubeconfig | None = None,
    ) -> None:
        self.namespace = namespace
        self.timeout = timeout
        self._configuration = configuration
        self._token, self._kubeconfig = token, kubeconfig
        self._client = client.ApiClient(configuration)
        #: For metrics.
        self.sent = {"requests": 0, "writes": 0, "bytes": 0}

    @classmethod
    async def connect(cls, timeout: float, namespace: str = "", context: str = "") -> Self:
        """As the pod's service account inside a cluster, else as kubeconfig says. Raises ``SettingsError``.

        Nothing is sent yet.
        """
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not context:
            return cls._in_cluster(timeout, namespace)
        from kubernetes.aio.config.config_exception import ConfigException

        configuration = client.Configuration()
        kubeconfig = _Kubeconfig(context, configuration)
        try:
            loader = await kubeconfig.load()
        except (ConfigException, OSError, ValueError) as error:
            raise SettingsError(
                f"no way to the cluster: {error}",
                where="KUBECONFIG",
                remedy="Name a kubeconfig that kubectl works with",
            ) from error
        current = loader.current_context if isinstance(loader.current_context, dict) else {}
        namespace = namespace or current.get("context", {}).get("namespace") or "default"
        return cls(configuration, namespace, timeout, kubeconfig=kubeconfig)

    @classmethod
    def _in_cluster(cls, timeout: float, namespace: str) -> Self:
        token = _MountedToken(_SERVICE_ACCOUNT / "token")
        try:
            token.value()
            namespace = namespace or (_SERVICE_ACCOUNT / "namespace").read_text(encoding="ascii").strip()
        except OSError as error:
            raise SettingsError(
                f"this pod has no service account token: {error.strerror}",
                where=str(error.filename),
                remedy="Set automountServiceAccountToken: true in the pod, with a service account of the HA Role",
            ) from error
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        configuration = client.Configuration(host=f"https://{f'[{host}]' if ':' in host else host}:{port}")
        configuration.ssl_ca_cert = str(_SERVICE_ACCOUNT / "ca.crt")
        return cls(configuration, namespace, timeout, token)

    @property
    def host(self) -> str:
        """The server's URL."""
        return str(self._configuration.host)

    @property
    def in_pod(self) -> bool:
        """Whether it is asked as this pod's service account, and not as kubeconfig says."""
        return self._token is not None

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def path(self, resource: str, name: str = "", group: str = "") -> str:
        """Path of ``resource`` in our namespace; ``group`` as ``coordination.k8s.io/v1``, empty for the core."""
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    async def request(
        self, method: str, path: str, body: Json | None = None, *, patch: str = "", **query: str
    ) -> Answer:
        """Raises ``TimeoutError`` when there is no answer in time, ``OSError`` when there is no connection.

        After either, it is unknown whether a write landed. If the server is too busy (429), the request is sent again
        after the delay that it names, if that is within the time-out; else 429 is the answer, and nothing has landed.

        ``patch`` names the kind: ``merge``, ``strategic-merge``, ``json``.
        """
        if method in ("POST", "PUT", "PATCH"):
            query["fieldManager"] = FIELD_MANAGER
        url = self._configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER}
        headers["Content-Type"] = f"application/{patch}-patch+json" if patch else "application/json"
        refused = False
        async with asyncio.timeout(self.timeout) as limit:
            while True:
                await self._authorize(headers, again=refused)
                try:
                    response = await self._send(method, url, headers, body)
                    data = await response.read()
                except aiohttp.ClientError as error:
                    raise ConnectionError(str(error) or type(error).__name__) from error
                if response.status == 401 and not refused:
                    refused = True
                elif response.status == 429 and (pause := _retry_after(response.headers)) < _left(limit):
                    await asyncio.sleep(pause)
                else:
                    return Answer(response.status, _parsed(data))

    async def watch(self, path: str, **query: str) -> AsyncIterator[Json]:
        """Events as the server tells them, until it ends the watch (after minutes). Raises ``DocumentError`` or ``OSError``."""
        query |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_FOR)}
        headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER}
        await self._authorize(headers, again=False)
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._send(
                    "GET", f"{self._configuration.host}{path}?{urlencode(query)}", headers, None
                )
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        stream = response.response
        try:
            if stream.status != 200:
                answer = Answer(stream.status, _parsed(await response.read()))
                raise DocumentError(f"cannot be watched: {answer.reason}", where=path)
            # Two missed bookmarks: a server that is silent for so long is gone, even if TCP still holds the connection.
            loop = asyncio.get_running_loop()
            end = loop.time() + _WATCH_FOR + 2 * self.timeout
            lines = _lines(stream.content, path)
            while True:
                if loop.time() >= end:  # what has come already is there without a wait, which alone could time out
                    raise TimeoutError
                # None is held across a yield: it would cancel what the caller awaits.
                async with asyncio.timeout_at(end):
                    line = await anext(lines, None)
                if line is None:
                    return
                event = _parsed(line)
                thing = event.get("object")
                if event.get("type") == "ERROR" or not isinstance(thing, dict):
                    said = thing.get("message") if isinstance(thing, dict) else line[:80].decode(errors="replace")
                    raise DocumentError(f"the watch broke: {said}", where=path)
                yield event
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            stream.close()

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: Json | None) -> Any:
        self.sent["requests"] += 1
        if body is not None:
            self.sent["writes"] += 1
            self.sent["bytes"] += len(json.dumps(body))
        # Its own time-out is only a backstop: the caller's counts everything, the answer's body and pauses too.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout)
        return await self._client.call_api(method, url, dict(headers), body, _request_timeout=timeout)

    async def _authorize(self, headers: dict[str, str], *, again: bool) -> None:
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.value(again=again)}"
        else:
            if again and self._kubeconfig is not None:
                await self._kubeconfig.load_again()
            await self._client.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)


def forbidden(answer: Answer, verb: str, what: str, namespace: str, name: str) -> AccessDenied:
    """A refusal that names the permission: which verb, on which object, in which Role. Its message says as whom."""
    object_name = f" with resourceNames [{name}]" if name else ""
    whom = _whom(answer)
    role = "their Role (docs/requests.md has one)" if whom.startswith("user ") else "the HA Role"
    return AccessDenied(
        f"{whom} may not {verb} {what} {namespace}/{name}: {answer.body.get('message', '')}",
        where=name or namespace,
        remedy=f"Add {verb} on {what}{object_name} to {role} of namespace {namespace}",
    )


def not_of_the_object(answer: Answer, where: str) -> DocumentError | None:
    """What a status says of the server, or of who asks it; ``None`` where it is about the object."""
    if answer.status == 401:
        return DocumentError(  # no AccessDenied, which ends a Job for good: an API server that starts may not know its accounts yet
            f"the API server does not know who asks: {answer.reason}",
            where=where,
            remedy="Log in again, or look at the token or certificate",
        )
    if answer.status == 429 or answer.status >= 500:
        return ServerUnreachable(
            f"the API server cannot answer now: {answer.reason}", where=where, remedy="Try again in a while"
        )
    return None


async def _lines(stream: aiohttp.StreamReader, path: str) -> AsyncIterator[bytes]:
    """Whole lines. aiohttp's own end at 128 KiB, and an object may have 1.5 MiB. Raises ``DocumentError`` for longer ones."""
    rest = bytearray()
    async for data in stream.iter_any():
        *whole, last = data.split(b"\n")
        for line in whole:
            yield bytes(rest + line)
            rest.clear()
        rest += last
        if len(rest) > _LONGEST_LINE:
            raise DocumentError(f"the watch broke: a line of more than {_LONGEST_LINE >> 20} MiB", where=path)
    if rest:
        raise DocumentError("the watch broke: it ended within a line", where=path)


def _whom(answer: Answer) -> str:
    """As whom the API server knows us: it quotes the user of a request that it forbids."""
    found = re.search(r'[Uu]ser "([^"]+)"', str(answer.body.get("message", "")))
    if found is None:
        return "this service account"
    account = re.fullmatch(r"system:serviceaccount:([^:]+):([^:]+)", found[1])
    return f"this service account ({account[1]}/{account[2]})" if account is not None else f"user {found[1]}"


def _parsed(data: bytes) -> Json:
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {"message": data[:200].decode(errors="replace")}
    return value if isinstance(value, dict) else {}


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, which the API server writes as a whole number; one if it says nothing we understand."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 1.0


def _left(limit: asyncio.Timeout) -> float:
    """Seconds until ``limit``."""
    return (limit.when() or 0.0) - asyncio.get_running_loop().time()
