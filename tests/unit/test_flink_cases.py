"""The cases of Flink's own tests of an election of many components, asked of ours.

``DefaultLeaderElectionServiceTest`` (2.x, as of 2026); ``hasLeadershipAsync`` is ``has_leadership`` here. Where the answer differs, the test says
so and why. ``testCloseGrantDeadlock`` and ``testNestedDeadlockInLeadershipConfirmation`` ask of threads and their locks, and have no counterpart: all of
ours runs in one event loop. Contenders that hang (``testOnGrantLeadershipAsyncDoesNotBlock``, ``testOnRevokeLeadershipDoesNotBlock``) are asked in
``test_components``. Other classes: ``test_flink_handle_cases``, ``test_flink_retrieval_cases``, and on real stores
``tests/contract/test_component_election.py`` and ``test_zookeeper_election.py``.
"""

from __future__ import annotations

import pytest

from tests.unit.test_components import ONE, TWO, Attached, Bench, played, turns
from understudy.election.leader_election import LeaderElection


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
    """A grant that has not been told yet is told to a contender that starts meanwhile as well."""

    async def script(bench: Bench) -> None:
        _, first = bench.start("first")
        bench.grant(1)
        _, second = bench.start("second")
        assert (first.heard, second.heard) == ([], [])
        await turns()
        assert (first.heard, second.heard) == (["granted 1"], ["granted 1"])

    played(script)


def test_delayed_grant_call_after_contender_being_deregistered_again() -> None:
    """It never hears of the grant. It hears that it is over: a contender that was cancelled cannot know whether it had begun."""

    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.start("b")
        bench.grant(1)
        election.close()
        await turns()
        assert contender.heard == ["revoked "]

    played(script)


def test_delayed_revoke_call_after_contender_being_deregistered_again() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        bench.service.lost("gone")
        election.close()
        await turns()
        assert contender.heard == ["granted 1", "revoked gone"]

    played(script)


def test_driver_shutdown_fails_with_contender_still_being_registered() -> None:
    """Flink refuses. Ours closes each component: a process that ends does not ask its parts whether it may."""

    async def script(bench: Bench) -> None:
        _, contender = bench.start("a")
        bench.grant(1)
        await turns()
        await bench.service.close()
        assert contender.heard == ["granted 1", "revoked "]
        assert bench.made[0].asked == ["stop", "release None"]

    played(script)


def test_proper_cleanup_on_leader_election_close_when_holding_the_leadership() -> None:
    """One component closes, and the other leads on. Flink clears what the closed one has published; ours stays until the next claim, which
    takes along those that contend.
    """

    async def script(bench: Bench) -> None:
        closing, gone = bench.start("a", "a:1")
        other, kept = bench.start("b", "b:1")
        bench.grant(1)
        await turns()
        closing.close()
        await turns()
        assert gone.heard == ["granted 1", "revoked "]
        assert kept.heard == ["granted 1"]
        assert (closing.has_leadership(ONE), other.has_leadership(ONE)) == (False, True)
        assert bench.service.confirmed(1) == {"b": "b:1"}
        assert bench.made[0].asked == []

    assert played(script).written == []


def test_has_leadership_with_leadership_but_no_grant_event_processed() -> None:
    """Flink says no until the contender was told. Ours says what is known: only a contender that was told has the token to ask with."""

    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        assert not election.has_leadership(ONE)
        bench.grant(1)
        assert (election.has_leadership(ONE), election.has_leadership(TWO), contender.heard) == (True, False, [])

    played(script)


def test_has_leadership_with_leadership_and_grant_event_processed() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        assert contender.heard == ["granted 1"]
        assert (election.has_leadership(ONE), election.has_leadership(TWO)) == (True, False)

    played(script)


def test_has_leadership_with_leadership_lost_but_no_revoke_event_processed() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        bench.service.lost("gone")
        assert contender.heard == ["granted 1"]
        assert (election.has_leadership(ONE), election.has_leadership(TWO)) == (False, False)

    played(script)


def test_has_leadership_with_leadership_lost_and_revoke_event_processed() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        bench.service.lost("gone")
        await turns()
        assert contender.heard == ["granted 1", "revoked gone"]
        assert (election.has_leadership(ONE), election.has_leadership(TWO)) == (False, False)

    played(script)


