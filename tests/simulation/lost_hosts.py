"""Histories of replicas on machines of their own, where no word of a death comes: which of them are counted, and which are taken out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.simulation.pod import Pod
from tests.simulation.world import World
from tests.simulation.written import leading, until, world
from understudy.supervisor.membership import Membership
from understudy.supervisor.silence import LOOK_EVERY, NOT_COUNTED_AFTER

Answer = TypeVar("Answer")


def machines(replicas: int) -> World:
    made = world(replicas=replicas)
    made.lone = True
    return made


async def asked(pod: Pod, question: Callable[[Membership], Coroutine[Any, Any, Answer]]) -> Answer:
    """What a replica makes of the replicas' document now, by its own clock."""
    assert pod.replica is not None
    membership = pod.replica._execute.membership
    return await pod.world.loop.inside(pod.supervisor, lambda: pod.world.loop.create_task(question(membership)))


async def counted(pod: Pod) -> set[str]:
    return {each.holder for each in await asked(pod, lambda membership: membership._living())}


def lose(one: World, pod: Pod) -> None:
    """The machine's power is off, and stays off."""
    one.replicas -= 1
    pod.die()


def standbys(one: World) -> list[Pod]:
    return [pod for pod in one.living() if not pod.leads]


def began(pod: Pod) -> tuple[float, str]:
    """By which standbys take turns."""
    assert pod.replica is not None
    return pod.replica._execute.membership._script_since, pod.holder


def a_host_is_lost_for_good() -> list[str]:
    """One of two standbys is lost, and long after it is to be known. What is broken."""
    broken: list[str] = []

    async def script(one: World) -> None:
        leader, _ = await leading(one)
        await asyncio.sleep(60.0)
        first, second = sorted(standbys(one), key=began)
        lose(one, first)
        await asyncio.sleep(NOT_COUNTED_AFTER + 2 * LOOK_EVERY)
        counts = [await counted(pod) for pod in (leader, second)]
        if any(first.holder in each for each in counts):
            broken.append(f"{first.holder} is lost, and leader and standby count {counts}")
        if not await asked(second, lambda mine: mine.may_begin_again(rehearsed=True, urgent=True)):
            broken.append("the last standby waits for a host that is lost before it begins again")
        broken.extend(one.holds.broken)

    machines(3).run(script)
    return broken


def living_hosts_are_long_cut_off() -> list[str]:
    """Nothing happens for long, and then none of three living replicas reaches the server for long. What is broken."""
    broken: list[str] = []

    async def look(one: World) -> None:
        for pod in one.living():
            others = {other.holder for other in one.living() if other is not pod}
            if others != (found := await counted(pod)):
                broken.append(f"{pod.holder} counts {found}, and {others} live")

    async def script(one: World) -> None:
        await leading(one)
        await asyncio.sleep(NOT_COUNTED_AFTER + 2 * LOOK_EVERY)
        await look(one)
        one.api.down = True
        await asyncio.sleep(NOT_COUNTED_AFTER + 2 * LOOK_EVERY)
        one.api.down = False
        await look(one)
        await until(one, lambda: any(pod.leads for pod in one.living()))
        await look(one)
        broken.extend(one.holds.broken)

    machines(3).run(script)
    return broken
