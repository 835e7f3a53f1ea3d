"""Components of replicas that elect one of them, and those who follow, on every backend.

The cases are Flink's (2.x, as of 2026), of an election and of a retrieval that share one store: ``LeaderElectionTest``, ``ZooKeeperLeaderElectionTest``,
``ZooKeeperLeaderElectionDriverTest``, ``KubernetesLeaderElectionDriverTest``, ``KubernetesLeaderRetrievalDriverTest``,
``KubernetesLeaderElectionAndRetrievalITCase``. Elsewhere are asked: which of several leads (``testLeaderElectionWithMultipleDrivers``,
``testMultipleKubernetesLeaderElectors``) in ``test_election``; what is written once (``testLeaderChangeWriteLeaderInformationOnlyOnce``) and what cannot
be (``testExceptionForwarding``) in ``tests/unit/test_components.py``; an entry that another writer changed
(``testLeaderConfigMapModifiedExternallyShouldBeCorrected``) in ``tests/unit/test_flink_cases.py``; a watch that breaks (``testErrorForwarding``) in
``tests/unit/test_election_elector.py``. Opposite here is ``testEphemeralZooKeeperNodes``: no document ends with a connection.
"""

from __future__ import annotations

import asyncio

from tests.contract.backends import Backend
from tests.contract.electing import NAMES, ElectingReplica, electing, following, next_leader
from tests.contract.test_documents import standing, written
from understudy.documents.model import Content
from understudy.election.retrieval import ComponentLeader
from understudy.ha.components import ENDPOINT, Components
from understudy.protocol.token import Token


def led(replica: ElectingReplica, token: Token) -> ComponentLeader:
    return ComponentLeader(token, replica.holder, replica.endpoint.address)


def test_leader_election_and_retrieval(backend: Backend) -> None:
    """Also ``testHasLeadershipAsync``: it leads under its own token until it closes, and is told so."""

    async def run() -> None:
        async with electing(ElectingReplica(backend.client(), "a")) as (alone,), following(backend.client()) as leaders:
            token = await alone.until_it_leads()
            assert await next_leader(leaders) == led(alone, token)
            election = alone.endpoint.election
            assert election.has_leadership(token)
            assert not election.has_leadership(Token(token.epoch + 1, 0))
            await alone.close()
            assert not election.has_leadership(token)
            assert alone.endpoint.told == [token, None]

    asyncio.run(run())


def test_not_leader_should_not_clean_up_the_leader_information(backend: Backend) -> None:
    """A follower that comes later reads where the last leader was, until another one has claimed the job."""

    async def run() -> None:
        async with electing(ElectingReplica(backend.client(), "a")) as replicas:
            first = led(replicas[0], await replicas[0].until_it_leads())
            await replicas[0].close()
            async with following(backend.client()) as leaders:
                assert await anext(leaders) == first
                replicas.append(ElectingReplica(backend.client(), "b"))
                second = led(replicas[1], await replicas[1].until_it_leads())
                assert await next_leader(leaders) == second

    asyncio.run(run())


def test_reelection(backend: Backend) -> None:
    """Each is followed, once, by one that is left, under a higher token."""

    async def run() -> None:
        made = [ElectingReplica(backend.client(), name) for name in "abcd"]
        async with electing(*made) as replicas, following(backend.client()) as leaders:
            left, epochs = {each.holder: each for each in replicas}, []
            while left:
                found = await next_leader(leaders)
                leader = left.pop(found.holder)
                assert found == led(leader, await leader.until_it_leads())
                epochs.append(found.token.epoch)
                await leader.close()
            assert epochs == sorted(set(epochs))

    asyncio.run(run())