def test_has_leadership_after_leader_election_close() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        bench.grant(1)
        election.close()
        assert not election.has_leadership(ONE)

    played(script)


def test_on_grant_leadership_is_ignored_after_leader_election_close() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        election.close()
        bench.grant(1)
        await turns()
        assert not election.has_leadership(ONE)
        assert contender.heard == []

    played(script)


def test_on_revoke_leadership_is_triggered_after_leader_election_close() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        election.close()
        await turns()
        assert contender.heard == ["granted 1", "revoked "]

    played(script)


def test_old_confirm_leader_information_while_having_new_leadership() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        bench.grant(2)
        bench.service.claimed(2, {})
        assert not election.confirm(ONE, "old:1")
        await turns()
        assert election.has_leadership(TWO)

    assert played(script).written == []


def test_old_confirmation_while_having_leadership_lost() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        bench.grant(1)
        bench.service.claimed(1, {})
        bench.service.lost("gone")
        assert not election.confirm(ONE, "old:1")
        await turns()
        assert not election.has_leadership(ONE)

    bench = played(script)
    assert bench.written == []
    assert "confirmation-dropped" in bench.events()


async def led(bench: Bench, *names: str) -> list[LeaderElection]:
    """Components that have confirmed, each at its own address, and are written."""
    elections = [bench.start(name, f"{name}:1")[0] for name in names]
    bench.grant(1)
    bench.service.claimed(1, {})
    await turns()
    assert bench.written == [(name, ONE, f"{name}:1") for name in names]
    bench.written.clear()
    return elections


def test_single_leader_information_changed_and_should_be_corrected() -> None:
    """Flink writes its entry again when it finds another. Ours is not watched: who may write the document is trusted, and what a lost
    write leaves out is written by the write that was not confirmed. The next claim under the grant finds it.
    """

    async def script(bench: Bench) -> None:
        await led(bench, "a")
        for found in ({}, {"a": "elsewhere:1"}):
            bench.service.claimed(1, found)
            await turns()

    assert played(script).written == [("a", ONE, "a:1"), ("a", ONE, "a:1")]


def test_all_leader_information_change_event_with_partial_correction() -> None:
    async def script(bench: Bench) -> None:
        await led(bench, "a", "b")
        bench.service.claimed(1, {"b": "b:1"})
        await turns()

    assert played(script).written == [("a", ONE, "a:1")]


def test_all_leader_information_change_event_with_unknown_component_id() -> None:
    async def script(bench: Bench) -> None:
        await led(bench, "a", "b")
        bench.service.claimed(1, {"a": "a:1", "b": "b:1", "another": "another:1"})
        await turns()

    assert played(script).written == []


def test_leader_information_changed_if_not_being_leader() -> None:
    async def script(bench: Bench) -> None:
        bench.start("a", "a:1")
        bench.service.claimed(1, {"a": "elsewhere:1"})
        await turns()

    assert played(script).written == []


def test_all_leader_information_change_is_ignored_after_leader_election_being_closed() -> None:
    """Also ``testOnLeaderInformationChangeIsIgnoredAfterLeaderElectionBeingClosed``: a document says it of all components."""

    async def script(bench: Bench) -> None:
        closing, _ = await led(bench, "a", "b")
        closing.close()
        bench.service.claimed(1, {"another": "another:1"})
        await turns()

    assert played(script).written == [("b", ONE, "b:1")]


def test_grant_does_not_block_notify_all_known_leader_information() -> None:
    """Also ``testGrantDoesNotBlockNotifyLeaderInformationChange``, for the same reason."""

    async def script(bench: Bench) -> None:
        _, stuck = bench.start("stuck", "stuck:1", hangs=True)
        await led(bench, "a")
        assert stuck.heard == ["granted 1"]
        bench.service.claimed(1, {})
        await turns()

    assert played(script).written == [("a", ONE, "a:1")]


def test_error_is_ignored_after_leader_election_being_closed() -> None:
    """Of a contender's. An elector's own error ends the replica, so no contender hears of it (``testErrorForwarding``)."""

    async def script(bench: Bench) -> None:
        election, _ = bench.start("a", fails=True)
        election.close()
        bench.grant(1)
        await turns()

    assert "component-failed" not in played(script).events()
