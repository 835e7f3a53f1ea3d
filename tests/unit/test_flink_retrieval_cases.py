"""The cases of Flink's own tests of those who follow a leader, and of what is kept of the leaders of components, asked of ours (2.x, as of 2026).

``DefaultLeaderRetrievalServiceTest``; its two of errors (``testErrorForwarding``, ``testErrorIsIgnoredAfterBeingStop``) are asked in
``test_component_entries``: a follower outlives them. ``SettableLeaderRetrievalServiceTest`` and ``LeaderInformationRegisterTest``, whose register is
``Components`` here. Followers of real stores, also of ones that are away: ``tests/contract/test_component_election.py`` and
``test_zookeeper_election.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.doubles.claims import claim
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.test_component_entries import jobs
from tests.unit.test_components import ONE, TWO, turns
from understudy.clock import BootClock
from understudy.documents.model import Document
from understudy.election.retrieval import ComponentLeader, Retrieval
from understudy.errors import DocumentError
from understudy.ha.components import ENDPOINT, Components
from understudy.ha.job import leader_of
from understudy.protocol.token import Token


def followed(script: Any) -> None:
    async def run() -> None:
        documents, store = jobs()
        leaders = Retrieval(documents, store.name, leader_of, BootClock()).follow(ENDPOINT)
        try:
            await script(store, leaders)
        finally:
            await leaders.aclose()

    asyncio.run(asyncio.wait_for(run(), 30.0))


def test_notify_leader_address() -> None:
    """Also ``testNotifyListenerLater``: what was there before it began to follow is the first that it is told."""

    async def script(store: Any, leaders: Any) -> None:
        await claim(store, 1, "me", "host:1")
        assert await anext(leaders) == ComponentLeader(ONE, "me", "host:1")

    followed(script)


def test_notify_leader_address_empty() -> None:
    async def script(store: Any, leaders: Any) -> None:
        await claim(store, 1, "me", "host:1")
        assert await anext(leaders) == ComponentLeader(ONE, "me", "host:1")
        await claim(store, 2, "you", "")
        assert await anext(leaders) is None

    followed(script)


def test_notify_leader_address_only_when_leader_truly_changed() -> None:
    async def script(store: Any, leaders: Any) -> None:
        assert await anext(leaders) is None
        job = await claim(store, 1, "me", "host:1")
        assert await anext(leaders) == ComponentLeader(ONE, "me", "host:1")
        for at in (1.0, 2.0):
            await store.committed(job.token, at)
        await claim(store, 2, "you", "host:2")
        assert await anext(leaders) == ComponentLeader(TWO, "you", "host:2")

    followed(script)


def test_notify_listener_immediately() -> None:
    async def script(store: Any, leaders: Any) -> None:
        assert await anext(leaders) is None
        following = asyncio.ensure_future(anext(leaders))
        await turns()
        assert not following.done()
        await claim(store, 1, "me", "host:1")
        assert await following == ComponentLeader(ONE, "me", "host:1")

    followed(script)


class Breaking(MemoryDocumentStore):
    """Its first watches break: one before it has told anything, the next one after it has told what stands there."""

    breaks = 2

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        self.breaks -= 1
        if self.breaks == 1:
            raise DocumentError("the watch broke", where=name)
        async for document in super().watch(name):
            yield document
            if self.breaks == 0:
                raise DocumentError("the watch broke", where=name)


def test_error_forwarding() -> None:
    """Of a watch, as ``KubernetesLeaderRetrievalDriverTest`` asks it. Flink's ends the process; ours is begun again, since it is but a hint."""

    async def run() -> None:
        server = MemoryServer()
        _, store = jobs(server)
        leaders = Retrieval(Breaking(server), store.name, leader_of, BootClock()).follow(ENDPOINT)
        for epoch in (1, 2, 3):
            leader = ComponentLeader(Token(epoch, 0), "me", f"host:{epoch}")
            await claim(store, epoch, leader.holder, leader.address)
            assert await anext(leaders) == leader
        await leaders.aclose()

    # less than it waits where no watch tells it anything
    asyncio.run(asyncio.wait_for(run(), 12.0))


# --- LeaderInformationRegisterTest --------------------------------------------------------------------------------------


MINE, YOURS = ComponentLeader(ONE, "me", "host:1"), ComponentLeader(ONE, "me", "host:2")


def test_of_with_known_leader_information() -> None:
    """Also ``testForComponentId`` and ``testHasLeaderInformation``."""
    register = Components().confirmed("a", MINE)
    assert register.known == (("a", MINE),)
    assert register.leader("a") == MINE


def test_empty_instance() -> None:
    """Also ``hasNoLeaderInformation`` and those of a component that is not registered."""
    assert Components().known == ()
    assert Components().leader("a") is None


def test_merge() -> None:
    register = Components().confirmed("a", MINE)
    assert register.confirmed("b", YOURS).known == (("a", MINE), ("b", YOURS))
    assert register.known == (("a", MINE),), "it is a value"


def test_merge_known_leader_information_for_existing_component_id() -> None:
    assert Components().confirmed("a", MINE).confirmed("a", YOURS).known == (("a", YOURS),)


def test_merge_empty_leader_information() -> None:
    """There is no empty entry: a claim takes along those that have confirmed, and keeps its own grant's. Also
    ``testEmptyLeaderInformationFiltering``.
    """
    register = Components().confirmed("a", MINE)
    assert register.under(1, "me", {"b": YOURS}).known == (("a", MINE), ("b", YOURS))
    assert register.under(1, "me", {}) == register


def test_clear() -> None:
    """By the next claim alone, and of all that are not its own. Also ``testClearNotRegisteredComponentId``."""
    register = Components().confirmed("a", MINE).confirmed("b", YOURS)
    assert register.under(2, "me", {}) == register.under(1, "you", {}) == Components()
    assert Components().entries(before=register) == {"component.a": None, "component.b": None}
    assert Components().under(2, "me", {}) == Components()
