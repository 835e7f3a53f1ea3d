"""What the kubelet and Prometheus hear over HTTP; ``test_health.py`` has the reasons."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from tests.doubles.clocks import Hands
from tests.doubles.pages import counters
from understudy.errors import EnvironmentProblem
from understudy.protocol.messages import RehearsalReport
from understudy.supervisor.bounded import BoundedConnections
from understudy.supervisor.health import Health
from understudy.supervisor.probes import Probes

HOST = "127.0.0.1"
Ask = Callable[[str], Awaitable[tuple[int, str]]]


def probed(health: Health, check: Callable[[Ask], Awaitable[None]], requests: dict[str, int] | None = None) -> None:
    async def run() -> None:
        probes = Probes(health, requests or {})
        port = await probes.start(HOST, 0)
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
        health.last_decision_at = clock.now()
        assert (await ask("/livez"))[0] == 200

    probed(health, check)


def test_a_standby_is_ready_once_it_has_rehearsed(health: Health) -> None:
    async def check(ask: Ask) -> None:
        assert await ask("/readyz") == (503, "the first rehearsal is not done yet\n")
        health.stands(RehearsalReport("", rehearsed=True, how="live", rounds=1, seconds=0.2), 1.0)
        assert await ask("/readyz") == (200, "rehearsed (live)\n")

    probed(health, check)


def test_metrics_are_as_they_are_when_somebody_asks(health: Health, tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        assert "understudy_leader 0.0" in (await ask("/metrics"))[1]
        health.granted(7, 0.01)
        health.fence.follow(counters(tmp_path / "counters", refused=1))
        told = (await ask("/metrics"))[1]
        assert "understudy_leader 1.0" in told
        assert "understudy_epoch 7.0" in told
        assert "understudy_refused_writes_total 1.0" in told
        assert 'understudy_api_requests_total{what="writes"} 3.0' in told
        assert "understudy_queries_failed 0.0" in told
        health.failed = {"windows": "ValueError: no"}
        assert "understudy_queries_failed 1.0" in (await ask("/metrics"))[1]
        health.driver_gone()
        assert "understudy_queries_failed 0.0" in (await ask("/metrics"))[1]

    probed(health, check, {"writes": 3})


def test_a_leader_whose_lease_may_have_run_out_does_not_say_that_it_leads(health: Health) -> None:
    """It is cut off, and another one may lead by now: two replicas said so for as long as ``grace``."""

    async def check(ask: Ask) -> None:
        health.granted(7, 0.01)
        assert "understudy_leader 1.0" in (await ask("/metrics"))[1]
        health.lease_lasts = lambda: False
        assert "understudy_leader 0.0" in (await ask("/metrics"))[1]

    probed(health, check)


def test_a_replica_says_that_it_has_nothing_to_lead(health: Health) -> None:
    async def check(ask: Ask) -> None:
        assert "understudy_needs_no_leader 0.0" in (await ask("/metrics"))[1]
        health.waits = "waits for a submission"
        assert "understudy_needs_no_leader 1.0" in (await ask("/metrics"))[1]
        health.waits = ""
        health.finished("job flights is FINISHED: the script ended")
        told = (await ask("/metrics"))[1]
        assert "understudy_needs_no_leader 1.0" in told
        assert "understudy_leader 0.0" in told

    probed(health, check)


def test_a_port_that_is_taken_is_named(health: Health) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))
            taken.listen()
            await Probes(health, {}).start(HOST, taken.getsockname()[1])

    with pytest.raises(EnvironmentProblem, match="--listen: cannot listen on"):
        asyncio.run(run())


def test_half_sent_requests_take_neither_the_descriptors_nor_the_answers(health: Health) -> None:
    """Every descriptor of a replica went to 297 of them, for as long as their sender liked."""

    async def run() -> None:
        probes, held = Probes(health, {}), []
        before = len(os.listdir("/proc/self/fd"))
        port = await probes.start(HOST, 0)
        try:
            for _ in range(200):
                reader, writer = await asyncio.open_connection(HOST, port)
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
                held.append((reader, writer))
            async with aiohttp.ClientSession() as session, session.get(f"http://{HOST}:{port}/livez") as answer:
                assert answer.status == 200
            open_ends = len(os.listdir("/proc/self/fd")) - before - len(held)
            assert open_ends < 50, "the listener and 32 connections"
        finally:
            for _, writer in held:
                writer.close()
            await probes.stop()

    asyncio.run(run())


class Silent(asyncio.Protocol):
    """Waits for the end of a request."""


@pytest.mark.parametrize("sent", [b"GET /livez HTTP/1.1\r\n", b"GET /" + b"x" * 20_000], ids=["late", "long"])
def test_a_connection_that_takes_too_long_or_says_too_much_is_ended(sent: bytes) -> None:
    async def run() -> bytes:
        within = 0.2 if len(sent) < 1000 else 3600.0
        bounded = BoundedConnections(Silent, within=within)
        server = await asyncio.get_running_loop().create_server(bounded, HOST, 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(sent)
        try:
            return await asyncio.wait_for(reader.read(), 60.0)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            server.close()

    assert asyncio.run(run()) == b""
