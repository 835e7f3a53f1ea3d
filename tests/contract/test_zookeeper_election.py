"""Elections on a real ensemble of three servers: one is killed, frozen or cut off, and so is a leader."""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from testkit.zookeeper import Ensemble, ZooKeeperProxy
from tests.contract.zookeeper import ZooKeeper, running
from understudy.clock import BootClock
from understudy.config.timings import PROFILES, Timings
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.election.state import Role
from understudy.events import Log

NAME = "flights-lock"
FAST = PROFILES["fast"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(tmp_path_factory.mktemp("zookeeper")) as made:
        yield made


@pytest.fixture
def backend(servers: Ensemble) -> Iterator[ZooKeeper]:
    servers.repair()
    made = ZooKeeper(servers)
    yield made
    servers.repair()
    made.close()


@dataclass
class Candidate:
    """A driver that knows until when its gate is open. ``overlaps``: who else had theirs open at a grant."""

    holder: str
    clock: BootClock
    others: list[Candidate]
    timings: Timings
    epochs: list[int] = field(default_factory=list)
    renewed_at: float = 0.0
    open_until: float = 0.0
    losses: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.clock.now() < self.open_until

    def granted(self, grant: Grant) -> None:
        self.epochs.append(grant.epoch)
        self.overlaps += [each.holder for each in self.others if each is not self and each.is_open]

    def renewed(self, sent_at: float) -> None:
        self.renewed_at, self.open_until = sent_at, sent_at + self.timings.renew

    def lost(self, reason: str) -> None:
        self.losses.append(reason)
        self.open_until = 0.0


@dataclass
class Member:
    """One elector, whose way to each server is a proxy of its own."""

    candidate: Candidate
    elector: Elector
    wires: list[ZooKeeperProxy]
    task: asyncio.Task[None]

    async def until(self, role: Role, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while self.elector.view.role is not role:  # noqa: ASYNC110 - it changes by itself
                await asyncio.sleep(0.02)

    def cut(self) -> None:
        for each in self.wires:
            each.cut()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def nothing_granted() -> int:
    return 0


def join(backend: ZooKeeper, holder: str, all_of_them: list[Candidate], timings: Timings = FAST) -> Member:
    wires = [backend.proxy(each) for each in backend.ensemble.servers]
    hosts = ",".join(f"127.0.0.1:{each.port}" for each in wires)
    clock, nonces = BootClock(), itertools.count()
    candidate = Candidate(holder, clock, all_of_them, timings)
    all_of_them.append(candidate)
    elector = Elector(
        ZooKeeperDocumentStore(backend.connection(hosts, timings.request)),
        NAME,
        holder,
        timings,
        clock,
        candidate,
        Log(stream=io.StringIO()),
        min_epoch=nothing_granted,
        lock_kind="zookeeper",
        nonce=lambda: f"{holder}-{next(nonces)}",
    )
    elector.ready(True)
    return Member(candidate, elector, wires, asyncio.ensure_future(elector.run()))


@pytest.mark.parametrize("what", ["kill", "freeze"])
def test_a_leader_leads_on_when_the_first_of_the_servers_goes(backend: ZooKeeper, what: str) -> None:
    """The others elect one of theirs. A frozen server keeps its connections open, and answers nothing on them."""

    async def run() -> None:
        everyone: list[Candidate] = []
        patient = PROFILES["default"]
        leader = join(backend, "a", everyone, patient)
        await leader.until(Role.LEADING)
        follower = join(backend, "b", everyone, patient)
        await asyncio.sleep(1.0)
        getattr(backend.ensemble.leader, what)()
        gone = leader.candidate.clock.now()
        async with asyncio.timeout(60):
            while leader.candidate.renewed_at < gone + 2 * patient.retry:  # noqa: ASYNC110 - it renews by itself
                await asyncio.sleep(0.05)
        assert leader.elector.view.role is Role.LEADING
        assert (leader.candidate.epochs, leader.candidate.losses) == ([1], [])
        assert follower.candidate.epochs == []
        await asyncio.gather(leader.end(), follower.end())

    asyncio.run(run())


def test_a_leader_that_is_cut_off_has_closed_its_gate_before_another_leads(backend: ZooKeeper) -> None:
    async def run() -> None:
        everyone: list[Candidate] = []
        leader = join(backend, "a", everyone)
        await leader.until(Role.LEADING)
        follower = join(backend, "b", everyone)
        await asyncio.sleep(2 * FAST.retry)
        leader.cut()
        await follower.until(Role.LEADING)
        assert not leader.candidate.is_open
        await asyncio.gather(leader.end(), follower.end())
        assert follower.candidate.epochs == [2]
        assert [each.overlaps for each in everyone] == [[], []]

    asyncio.run(run())


def test_a_leader_that_is_told_to_stop_names_its_successor_and_no_lease_is_waited_for(backend: ZooKeeper) -> None:
    async def run() -> None:
        everyone: list[Candidate] = []
        leader = join(backend, "a", everyone)
        await leader.until(Role.LEADING)
        follower = join(backend, "b", everyone)
        await asyncio.sleep(2 * FAST.retry)
        leader.candidate.open_until = 0.0
        leader.elector.stop()
        assert await leader.elector.release("b")
        await follower.until(Role.LEADING, within=FAST.lease)
        await asyncio.gather(leader.end(), follower.end())
        assert follower.candidate.epochs == [2]

    asyncio.run(run())
