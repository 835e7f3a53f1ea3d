"""What probes and metrics say of a replica."""

from __future__ import annotations

import resource
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.clocks import Hands
from tests.doubles.pages import counters
from understudy.protocol.messages import RehearsalReport
from understudy.supervisor.health import FIRST_REHEARSAL_WITHIN, FenceCounts, Health


def standing(*, rehearsed: bool, reason: str = "") -> RehearsalReport:
    return RehearsalReport(
        "job.py:9", rehearsed=rehearsed, how="live" if rehearsed else "", rounds=1, seconds=1.0, reason=reason
    )


@pytest.mark.parametrize(("silent", "live"), [(0.0, True), (4.0, True), (4.1, False)])
def test_it_lives_while_the_elector_has_its_turn(health: Health, clock: Hands, silent: float, live: bool) -> None:
    clock.at += silent
    assert health.live is live


def test_a_standby_is_ready_once_it_rehearsed(health: Health) -> None:
    health.stands(standing(rehearsed=True), 1.0)
    assert health.ready == (True, "rehearsed (live)")


def test_before_it_rehearsed_it_is_not(health: Health) -> None:
    assert health.ready == (False, "the first rehearsal is not done yet")


def test_a_standby_that_cannot_rehearse_does_not_hold_up_a_rollout(health: Health) -> None:
    health.stands(standing(rehearsed=False, reason="held at job.py:3, not rehearsed"), 0.0)
    assert health.ready == (True, "will not be rehearsed: see status")


def test_a_standby_that_knows_fewer_queries_than_the_leader_runs_says_how_many(health: Health) -> None:
    health.stands(replace(standing(rehearsed=True), queries=1), 1.0)
    assert health.ready == (True, "rehearsed (live)"), "nothing is known of the leader's"
    health.running = 4
    assert health.ready == (True, "rehearsed 1 of 4 queries, held at job.py:9"), "it declares no more before the grant"
    health.stands(replace(standing(rehearsed=True), queries=1, held=""), 1.0)
    assert health.ready == (False, "rehearsed 1 of 4 queries"), "it may still be about to"
    health.stands(replace(standing(rehearsed=True), queries=4), 1.0)
    assert health.ready == (True, "rehearsed (live)")
    health.granted(2, 0.1)
    assert health.lacks == ""


@pytest.mark.parametrize(("waited", "ready"), [(FIRST_REHEARSAL_WITHIN, False), (FIRST_REHEARSAL_WITHIN + 1, True)])
def test_a_first_rehearsal_that_takes_too_long_does_not_either(
    health: Health, clock: Hands, waited: float, ready: bool
) -> None:
    health.driver_starts()
    health.driver_is_up()
    clock.at += waited
    assert health.ready[0] is ready


@pytest.mark.parametrize("waited", [1.0, FIRST_REHEARSAL_WITHIN + 1, 100 * FIRST_REHEARSAL_WITHIN])
def test_a_standby_whose_driver_never_comes_up_is_never_ready(health: Health, clock: Hands, waited: float) -> None:
    """An import that fails, or hangs: a rollout that waits for it stops there, and the old generation leads on."""
    clock.at += waited
    assert not health.ready[0]
    health.driver_starts()
    clock.at += waited
    assert not health.ready[0]


@pytest.mark.parametrize("came", ["nowhere", "up", "to a rehearsal", "to what cannot be rehearsed"])
def test_a_standby_whose_driver_has_ended_is_not_ready_whatever_the_clock_says(
    health: Health, clock: Hands, came: str
) -> None:
    for _ in range(3):
        health.driver_starts()
        if came != "nowhere":
            health.driver_is_up()
        if came == "to a rehearsal":
            health.stands(standing(rehearsed=True), 1.0)
        if came == "to what cannot be rehearsed":
            health.stands(standing(rehearsed=False, reason="held at job.py:3, not rehearsed"), 0.0)
        health.driver_gone(by_itself=True)
        clock.at += FIRST_REHEARSAL_WITHIN + 1
        assert health.ready == (False, "its driver has ended: see status")
    health.driver_starts()
    health.driver_is_up()
    clock.at += FIRST_REHEARSAL_WITHIN + 1
    assert health.ready == (False, "its driver has ended: see status"), "one that has run for so long may end again"
    health.stands(standing(rehearsed=True), 1.0)
    assert health.ready[0]


def test_a_driver_that_was_replaced_counts_from_its_own_start(health: Health, clock: Hands) -> None:
    health.stands(standing(rehearsed=True), 1.0)
    clock.at += 10 * FIRST_REHEARSAL_WITHIN
    health.driver_gone()
    assert not health.ready[0]
    health.driver_starts()
    health.driver_is_up()
    assert health.ready == (False, "the first rehearsal is not done yet")
    clock.at += FIRST_REHEARSAL_WITHIN + 1
    assert health.ready[0]


def test_a_leader_is_ready_and_one_that_lost_is_not_until_it_rehearsed_again(health: Health) -> None:
    health.granted(7, 0.01)
    assert health.ready == (True, "leads with epoch 7")
    health.lost()
    assert not health.ready[0]
    assert (health.takeovers, health.losses) == (1, 1)


