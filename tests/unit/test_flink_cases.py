"""The cases of Flink's own tests of an election of many components, asked of ours.

``DefaultLeaderElectionServiceTest`` and ``DefaultLeaderRetrievalServiceTest`` (2.0). Where the answer differs, the test says so and why.
What they ask of threads and their locks has no counterpart: all of ours runs in one event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.test_component_entries import claim, jobs
from tests.unit.test_components import ONE, TWO, Attached, Bench, played, turns
from understudy.clock import BootClock
from understudy.election.retrieval import ComponentLeader, Retrieval
from understudy.ha.components import ENDPOINT
from understudy.ha.job import leader_of

# --- DefaultLeaderElectionServiceTest ---------------------------------------------------------------------------------


def test_on_grant_and_revoke_leadership() -> None:
    """What was written stays after a loss: it is not ours to touch any more, and the next claim removes it."""

    async def script(bench: Bench) -> None:
        contenders = [bench.start(name, f"{name}:1") for name in ("a", "b")]
        bench.grant(1)
        bench.service.claimed(1, {})
        await turns()
        bench.service.lost("gone")
        await turns()
        for election, contender in contenders:
            assert contender.heard == ["granted 1", "revoked gone"]
            assert not election.has_leadership(ONE)

    assert played(script).written == [("a", ONE, "a:1"), ("b", ONE, "b:1")]


def test_error_on_component_id_reuse() -> None:
    async def script(bench: Bench) -> None:
        bench.start("a")
        with pytest.raises(RuntimeError, match="a has started already"):
            bench.start("a")

    played(script)


def test_lazy_driver_instantiation() -> None:
    async def script(bench: Bench) -> None:
        bench.service.election("a")
        assert not bench.made
        bench.start("a")
        bench.start("b")
        assert len(bench.made) == 1

    played(script)


def test_reuse_of_service_is_restricted() -> None:
    async def script(bench: Bench) -> None:
        bench.start("a")
        await bench.service.close()
        with pytest.raises(RuntimeError, match="never contends again"):
            bench.start("b")

    played(script)


def test_multiple_driver_creations() -> None:
    """Flink makes another driver after the last component has closed. A process of ours that has left its election never contends again:
    its holder's id was given up with the lock.
    """

    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        election.close()
        await turns()
        assert bench.made[0].asked == ["stop", "release None"]
        with pytest.raises(RuntimeError, match="never contends again"):
            bench.start("a")

    assert len(played(script).made) == 1


def test_grant_call_while_instantiating_driver() -> None:
    """The elector runs only after it was made, so no grant comes that early; what is attached hears of the first one."""

    async def script(bench: Bench) -> None:
        job = Attached()
        bench.service.election("job").attach(job)
        bench.grant(1)
        assert job.heard == ["granted 1"]

    played(script)


def test_delayed_grant_call_after_contender_registration() -> None:
    async def script(bench: Bench) -> None:
        _, contender = bench.start("a")
        await turns()
        assert contender.heard == []
        bench.grant(1)
        await turns()
        assert contender.heard == ["granted 1"]

    played(script)


def test_delayed_grant_call_before_contender_registration() -> None:
    """A contender that starts while the process leads is told at once."""

    async def script(bench: Bench) -> None:
        bench.start("early")
        bench.grant(1)
        _, late = bench.start("late")
        await turns()
        assert late.heard == ["granted 1"]

    played(script)


def test_delayed_grant_call_after_contender_being_deregistered() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.start("b")
        election.close()
        bench.grant(1)
        await turns()
        assert contender.heard == []

    played(script)


def test_proper_cleanup_on_leader_election_close_when_holding_the_leadership() -> None:
    """One component closes, and the other leads on."""

    async def script(bench: Bench) -> None:
        closing, gone = bench.start("a")
        other, kept = bench.start("b")
        bench.grant(1)
        await turns()
        closing.close()
        await turns()
        assert gone.heard == ["granted 1", "revoked "]
        assert kept.heard == ["granted 1"]
        assert (closing.has_leadership(ONE), other.has_leadership(ONE)) == (False, True)
        assert bench.made[0].asked == []

    played(script)


def test_has_leadership() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        assert not election.has_leadership(ONE)
        bench.grant(1)
        assert (election.has_leadership(ONE), election.has_leadership(TWO)) == (True, False)
        election.close()
        assert not election.has_leadership(ONE)

    played(script)


def test_on_grant_leadership_is_ignored_after_being_closed() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        election.close()
        bench.grant(1)
        await turns()
        assert contender.heard == []

    played(script)


def test_on_revoke_leadership_is_triggered_after_being_closed() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        election.close()
        await turns()
        assert contender.heard == ["granted 1", "revoked "]

    played(script)


def test_old_confirm_leader_information() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        bench.grant(2)
        bench.service.claimed(2, {})
        assert not election.confirm(ONE, "old:1")
        await turns()
        assert election.has_leadership(TWO)

    assert played(script).written == []


def test_leader_information_changed_and_should_be_corrected() -> None:
    """Flink writes its entry again when it finds another. Ours is not watched: who may write the document is trusted, and what a lost
    write leaves out is written by the write that was not confirmed. The next grant writes all of it.
    """

    async def script(bench: Bench) -> None:
        bench.start("a", "a:1")
        bench.grant(1)
        bench.service.claimed(1, {})
        await turns()
        bench.service.claimed(1, {"a": "elsewhere:1"})  # another start of a driver under this grant finds it
        await turns()

    assert played(script).written == [("a", ONE, "a:1"), ("a", ONE, "a:1")]


def test_error_is_ignored_after_being_closed() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a", fails=True)
        election.close()
        bench.grant(1)
        await turns()

    assert "component-failed" not in played(script).events()


# --- DefaultLeaderRetrievalServiceTest --------------------------------------------------------------------------------


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
