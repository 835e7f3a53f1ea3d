"""Another Deployment with our cluster id is noticed by its leader's renewals, and by nothing less."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.unit.election_builders import virtually
from understudy.election.state import ElectionView, Role
from understudy.supervisor.workload import find_conflicting_workload

FREE = ElectionView(Role.STANDBY, None, 0, 0, False, None, "", "", 0.0, "r0", "", None, None)
THEIRS = replace(FREE, leader="them", workload="other/uid", revision="r1")


def watched(*views: ElectionView) -> str | None:
    """What is found when one of ``views`` after the other is seen, and the last one from then on."""

    async def run() -> str | None:
        left = list(views)

        def look() -> ElectionView:
            return left.pop(0) if len(left) > 1 else left[0]

        try:
            return await asyncio.wait_for(find_conflicting_workload(look, "ours/uid", 1.0), 60)
        except TimeoutError:
            return None

    return virtually(run())


def test_a_leader_of_another_workload_that_renews_is_an_find_conflicting_workload() -> None:
    assert watched(THEIRS, replace(THEIRS, revision="r2")) == "other/uid"


def test_one_that_does_not_renew_may_be_dead_and_its_job_is_adopted() -> None:
    assert watched(THEIRS) is None
    assert watched(THEIRS, FREE) is None


def test_our_own_leader_and_one_whose_workload_is_not_known_are_none() -> None:
    for workload in ("ours/uid", ""):
        known = replace(THEIRS, workload=workload)
        assert watched(known, replace(known, revision="r2")) is None