def test_reelection_with_replacement(backend: Backend) -> None:
    """In the place of each leader that closes another process contends, and may lead again."""

    async def run() -> None:
        made = [ElectingReplica(backend.client(), f"{name}-0") for name in "ab"]
        async with electing(*made) as replicas, following(backend.client()) as leaders:
            epochs = []
            for turn in range(1, 7):
                found = await next_leader(leaders)
                leader = next(each for each in replicas if each.holder == found.holder)
                assert found == led(leader, await leader.until_it_leads())
                epochs.append(found.token.epoch)
                replicas.append(ElectingReplica(backend.client(), f"{found.holder[0]}-{turn}"))
                await leader.close()
            assert epochs == sorted(set(epochs))

    asyncio.run(run())


def test_publish_leader_information(backend: Backend) -> None:
    """Of a component that starts while its process leads: one write, which leaves the other one as it is."""

    async def run() -> None:
        async with (
            electing(ElectingReplica(backend.client(), "a")) as (alone,),
            following(backend.client(), "late") as late,
            following(backend.client()) as leaders,
        ):
            token = await alone.until_it_leads()
            alone.serve("late", "late:1")
            assert await next_leader(late) == ComponentLeader(token, "a", "late:1")
            assert await next_leader(leaders) == led(alone, token)

    asyncio.run(run())


def test_non_leader_cannot_publish_leader_information(backend: Backend) -> None:
    """A process that was frozen takes itself for the leader. What it confirms then is refused by the job's token."""

    async def run() -> None:
        async with electing(ElectingReplica(backend.client(), "a")) as replicas, following(backend.client()) as leaders:
            frozen = replicas[0]
            old = await frozen.until_it_leads()
            await frozen.freeze()
            replicas.append(ElectingReplica(backend.client(), "b"))
            leader = led(replicas[1], await replicas[1].until_it_leads())
            while await next_leader(leaders) != leader:
                pass
            document = await standing(backend.client(), NAMES.job_document)
            assert frozen.endpoint.election.confirm(old, "stale:1")
            assert "above ours" in await unwritten(frozen)
            assert await standing(backend.client(), NAMES.job_document) == document

    asyncio.run(run())


def test_write_leader_information_when_the_document_does_not_exist(backend: Backend) -> None:
    """It is not made again, for it would be one without tokens: that is an error, and a follower finds no leader. Also
    ``testLeaderInformationNodeRemovalLeadsToLeaderChangeWithEmptyLeaderInformation`` and ``testLeaderConfigMapDeletedExternally``.
    """

    async def run() -> None:
        async with electing(ElectingReplica(backend.client(), "a")) as (alone,), following(backend.client()) as leaders:
            token = await alone.until_it_leads()
            assert await next_leader(leaders) == led(alone, token)
            backend.remove(NAMES.job_document)
            assert await anext(leaders) is None
            assert alone.endpoint.election.confirm(token, "moved:1")
            assert "the job's record is gone" in await unwritten(alone)
            assert await backend.client().read(NAMES.job_document) is None

    asyncio.run(run())


async def unwritten(replica: ElectingReplica) -> str:
    """Why what a component confirmed is not in the job's document."""
    while True:
        for event in replica.said:
            if event.event == "component-unwritten":
                return event.sentence
        await asyncio.sleep(0.01)


def test_leader_retrieval_on_modified(backend: Backend) -> None:
    """Also ``testKubernetesLeaderRetrievalOnModifiedWithEmpty`` and ``testLeaderInformationChange``. Followers believe the document."""

    async def run() -> None:
        async with electing(ElectingReplica(backend.client(), "a")) as (alone,), following(backend.client()) as leaders:
            token = await alone.until_it_leads()
            assert await next_leader(leaders) == led(alone, token)
            moved = ComponentLeader(token, alone.holder, "moved:1")
            entries = Components().confirmed(ENDPOINT, moved).entries(before=Components())
            store = backend.client()
            document = written(await store.replace(await standing(store, NAMES.job_document), Content(entries)))
            assert await anext(leaders) == moved
            written(await store.replace(document, Content(dict.fromkeys(entries))))
            assert await anext(leaders) is None

    asyncio.run(run())
