"""When a standby runs its next round. What a round is, only a JVM can tell: tests/spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.driver.read_budget import ReadBudget
from understudy.driver.rehearsal_schedule import (
    LOOK,
    QUIET,
    AwaitDeclarations,
    BeginRehearsals,
    Policy,
    ReportOff,
    RunRound,
    ScheduleState,
    SitOut,
    Step,
    Stop,
    next_step,
    pause_after,
)

EVERY = 30.0
PLENTY = 10**9
NOW = 1000.0

POLICY = Policy(rounds=32, every=EVERY)
OFF = replace(POLICY, off=True)

DECLARING = ScheduleState(held=False, declared_at=NOW, cancelled=False)
DECLARED = replace(DECLARING, declared=True)


@pytest.mark.parametrize(
    ("policy", "state", "step"),
    [
        (POLICY, DECLARING, AwaitDeclarations(LOOK)),
        (POLICY, replace(DECLARING, declared_at=NOW - QUIET / 2), AwaitDeclarations(LOOK)),
        (POLICY, replace(DECLARING, declared_at=NOW - QUIET), BeginRehearsals()),
        (POLICY, replace(DECLARING, held=True), BeginRehearsals()),
        (POLICY, replace(DECLARING, cancelled=True), BeginRehearsals()),
        (OFF, DECLARING, AwaitDeclarations(LOOK)),
        (OFF, DECLARED, ReportOff()),
        (OFF, replace(DECLARED, cancelled=True), ReportOff()),
        (POLICY, DECLARED, RunRound(1)),
        (POLICY, replace(DECLARED, rounds=7), RunRound(8)),
        (POLICY, replace(DECLARED, declared_at=NOW, rounds=7), RunRound(8)),
        (POLICY, replace(DECLARED, paused_until=NOW + 4.0), SitOut(4.0)),
        (POLICY, replace(DECLARED, paused_until=NOW), RunRound(1)),
        (POLICY, replace(DECLARED, cancelled=True), Stop()),
        (POLICY, replace(DECLARED, cancelled=True, paused_until=NOW + 4.0), Stop()),
    ],
    ids=[
        "a script that has just declared a query may declare another",
        "so may one that is quiet for a moment",
        "one that is quiet has declared all",
        "so has one that waits for the grant",
        "a grant waits for no declaration",
        "rehearsals that are off are reported no sooner",
        "rehearsals that are off",
        "and reported though a grant came",
        "the first round",
        "the next round",
        "a late declaration delays no round",
        "a takeover is about to come",
        "it did not come",
        "a grant ends the schedule",
        "also while it is paused",
    ],
)
def test_what_comes_next(policy: Policy, state: ScheduleState, step: Step) -> None:
    assert next_step(policy, state, NOW) == step


def pause(rounds: int, seconds: float, *, policy: Policy = POLICY, failed: bool = False, budget: float = 0.0) -> float:
    return pause_after(policy, rounds, seconds, failed=failed, budget_pause=budget, jitter=1.25)


SCHEDULED = 1.25 * EVERY


def test_the_first_rounds_follow_each_other() -> None:
    assert [pause(rounds, 0.7) for rounds in (1, 2, 3)] == [0.0] * 3


def test_the_next_ones_leave_most_of_the_time_to_others() -> None:
    assert [pause(rounds, 0.7) for rounds in (4, 31)] == [pytest.approx(3.5)] * 2


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, 5.0), (2.5, 5.0), (5.0, 5.0), (8.0, 8.0)])
def test_a_pause_is_five_seconds_or_as_long_as_its_round(seconds: float, expected: float) -> None:
    assert pause(4, seconds) == expected


def test_pauses_are_not_longer_than_the_interval_unless_a_round_is() -> None:
    assert pause(4, 0.7, policy=replace(POLICY, every=2.0)) == 2.0
    assert pause(4, 10 * EVERY) == 10 * EVERY


@pytest.mark.parametrize(("rounds", "done"), [(32, 32), (32, 100), (2, 2), (1, 1)])
def test_then_the_schedule_begins(rounds: int, done: int) -> None:
    assert pause(done, 0.7, policy=replace(POLICY, rounds=rounds)) == SCHEDULED


@pytest.mark.parametrize(("seconds", "expected"), [(3.0, EVERY), (5.0, EVERY), (6.0, 54.0), (15.0, 135.0)])
def test_on_the_schedule_a_long_round_takes_a_tenth_of_the_time(seconds: float, expected: float) -> None:
    assert pause(32, seconds) == 1.25 * expected


def test_a_round_that_failed_is_not_tried_again_at_once() -> None:
    assert pause(1, 0.7, failed=True) == SCHEDULED


def test_what_may_be_read_per_hour_counts_from_the_fourth_on() -> None:
    budget = ReadBudget(10, PLENTY, lambda: 0.0)
    budget.spend(1000, 0)
    assert pause(3, 0.7, budget=budget.pause()) == 0.0
    assert [pause(rounds, 0.7, budget=budget.pause()) for rounds in (4, 32)] == [360_000.0] * 2