def test_a_driver_that_starts_again_in_place_is_no_takeover(health: Health, clock: Hands) -> None:
    health.granted(7, 0.01)
    health.reached("start", 0.5)
    health.reached("first_commit", 1.0)
    health.granted(7, 0.02)
    health.reached("start", 20.0)
    health.reached("first_commit", 40.0)
    assert (health.takeovers, health.phases) == (1, {"claim": 0.01, "start": 0.5, "first_commit": 1.0})
    health.lost()
    health.granted(9, 0.03)
    clock.at += 50.0
    health.granted(9, 0.04)
    health.reached("start", 5.0)
    assert (health.takeovers, health.phases) == (2, {"claim": 0.03, "start": 50.0}), "since the grant, not its restart"


def test_the_first_lead_of_a_run_and_one_after_a_resume_take_nothing_over(health: Health) -> None:
    health.granted(1, 0.01, begins=True)
    health.reached("first_commit", 40.0)
    assert (health.takeovers, health.phases, health.leads) == (0, {}, True)
    health.lost()
    health.suspends()
    health.resumes()
    health.granted(2, 0.01)
    health.reached("first_commit", 40.0)
    assert (health.takeovers, health.phases) == (0, {})
    health.lost()
    health.granted(3, 0.01)
    assert (health.takeovers, health.phases) == (1, {"claim": 0.01})


def test_the_age_of_a_commit_is_the_jobs_and_of_no_earlier_lead(health: Health) -> None:
    def age() -> float | None:
        return health.commit_age

    now = time.time()
    assert age() is None
    health.granted(1, 0.01, begins=True, committed_at=now - 86_400.0)
    assert age() == pytest.approx(0.0, abs=5.0), "yesterday's run committed that"
    health.lost()
    assert age() is None
    health.fence.committed_at = now - 7200.0
    health.granted(3, 0.01, committed_at=now - 300.0)
    assert age() == pytest.approx(300.0, abs=5.0), "its predecessor's"
    health.granted(3, 0.01, committed_at=now)
    assert age() == pytest.approx(300.0, abs=5.0), "a driver that starts again has committed nothing"
    health.fence.committed_at = now
    assert age() == pytest.approx(0.0, abs=5.0)


def test_no_rehearsal_is_late_that_is_not_due(health: Health) -> None:
    def age() -> float | None:
        return health.rehearsal_age

    assert age() is None
    health.stands(standing(rehearsed=True), time.time() - 700.0)
    assert age() == pytest.approx(700.0, abs=5.0)
    health.granted(1, 0.01)
    assert age() is None
    health.lost()
    assert age() == pytest.approx(0.0, abs=5.0), "it has stood by since now"
    health.suspends()
    assert age() is None
    health.resumes()
    assert age() is not None
    health.finished("job flights is FINISHED: the script ended")
    assert age() is None


def test_a_driver_that_is_gone_rehearses_in_no_way(health: Health) -> None:
    health.stands(standing(rehearsed=True), 1.0)
    health.driver_gone()
    assert health.how == ""


def test_a_replica_whose_job_has_finished_stays_live_and_ready_and_leads_no_more(health: Health, clock: Hands) -> None:
    health.granted(3, 0.1)
    health.finished("job flights is FINISHED: the script ended")
    clock.at += 1000.0
    assert health.live
    assert health.ready == (True, "job flights is FINISHED: the script ended")
    assert not health.leads


def test_refused_writes_and_commits_are_counted_over_all_drivers_of_a_replica(tmp_path: Path) -> None:
    counts = FenceCounts()
    counts.look()
    assert (counts.refused, counts.committed_at) == (0, 0.0)
    counts.follow(counters(tmp_path / "one", refused=3, committed_ms=2500))
    counts.look()
    counts.look()
    assert (counts.refused, counts.committed_at) == (3, 2.5)
    (tmp_path / "one").unlink()  # its driver is dead, and its place has been cleared
    counts.follow(counters(tmp_path / "two", refused=1))
    counts.look()
    assert (counts.refused, counts.committed_at) == (4, 2.5)


def test_a_page_that_was_torn_for_good_says_what_it_said_before(tmp_path: Path) -> None:
    """Its writer was killed in the middle: the counts of a dead driver stay, and its page is not waited for."""
    torn = counters(tmp_path / "page", refused=2, committed_ms=1000)
    before = torn.read()
    with (tmp_path / "page").open("r+b") as out:
        out.seek(8)
        out.write(struct.pack("<Q", 7))
        out.seek(64)
        out.write(struct.pack("<Q", 9999))
    assert torn.read() == before


def test_counting_takes_no_descriptor(tmp_path: Path) -> None:
    """A replica out of descriptors was dead for its probes, though it led well."""
    counts = FenceCounts()
    counts.follow(counters(tmp_path / "page", refused=1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        counts.look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert counts.refused == 1


def test_who_asks_whether_the_elector_lives_asks_the_elector(clock: Hands) -> None:
    """A task in between had died of the rotation of a log, and the kubelet killed a healthy leader."""
    turns = [clock.now()]
    health = Health(clock, FenceCounts(), live_within=4.0, last_turn=lambda: turns[0])
    clock.at += 100.0
    assert not health.live
    turns[0] = clock.now()
    assert health.live
