"""When a standby plays its next round. What a round is, only a JVM can tell: tests/spark."""

from __future__ import annotations

import pytest

from understudy.driver.read_budget import ReadBudget
from understudy.driver.rehearsals import Rehearsals

EVERY = 30.0
SCHEDULED = pytest.approx(EVERY, rel=0.2)
PLENTY = 10**9


def rehearsals(rounds: int = 32, rows: int = PLENTY) -> Rehearsals:
    budget = ReadBudget(rows, PLENTY, lambda: 0.0)
    budget.spend(1000, 0)
    return Rehearsals("live", rounds, EVERY, "scratch", budget, lambda said: None)


def test_the_first_rounds_follow_each_other() -> None:
    assert [rehearsals().pause(done, 0.7, failed=False) for done in (1, 2, 3)] == [0.0] * 3


def test_the_next_ones_leave_most_of_the_time_to_others() -> None:
    assert [rehearsals().pause(done, 0.7, failed=False) for done in (4, 31)] == [pytest.approx(3.5)] * 2


@pytest.mark.parametrize(("seconds", "pause"), [(1.0, 5.0), (2.5, 5.0), (5.0, 5.0), (8.0, 8.0)])
def test_a_pause_is_five_seconds_or_as_long_as_its_round(seconds: float, pause: float) -> None:
    assert rehearsals().pause(4, seconds, failed=False) == pause


def test_slow_rounds_are_not_slower_than_the_schedule() -> None:
    assert rehearsals().pause(4, 10 * EVERY, failed=False) == EVERY


@pytest.mark.parametrize(("rounds", "done"), [(32, 32), (32, 100), (2, 2), (1, 1)])
def test_then_the_schedule_begins(rounds: int, done: int) -> None:
    assert rehearsals(rounds).pause(done, 0.7, failed=False) == SCHEDULED


def test_a_round_that_failed_is_not_tried_again_at_once() -> None:
    assert rehearsals().pause(1, 0.7, failed=True) == SCHEDULED


def test_what_may_be_read_per_hour_counts_from_the_fourth_on() -> None:
    thirsty = rehearsals(rows=10)
    assert thirsty.pause(3, 0.7, failed=False) == 0.0
    assert [thirsty.pause(done, 0.7, failed=False) for done in (4, 32)] == [360_000.0] * 2
