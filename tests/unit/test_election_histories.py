"""Random short histories of real electors under faults. What must hold in every one of them:

- no two gates are ever open at once;
- epochs grow with every grant, even if the lock is deleted or restored;
- when the faults stop, exactly one leads soon.

Replay a failure with ``HISTORY=<seed> pytest tests/unit/test_election_histories.py``; ``HISTORIES=<n>`` runs more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.doubles.memory import MemoryServer
from tests.unit.election_builders import FAST, NAME, Call, Driver, Member, join, virtually
from understudy.documents.model import Document, Outcome, Unknown
from understudy.election.state import Role
from understudy.errors import DocumentError

_COUNT = int(os.environ.get("HISTORIES", "30"))
_SEEDS = [int(os.environ["HISTORY"])] if "HISTORY" in os.environ else list(range(_COUNT))

#: Within this many seconds after the last fault a replica leads: two waits of a lease (an outage may restart one) and requests.
_SOON = 2 * FAST.lease + 6 * FAST.retry + 6 * FAST.request


@dataclass
class Network:
    """What happens to requests, by chance; ``calm`` ends it."""

    chance: random.Random
    trouble: float
    calm: bool = False
    late: list[asyncio.Task[Outcome]] = field(default_factory=list)

    async def write(self, call: Call[Outcome]) -> Outcome:
        await asyncio.sleep(self.chance.uniform(0.0, 0.05))
        if self.calm or self.chance.random() > self.trouble:
            outcome = await call()
            await asyncio.sleep(0.0 if self.calm else self.chance.choice([0.0, 0.02, 0.5]))
            return outcome
        match self.chance.randrange(5):
            case 0:
                return Unknown("never sent")
            case 1:
                await call()
                return Unknown("answer lost")
            case 2:
                self.late.append(asyncio.ensure_future(self._later(call)))
                return Unknown("on its way")
            case 3:
                self.late.append(asyncio.ensure_future(self._later(call)))
                await asyncio.get_running_loop().create_future()  # hangs
                raise AssertionError
            case _:
                await call()
                raise OSError("reset after sending")

    async def _later(self, call: Call[Outcome]) -> Outcome:
        await asyncio.sleep(self.chance.uniform(0.1, 3 * FAST.lease))
        return await call()

    async def fetch(self, call: Call[Document | None]) -> Document | None:
        await asyncio.sleep(self.chance.uniform(0.0, 0.05))
        if not self.calm and self.chance.random() < self.trouble:
            if self.chance.random() < 0.3:
                await asyncio.get_running_loop().create_future()
            raise DocumentError("no answer")
        return await call()


@dataclass
class History:
    seed: int
    lock_is_safe: bool = True
    second: MemoryServer | None = None
    chance: random.Random = field(init=False)
    server: MemoryServer = field(default_factory=MemoryServer)
    members: list[Member] = field(default_factory=list)
    networks: list[Network] = field(default_factory=list)
    granted: list[tuple[int, str]] = field(default_factory=list)
    backups: list[bytes] = field(default_factory=list)
    asked: list[asyncio.Future[Any]] = field(default_factory=list)
    born: int = 0
    min_epoch: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def opened(self, driver: Driver) -> None:
        """Called whenever a gate may have opened. A renewal confirmed too late, after a freeze, opens nothing."""
        if not driver.is_open():
            return
        epoch = driver.epochs[-1]
        if not self.granted or self.granted[-1] != (epoch, driver.holder):
            known = [old for old, _ in self.granted]
            assert epoch > max(known, default=0), f"seed {self.seed}: epoch {epoch} after {self.granted}"
            self.granted.append((epoch, driver.holder))
        self.min_epoch = max(self.min_epoch, epoch)
        if self.lock_is_safe:
            others = [
                member.holder for member in self.members if member.driver is not driver and member.driver.is_open()
            ]
            assert not others, f"seed {self.seed}: {driver.holder} opened while {others} were open"

    async def known_epoch(self) -> int:
        await asyncio.sleep(self.chance.uniform(0.0, 0.02))
        return self.min_epoch

    def join(self) -> None:
        self.born += 1
        member = join(
            self.server,
            f"h{self.born}",
            is_ready=self.chance.random() < 0.7,
            min_epoch=self.known_epoch,
            offset=self.chance.uniform(-1000, 1000),
            rate=self.chance.uniform(0.998, 1.002),
            jitter=self.chance.random,
            second=self.second,
        )
        network = Network(self.chance, self.chance.choice([0.0, 0.1, 0.4, 0.9]))
        for wire in member.wires:
            wire.write, wire.fetch = network.write, network.fetch
        member.driver.opened.append(self.opened)
        self.members.append(member)
        self.networks.append(network)

    def alive(self) -> list[Member]:
        return [member for member in self.members if not member.task.done()]

    async def step(self) -> None:
        self.check_alive()
        await asyncio.sleep(self.chance.expovariate(1.0))
        member = self.chance.choice(self.alive())
        await self.chance.choice(
            [self.kill, self.freeze, self.outage, self.release, self.stop, self.ready, self.other]
        )(member)

    async def kill(self, member: Member) -> None:
        member.die()
        await asyncio.sleep(0)
        if self.chance.random() < 0.5:
            for other in self.alive():
                other.elector.evidence(member.holder)
        self.join()

    async def freeze(self, member: Member) -> None:
        member.clock.thawed.clear()
        await asyncio.sleep(self.chance.uniform(0.1, 2 * FAST.lease))
        member.clock.thawed.set()

    async def outage(self, _: Member) -> None:
        hit = [member for member in self.alive() if self.chance.random() < 0.7]
        wires = [wire for member in hit for wire in member.wires if self.chance.random() < 0.8]
        for wire in wires:
            wire.inner.reachable = False
        await asyncio.sleep(self.chance.uniform(0.1, 3 * FAST.lease))
        for wire in wires:
            wire.inner.reachable = True

    async def release(self, member: Member) -> None:
        if member.driver.epochs:
            successor = self.chance.choice([None, *[other.holder for other in self.alive()]])
            self.asked.append(asyncio.ensure_future(member.step_down(successor)))

    async def stop(self, member: Member) -> None:
        member.elector.stop()
        self.asked.append(asyncio.ensure_future(member.step_down(None)))
        self.join()

    async def ready(self, member: Member) -> None:
        member.elector.ready(self.chance.random() < 0.7)

    async def other(self, member: Member) -> None:
        if self.lock_is_safe:
            self.asked.append(asyncio.ensure_future(self.raise_(member)))
        else:
            self.harm()

    async def raise_(self, member: Member) -> None:
        epoch = await member.elector.raise_above(self.min_epoch)
        if epoch is not None and member.driver.epochs[-1] < epoch:
            member.driver.epochs.append(epoch)
            self.opened(member.driver)

    def harm(self) -> None:
        standing = self.server.look(NAME)
        if standing is not None and self.chance.random() < 0.5:
            self.backups.append(standing[1])
        match self.chance.randrange(4):
            case 0:
                self.server.remove(NAME)
            case 1:
                self.server.overwrite(NAME, b"")
            case 2:
                self.server.overwrite(NAME, b"{half")
            case _:
                if self.backups:
                    self.server.overwrite(NAME, self.chance.choice(self.backups))

    async def run(self) -> None:
        """Two or three replicas, fifteen troubles, then calm."""
        for _ in range(self.chance.choice([2, 3])):
            self.join()
        for _ in range(15):
            await self.step()
            self.check_alive()
        for network in self.networks:
            network.calm = True
        await asyncio.gather(*[task for network in self.networks for task in network.late], return_exceptions=True)
        await asyncio.sleep(_SOON)
        self.check_alive()

    def check_alive(self) -> None:
        for member in self.members:
            if member.task.done() and not member.task.cancelled():
                error = member.task.exception()
                assert error is None, f"seed {self.seed}: {member.holder} died of {error!r}"
                assert member.role() is Role.STOPPED

    def leaders(self) -> list[str]:
        return [member.holder for member in self.alive() if member.role() is Role.LEADING]


def _replayable(seed: int, run: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await run()

    try:
        virtually(main())
    except BaseException:
        print(f"replay with: HISTORY={seed} pytest {__file__}")  # noqa: T201
        raise


@pytest.mark.parametrize("lock", ["one", "multi"])
def test_no_two_gates_are_open_at_once_and_epochs_never_repeat(lock: str) -> None:
    grants = 0
    for seed in _SEEDS:
        history = History(seed, second=MemoryServer() if lock == "multi" else None)

        async def run(history: History = history) -> None:
            await history.run()
            assert len(history.leaders()) == 1, f"seed {history.seed}: {[m.elector.view for m in history.alive()]}"

        _replayable(seed, run)
        grants += len(history.granted)

    assert len(_SEEDS) < 10 or grants > len(_SEEDS), "faults that stop everything would make these claims empty"


def test_epochs_never_repeat_when_the_lock_is_deleted_emptied_damaged_or_restored() -> None:
    for seed in _SEEDS[: len(_SEEDS) // 2 or 1]:
        history = History(seed, lock_is_safe=False)
        _replayable(seed, history.run)
