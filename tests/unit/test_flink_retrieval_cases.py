"""The cases of Flink's own tests of those who follow a leader, asked of ours: ``DefaultLeaderRetrievalServiceTest`` (2.x, as of 2026).

Its two of errors (``testErrorForwarding``, ``testErrorIsIgnoredAfterBeingStop``) are asked in ``test_component_entries``: a follower outlives them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.test_component_entries import claim, jobs
from tests.unit.test_components import ONE, TWO
from understudy.clock import BootClock
from understudy.election.retrieval import ComponentLeader, Retrieval
from understudy.ha.components import ENDPOINT
from understudy.ha.job import leader_of


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
