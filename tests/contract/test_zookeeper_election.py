"""Elections on a real ensemble of three servers: one is killed, frozen or cut off, and so is a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testkit.zookeeper import Ensemble, Server
from tests.contract.candidates import FAST, Candidate, Member, Servers, contend
from tests.contract.zookeeper import ZooKeeper, running
from understudy.config.timings import PROFILES, Timings
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.election.state import Role


@dataclass
class OnZooKeeper:
    backend: ZooKeeper

    @property
    def leader(self) -> Server:
        return self.backend.ensemble.leader

    async def join(self, holder: str, all_of_them: list[Candidate], timings: Timings = FAST) -> Member:
        wires = [self.backend.proxy(each) for each in self.backend.ensemble.servers]
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in wires)
        store = ZooKeeperDocumentStore(self.backend.connection(hosts, timings.request))
        return contend(store, "zookeeper", holder, all_of_them, [*wires], timings)


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(tmp_path_factory.mktemp("zookeeper")) as made:
        yield made


@pytest.fixture
def servers(ensemble: Ensemble) -> Iterator[Servers]:
    ensemble.repair()
    made = ZooKeeper(ensemble)
    yield OnZooKeeper(made)
    ensemble.repair()
    made.close()


@pytest.mark.parametrize("what", ["kill", "freeze"])
def test_a_leader_leads_on_when_the_first_of_the_servers_goes(servers: Servers, what: str) -> None:
    """The others elect one of theirs. A frozen server keeps its connections open, and answers nothing on them."""

    async def run() -> None:
        everyone: list[Candidate] = []
        patient = PROFILES["default"]
        leader = await servers.join("a", everyone, patient)
        await leader.until(Role.LEADING)
        follower = await servers.join("b", everyone, patient)
        await asyncio.sleep(1.0)
        getattr(servers.leader, what)()
        gone = leader.candidate.clock.now()
        async with asyncio.timeout(60):
            while leader.candidate.renewed_at < gone + 2 * patient.retry:  # noqa: ASYNC110 - it renews by itself
                await asyncio.sleep(0.05)
        assert leader.elector.view.role is Role.LEADING
        assert (leader.candidate.epochs, leader.candidate.losses) == ([1], [])
        assert follower.candidate.epochs == []
        await asyncio.gather(leader.end(), follower.end())

    asyncio.run(run())


def test_a_leader_that_is_cut_off_has_closed_its_gate_before_another_leads(servers: Servers) -> None:
    async def run() -> None:
        everyone: list[Candidate] = []
        leader = await servers.join("a", everyone)
        await leader.until(Role.LEADING)
        follower = await servers.join("b", everyone)
        await asyncio.sleep(2 * FAST.retry)
        leader.cut()
        await follower.until(Role.LEADING)
        assert not leader.candidate.is_open
        await asyncio.gather(leader.end(), follower.end())
        assert follower.candidate.epochs == [2]
        assert [each.overlaps for each in everyone] == [[], []]

    asyncio.run(run())


def test_a_leader_that_is_told_to_stop_names_its_successor_and_no_lease_is_waited_for(servers: Servers) -> None:
    async def run() -> None:
        everyone: list[Candidate] = []
        leader = await servers.join("a", everyone)
        await leader.until(Role.LEADING)
        follower = await servers.join("b", everyone)
        await asyncio.sleep(2 * FAST.retry)
        leader.candidate.open_until = 0.0
        leader.elector.stop()
        assert await leader.elector.release("b")
        await follower.until(Role.LEADING, within=FAST.lease)
        await asyncio.gather(leader.end(), follower.end())
        assert follower.candidate.epochs == [2]

    asyncio.run(run())
