"""``/livez``, ``/readyz`` and ``/metrics`` of one replica, for the kubelet and Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from understudy.addresses import joined, listener
from understudy.errors import EnvironmentProblem
from understudy.supervisor.bounded import BoundedConnections
from understudy.supervisor.health import Health


class _Metrics(Collector):
    """Values are read when Prometheus asks, so nothing is kept twice."""

    def __init__(self, health: Health, requests: Mapping[str, int]) -> None:
        self._health = health
        self._requests = requests

    def collect(self) -> Iterable[Metric]:
        health = self._health
        health.fence.look()
        gauges = {
            "leader": ("1 while this replica leads.", float(health.leads)),
            "epoch": ("Epoch of the last grant of this replica.", float(health.epoch)),
            "standby_rehearsed": (
                "1 while this replica is a standby that has rehearsed every query the leader runs.",
                float(health.rehearsed and not health.leads and not health.lacks),
            ),
            "queries_rehearsed": ("Queries of the script that this replica has rehearsed.", float(health.queries)),
            "queries_failed": (
                "Queries of this leader's that have died while others run; the status names them.",
                float(len(health.failed)),
            ),
            "standby_age_seconds": ("Since this replica's script began.", time.time() - health.script_since),
        }
        if health.rehearsed_at:
            gauges["rehearsal_age_seconds"] = (
                "Since the last rehearsal that worked.",
                time.time() - health.rehearsed_at,
            )
        if health.leads and health.fence.committed_at:
            gauges["commit_age_seconds"] = (
                "Since the last batch this driver committed.",
                time.time() - health.fence.committed_at,
            )
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"understudy_{name}", text, value)
        how = GaugeMetricFamily("understudy_rehearsal_info", "How this standby rehearses.", labels=["how"])
        how.add_metric([health.how or "none"], 1.0)
        yield how
        phases = GaugeMetricFamily(
            "understudy_takeover_seconds",
            "The last takeover by this replica: claim of the job, then start and first_commit, both since the grant.",
            labels=["phase"],
        )
        for phase, seconds in health.phases.items():
            phases.add_metric([phase], seconds)
        yield phases
        counters = {
            "takeovers": ("Grants this replica received.", health.takeovers),
            "losses": ("Times this replica lost the lead.", health.losses),
            "refused_writes": ("Writes the fence refused to this replica's driver.", health.fence.refused),
        }
        for name, (text, count) in counters.items():
            yield CounterMetricFamily(f"understudy_{name}", text, count)
        sent = CounterMetricFamily("understudy_api_requests", "To the API server, and bytes sent.", labels=["what"])
        for what, count in self._requests.items():
            sent.add_metric([what], count)
        yield sent


async def _one_request(_: web.Request, response: web.StreamResponse) -> None:
    """A connection ends with its answer: time and size are limited for the whole of it."""
    response.force_close()


class Probes:
    """Answers a few short requests at a time, each within seconds: see ``BoundedConnections``."""

    def __init__(self, health: Health, requests: Mapping[str, int]) -> None:
        self._health = health
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Metrics(health, requests))
        application = web.Application()
        application.add_routes(
            [web.get("/livez", self._livez), web.get("/readyz", self._readyz), web.get("/metrics", self._metrics)]
        )
        application.on_response_prepare.append(_one_request)
        self._runner = web.AppRunner(application, access_log=None)
        self._server: asyncio.Server | None = None
        self._connections: BoundedConnections | None = None

    async def start(self, host: str, port: int) -> None:
        """Raises ``EnvironmentProblem`` when the port is taken."""
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
