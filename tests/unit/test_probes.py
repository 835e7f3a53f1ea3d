"""What the kubelet and Prometheus hear over HTTP; ``test_health.py`` has the reasons."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from tests.unit.clocks import Hands
from tests.unit.counted import page
from understudy.errors import EnvironmentProblem
from understudy.messages import Standing
from understudy.supervisor.health import Health
from understudy.supervisor.probes import Probes

HOST = "127.0.0.1"
Ask = Callable[[str], Awaitable[tuple[int, str]]]


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind((HOST, 0))
        return int(opened.getsockname()[1])


def probed(health: Health, check: Callable[[Ask], Awaitable[None]], requests: dict[str, int] | None = None) -> None:
    async def run() -> None:
        probes = Probes(health, requests or {})
        port = free_port()
        await probes.start(HOST, port)
        try:
            async with aiohttp.ClientSession() as session:

                async def ask(path: str) -> tuple[int, str]:
                    async with session.get(f"http://{HOST}:{port}{path}") as answer:
                        return answer.status, await answer.text()

                await check(ask)
        finally:
            await probes.stop()

    asyncio.run(run())


def test_a_replica_whose_elector_has_no_turn_is_not_live(health: Health, clock: Hands) -> None:
    async def check(ask: Ask) -> None:
        assert (await ask("/livez"))[0] == 200
        clock.at += 4.1
        assert await ask("/livez") == (503, "the elector has not had its turn\n")
        health.turned_at = clock.now()
        assert (await ask("/livez"))[0] == 200

    probed(health, check)


def test_a_standby_is_ready_once_it_has_rehearsed(health: Health) -> None:
    async def check(ask: Ask) -> None:
        assert await ask("/readyz") == (503, "the first rehearsal is not done yet\n")
        health.stands(Standing("", rehearsed=True, how="live", rounds=1, seconds=0.2), 1.0)
        assert await ask("/readyz") == (200, "rehearsed (live)\n")

    probed(health, check)


def test_metrics_are_as_they_are_when_somebody_asks(health: Health, tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        assert "understudy_leader 0.0" in (await ask("/metrics"))[1]
        health.granted(7, 0.01)
        health.fence.follow(page(tmp_path / "counters", refused=1))
        told = (await ask("/metrics"))[1]
        assert "understudy_leader 1.0" in told
        assert "understudy_epoch 7.0" in told
        assert "understudy_refused_writes_total 1.0" in told
        assert 'understudy_api_requests_total{what="writes"} 3.0' in told

    probed(health, check, {"writes": 3})


def test_a_port_that_is_taken_is_named(health: Health) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            await Probes(health, {}).start(HOST, taken.getsockname()[1])

    with pytest.raises(EnvironmentProblem, match="--listen: cannot listen on"):
        asyncio.run(run())
