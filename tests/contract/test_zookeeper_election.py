"""Elections on a real ensemble of three servers: one is killed, frozen or cut off, and so is a leader, or a follower.

Flink's cases of connections (2.x, as of 2026) by name: ``ZooKeeperLeaderElectionConnectionHandlingTest`` and
``ZooKeeperLeaderRetrievalConnectionHandlingTest``. What differs: no connection is evidence of anything here. A leader whose connection breaks leads on
until its deadline (``testLoseLeadershipOnConnectionSuspended`` has no counterpart), and a follower goes by what it has read last
(``testConnectionSuspendedHandling``: Flink's is told that there is no leader).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from testkit.zookeeper import Ensemble, Server, ZooKeeperProxy
from tests.contract.candidates import FAST, Candidate, Member, Servers, contend
from tests.contract.electing import NAMES, Leaders, following
from tests.contract.test_component_election import *  # noqa: F403 - run again here: pytest collects what that module has
from tests.contract.zookeeper import ZooKeeper, running
from tests.doubles.claims import claim
from understudy.config.timings import PROFILES, Timings
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.election.retrieval import ComponentLeader
from understudy.election.state import Role
from understudy.ha.job_store import JobStore
from understudy.protocol.token import Token


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
def backend(ensemble: Ensemble) -> Iterator[ZooKeeper]:
    ensemble.repair()
    made = ZooKeeper(ensemble)
    yield made
    ensemble.repair()
    made.close()


@pytest.fixture
def servers(backend: ZooKeeper) -> Servers:
    return OnZooKeeper(backend)


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


def test_keep_leadership_on_suspended_connection(servers: Servers, backend: ZooKeeper) -> None:
    """Every connection breaks, and another one can be made: its gate never closes."""

    async def run() -> None:
        everyone: list[Candidate] = []
        patient = PROFILES["default"]
        leader = await servers.join("a", everyone, patient)
        await leader.until(Role.LEADING)
        follower = await servers.join("b", everyone, patient)
        await asyncio.sleep(1.0)
        for each in backend.proxies:
            each.restore()  # ends what is open
        broken = leader.candidate.clock.now()
        async with asyncio.timeout(60):
            while leader.candidate.renewed_at < broken + patient.retry:
                assert leader.candidate.is_open
                await asyncio.sleep(0.05)
        assert (leader.candidate.epochs, leader.candidate.losses) == ([1], [])
        assert follower.candidate.epochs == []
        await asyncio.gather(leader.end(), follower.end())

    asyncio.run(run())


def test_a_leader_that_is_cut_off_has_closed_its_gate_before_another_leads(servers: Servers) -> None:
    """Also ``testLoseLeadershipOnLostConnectionIfTolerateSuspendedConnectionsIsEnabled``."""

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


# --- followers ----------------------------------------------------------------------------------------------------------


@dataclass
class Followed:
    """A job, and one who follows its leaders over ``wire``."""

    jobs: JobStore
    leaders: Leaders
    wire: ZooKeeperProxy

    async def claim(self, epoch: int) -> ComponentLeader:
        await claim(self.jobs, epoch, f"holder-{epoch}", f"host:{epoch}")
        return ComponentLeader(Token(epoch, 0), f"holder-{epoch}", f"host:{epoch}")

    async def first(self) -> None:
        """The first leader, and that it is told."""
        leader = await self.claim(1)
        assert await anext(self.leaders) == leader

    async def outage(self) -> asyncio.Task[ComponentLeader | None]:
        """Nothing passes for longer than a request may take, and nothing is told of that. What is told next."""
        following = asyncio.ensure_future(anext(self.leaders))
        self.wire.cut()
        await asyncio.sleep(3 * FAST.request)
        assert not following.done()
        return following


@asynccontextmanager
async def followed(backend: ZooKeeper) -> AsyncIterator[Followed]:
    wire = backend.proxy()
    store = ZooKeeperDocumentStore(backend.connection(f"127.0.0.1:{wire.port}", FAST.request))
    async with following(store) as leaders:
        jobs = JobStore(backend.client(), NAMES.job_document, NAMES.job, "job.py")
        yield Followed(jobs, leaders, wire)


def test_connection_suspended_handling_during_initialization(backend: ZooKeeper) -> None:
    """Before there is a leader nothing is told of an outage, and the first leader is once it is over."""

    async def run() -> None:
        async with followed(backend) as one:
            assert await anext(one.leaders) is None
            following = await one.outage()
            one.wire.restore()
            assert await one.claim(1) == await following

    asyncio.run(run())


def test_a_follower_that_begins_while_no_server_answers_is_told_once_one_does(backend: ZooKeeper) -> None:
    async def run() -> None:
        async with followed(backend) as one:
            leader = await one.claim(1)
            following = await one.outage()
            one.wire.restore()
            assert await following == leader

    asyncio.run(run())


def test_suspended_connection_does_not_clear_leader_information(backend: ZooKeeper) -> None:
    """Also ``testSameLeaderAfterReconnectTriggersListenerNotification``, whose answer differs: it is not told again, for it never was another one."""

    async def run() -> None:
        async with followed(backend) as one:
            await one.first()
            following = await one.outage()
            one.wire.restore()
            await asyncio.sleep(3 * FAST.request)
            assert not following.done()
            assert await one.claim(2) == await following

    asyncio.run(run())


def test_new_leader_after_reconnect_triggers_listener_notification(backend: ZooKeeper) -> None:
    async def run() -> None:
        async with followed(backend) as one:
            await one.first()
            following = await one.outage()
            leader = await one.claim(2)
            one.wire.restore()
            assert await following == leader

    asyncio.run(run())
