"""What a replica counts and tells of its leads, from the grants and renewals of its elector."""

from __future__ import annotations

from pathlib import Path

from tests.unit.test_supervisor import Bench, on
from understudy.clock import BootClock
from understudy.supervisor.inputs import LeadershipGranted, LeadershipRevoked


def test_the_first_grant_of_a_job_is_no_takeover_and_the_next_one_is(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        health = bench.replica.health
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        assert (health.leads, health.takeovers) == (True, 0)
        bench.replica.lost("another holds it")
        await bench.answer(LeadershipRevoked)
        bench.grant(5)
        await bench.answer(LeadershipGranted)
        assert (health.leads, health.takeovers) == (True, 1)

    on(tmp_path, script)


def test_a_lease_lasts_from_the_last_renewal_and_not_beyond_its_loss(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        lasts = bench.replica.health.lease_lasts
        assert not lasts()
        bench.grant(3)
        assert lasts()
        bench.replica.renewed(BootClock().now() - 3600.0)
        assert not lasts(), "it is cut off: its gate is closed"
        bench.replica.renewed(BootClock().now())
        assert lasts()
        bench.replica.lost("another holds it")
        assert not lasts(), "at once, however far behind the inbox is"

    on(tmp_path, script)
