"""The cases of Flink's tests of a component's own part in the election, asked of ours (2.x, as of 2026): ``DefaultLeaderElectionTest``, and
``EmbeddedLeaderServiceTest`` where it asks what follows when the process ends with news under way.

``testContenderRegistrationNull`` is asked by mypy. ``testContenderRegistration``, ``testLeaderConfirmation``, ``testClose`` and the two of
``testHasLeadershipAsync`` are asked, of the whole service, in ``test_flink_cases``. What is in a store then is asked of real ones in
``tests/contract/test_component_election.py``.
"""

from __future__ import annotations

import pytest

from tests.unit.test_components import ONE, Attached, Bench, played, turns
from understudy.election.elector import Candidate, Elector


def no_lock(_: Candidate) -> Elector:
    raise OSError("there is no lock")


@pytest.mark.parametrize("attached", [False, True])
def test_contender_registration_failure(attached: bool) -> None:
    """The error is the caller's. Nothing has begun: the end has nothing to release, and the next component is the first one."""

    async def script(bench: Bench) -> None:
        working, bench.service._make = bench.service._make, no_lock
        with pytest.raises(OSError, match="there is no lock"):
            bench.service.election("a").attach(Attached()) if attached else bench.start("a")
        await bench.service.close()
        bench.service._make = working
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        assert election.has_leadership(ONE)
        assert contender.heard == ["granted 1"]

    (made,) = played(script).made
    assert made.asked == ["stop", "release None"]


def test_close_without_start() -> None:
    """It was never part of the election: the others lead on, and it may start yet."""

    async def script(bench: Bench) -> None:
        idle = bench.service.election("idle")
        idle.close()
        assert bench.made == []
        other, contender = bench.start("other")
        bench.grant(1)
        await turns()
        idle.close()
        await turns()
        assert (idle.has_leadership(ONE), other.has_leadership(ONE)) == (False, True)
        assert contender.heard == ["granted 1"]
        assert bench.made[0].asked == []
        _, late = bench.start("idle")
        await turns()
        assert late.heard == ["granted 1"]

    played(script)


def test_concurrent_grant_leadership_and_shutdown() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a", "a:1")
        bench.grant(1)
        await bench.service.close()
        assert contender.heard == ["revoked "]
        assert not election.has_leadership(ONE)
        bench.service.claimed(1, {})
        await turns()
        assert bench.made[0].asked == ["stop", "release None"]

    bench = played(script)
    assert bench.written == []
    assert "component-failed" not in bench.events()


def test_concurrent_revoke_leadership_and_shutdown() -> None:
    async def script(bench: Bench) -> None:
        _, contender = bench.start("a")
        bench.grant(1)
        await turns()
        bench.service.lost("gone")
        await bench.service.close()
        assert contender.heard == ["granted 1", "revoked gone"]
        assert bench.made[0].asked == ["stop", "release None"]

    assert "component-failed" not in played(script).events()
