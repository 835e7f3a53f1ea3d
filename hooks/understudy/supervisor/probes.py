"""``/livez``, ``/readyz`` and ``/metrics`` of one replica, for the kubelet and Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from understudy.addresses import joined, listener
from understudy.errors import EnvironmentProblem
from understudy.supervisor.bounded import BoundedConnections
from understudy.supervisor.health import Health
from understudy.supervisor.metrics import ReplicaMetrics


async def _one_request(_: web.Request, response: web.StreamResponse) -> None:
    """A connection ends with its answer: time and size are limited for the whole of it."""
    response.force_close()


class Probes:
    """Answers a few short requests at a time, each within seconds: see ``BoundedConnections``."""

    def __init__(self, health: Health, requests: Mapping[str, int]) -> None:
        self._health = health
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(ReplicaMetrics(health, requests))
        application = web.Application()
        application.add_routes(
            [web.get("/livez", self._livez), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        application.on_response_prepare.append(_one_request)
        self._runner = web.AppRunner(application, access_log=None)
        self._server: asyncio.Server | None = None
        self._connections: BoundedConnections | None = None

    async def start(self, host: str, port: int) -> int:
        """The port it listens on. Raises ``EnvironmentProblem`` when that is taken."""
        await self._runner.setup()
        assert self._runner.server is not None
        self._connections = BoundedConnections(self._runner.server)
        try:
            self._server = await asyncio.get_running_loop().create_server(self._connections, sock=listener(host, port))
        except OSError as error:
            raise EnvironmentProblem(
                f"cannot listen on {joined(host, port)}: {error.strerror}",
                where="--listen",
                remedy="Give a free port, or 0",
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None and self._connections is not None:
            self._server.close()
            self._connections.close()
        await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        live = self._health.live
        return web.Response(status=200 if live else 503, text="ok\n" if live else "the elector has not had its turn\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        ready, why = self._health.ready
        return web.Response(status=200 if ready else 503, text=f"{why}\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), content_type="text/plain", charset="utf-8")
