"""Electors on every backend, in real time: one leads, and no epoch is ever granted twice, however much gets lost on the way."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise

from testkit.faults import Fault
from tests.contract.backends import PATIENT, Backend
from understudy.clock import BootClock
from understudy.config.timings import Timings
from understudy.documents.model import DocumentStore
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.election.state import Role
from understudy.events import Log

NAME = "flights-lock"
SHORT = Timings(lease=3.0, renew=2.0, retry=0.1, request=0.8, kill=0.05, write_timeout=0.9)


async def none_known() -> int:
    return 0


@dataclass(slots=True)
class Contender:
    """Writes down what it is granted, in the list that all share."""

    holder: str
    epochs: list[tuple[int, str]]
    losses: int = 0
    elector: Elector = field(init=False)
    task: asyncio.Task[None] = field(init=False)

    def granted(self, grant: Grant) -> None:
        self.epochs.append((grant.epoch, self.holder))

    def renewed(self, sent_at: float) -> None:
        pass

    def lost(self, reason: str) -> None:
        self.losses += 1
        self.elector.ready(True)

    @property
    def leads(self) -> bool:
        return self.elector.view.role is Role.LEADING


def join(
    store: DocumentStore, holder: str, epochs: list[tuple[int, str]], floor: Callable[[], Awaitable[int]] = none_known
) -> Contender:
    contender = Contender(holder, epochs)
    contender.elector = Elector(
        store, NAME, holder, SHORT, BootClock(), contender, Log(stream=io.StringIO()), min_epoch=floor
    )
    contender.elector.ready(True)
    contender.task = asyncio.ensure_future(contender.elector.run())
    return contender


async def leader_of(contenders: list[Contender]) -> Contender:
    async with asyncio.timeout(PATIENT):
        while not (leading := [each for each in contenders if each.leads]):  # noqa: ASYNC110 - several may change it
            await asyncio.sleep(0.02)
    return leading[0]


async def end(contenders: list[Contender]) -> None:
    for each in contenders:
        each.task.cancel()
    await asyncio.gather(*(each.task for each in contenders), return_exceptions=True)


def grown(epochs: list[tuple[int, str]]) -> bool:
    """Whether each grant has an epoch above the one before."""
    return all(later > earlier for (earlier, _), (later, _) in pairwise(epochs))


def test_one_of_several_leads_a_released_lock_goes_to_its_successor_and_a_dead_leaders_to_another(
    backend: Backend,
) -> None:
    async def run() -> None:
        epochs: list[tuple[int, str]] = []
        contenders = [join(backend.client(), name, epochs) for name in ("a", "b", "c")]
        try:
            first = await leader_of(contenders)
            await asyncio.sleep(3 * SHORT.retry)
            others = [each for each in contenders if each is not first]
            assert not any(each.leads for each in others)
            first.elector.stop()
            assert await first.elector.release(others[0].holder)
            second = await leader_of(others)
            await end([second])  # as a machine that is lost: nothing is released
            third = await leader_of([each for each in others if each is not second])
            assert [holder for _, holder in epochs] == [first.holder, second.holder, third.holder]
            assert grown(epochs)
        finally:
            await end(contenders)

    asyncio.run(run())


def test_a_lock_that_is_removed_is_taken_above_the_floor(backend: Backend) -> None:
    async def run() -> None:
        epochs: list[tuple[int, str]] = []
        alone = join(backend.client(), "a", epochs)
        await leader_of([alone])
        await end([alone])
        backend.remove(NAME)

        async def floor() -> int:
            return epochs[0][0]

        other = join(backend.client(), "b", epochs, floor)
        try:
            await leader_of([other])
            assert grown(epochs)
        finally:
            await end([other])

    asyncio.run(run())


def test_no_epoch_is_granted_twice_while_requests_and_answers_get_lost(backend: Backend) -> None:
    dice = random.Random(28)
    fates = (None, None, Fault.LOST_REQUEST, Fault.LOST_ANSWER)

    async def run() -> None:
        epochs: list[tuple[int, str]] = []
        contenders = [
            join(backend.client(*(dice.choice(fates) for _ in range(200))), name, epochs) for name in ("a", "b", "c")
        ]
        try:
            for _ in range(4):
                leader = await leader_of(contenders)
                await asyncio.sleep(2 * SHORT.retry)
                await leader.elector.release(None)
                leader.elector.ready(True)
            assert grown(epochs), epochs
        finally:
            await end(contenders)

    asyncio.run(run())
