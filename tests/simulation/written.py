"""Histories that are written down, because hardly a seed plays them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.simulation.driver import SimulatedDriver
from tests.simulation.plan import Kind, Plan
from tests.simulation.pod import Pod
from tests.simulation.world import World


def world(*, replicas: int = 1) -> World:
    made = World(Plan(1, Kind.GRACEFUL, 0, multi=False, finite=False, ages=False))
    made.replicas = replicas
    return made


async def until(one: World, happened: Callable[[], bool]) -> None:
    """Fails after ten minutes of the world's time, with what went wrong in it."""
    for _ in range(60_000):
        if happened():
            return
        await asyncio.sleep(0.01)
    raise AssertionError([*one.holds.broken, *one.loop.problems] or "nothing is broken, and yet it does not happen")


async def leading(one: World) -> tuple[Pod, SimulatedDriver]:
    for _ in range(one.replicas):
        one.start()
    await until(one, lambda: one.checkpoint.last_token is not None)
    pod = next(pod for pod in one.pods if pod.leads)
    return pod, pod.drivers[-1]


def a_lock_is_restored_whose_holder_is_dead() -> list[str]:
    """The record names a leader whose processes are known to be gone, and another one leads. What is broken."""
    broken: list[str] = []

    async def script(one: World) -> None:
        first, _ = await leading(one)
        name = one.settings(1).names.lock
        backup = one.api.documents.stored[name][1]
        first.die()
        await asyncio.sleep(60.0)
        (leader,) = [pod for pod in one.living() if pod.leads]
        leader.lines[1].cut = True  # or it would see what happened before anybody could act on it
        one.api.documents.overwrite(name, backup)
        await asyncio.sleep(2.0)
        leader.lines[1].cut = False
        await asyncio.sleep(60.0)
        broken.extend(one.holds.broken)
        assert any(pod.leads for pod in one.living())

    world(replicas=3).run(script)
    return broken
