from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.config.tree import Restart as Strategy
from understudy.config.tree import RestartStrategy
from understudy.errors import SettingsError
from understudy.ha.job import Job, Status
from understudy.protocol.token import NONE, Token
from understudy.supervisor.restart import GiveUp, Restart, backoff, decide

NEW_JOB = Job("flights", "flights.py", Status.RUNNING, NONE, NONE, "")
_ENOUGH = "3 failures, and no driver ran for 100 s in between; 2 restarts are allowed"


def after(*failures: float, strategy: RestartStrategy = "exponential") -> Restart | GiveUp:
    return decide(failures, Strategy(strategy, attempts=2, delay=1.5, window=100.0))


def test_each_failure_within_the_allowance_doubles_the_delay() -> None:
    assert after(1000.0) == Restart(1.5)
    assert after(990.0, 1000.0) == Restart(3.0)


def test_no_delay_is_longer_than_a_minute() -> None:
    assert [backoff(failures, 1.0) for failures in (1, 2, 6, 7, 8, 10_000)] == [1.0, 2.0, 32.0, 60.0, 60.0, 60.0]


def test_the_defaults_outlast_an_outage_of_five_minutes() -> None:
    """A driver that fails at once, again and again: when is the last one of the default ten attempts started?"""
    at = 0.0
    failures: tuple[float, ...] = (0.0,)
    while isinstance(decision := decide(failures, Strategy()), Restart):
        at += decision.delay
        failures = (*failures, at)
    assert at > 300


def test_one_failure_more_than_allowed_gives_up_and_says_how_many() -> None:
    assert after(980.0, 990.0, 1000.0) == GiveUp(_ENOUGH)


@pytest.mark.parametrize("takes", [0.0, 30.0, 60.0, 700.0])
@pytest.mark.parametrize(
    "strategy",
    [
        Strategy(),
        Strategy(attempts=13),
        Strategy(attempts=15),
        Strategy(attempts=40, window=30.0),
        Strategy("fixed-delay", delay=120.0),
    ],
)
def test_a_driver_that_never_works_is_given_up_however_long_it_takes_to_fail(takes: float, strategy: Strategy) -> None:
    """With ten restarts in 600 s, failures of a driver that took 30 s were forgotten as fast as new ones came."""
    job, at = NEW_JOB, takes
    for count in range(1, strategy.attempts + 1):
        job = job.with_failure(Token(1, count), at, strategy.window, "the table is gone")
        decision = decide(job.failures, strategy)
        assert isinstance(decision, Restart)
        at += decision.delay + takes
    job = job.with_failure(Token(1, strategy.attempts + 1), at, strategy.window, "the table is gone")
    assert isinstance(decide(job.failures, strategy), GiveUp)


def test_a_driver_that_ran_well_begins_the_count_again() -> None:
    job = replace(NEW_JOB, failures=(10.0, 20.0), failed=Token(1, 2))
    job = job.without_failures(Token(1, 3)).with_failure(Token(1, 3), 700.0, 100.0, "died")
    assert job.failures == (700.0,)
    assert job.without_failures(Token(1, 3)) == job, "it has failed meanwhile"
    assert decide(job.failures, Strategy(attempts=2, delay=1.5, window=100.0)) == Restart(1.5)


def test_a_document_of_an_older_release_counts_no_failure_from_before_its_job_went_well() -> None:
    old = replace(NEW_JOB, failures=(10.0, 20.0), failed=Token(1, 2), serving=Token(1, 3))
    for committed_at, failures in ((119.0, (10.0, 20.0, 900.0)), (120.0, (900.0,))):
        job = replace(old, committed_at=committed_at)
        assert job.with_failure(Token(2, 1), 900.0, 100.0, "died").failures == failures
    job = replace(old, committed_at=800.0)
    assert len(job.with_failure(Token(1, 3), 900.0, 100.0, "died").failures) == 3, "it committed just before it died"


def test_more_restarts_than_the_document_counts_are_refused() -> None:
    with pytest.raises(SettingsError, match="^--restart-attempts: 1001 is above 1000"):
        Strategy(attempts=1001)
    job, strategy = NEW_JOB, Strategy(attempts=1000)
    for count in range(1, 1500):
        job = job.with_failure(Token(1, count), float(count), 600.0, "died")
        given_up = isinstance(decide(job.failures, strategy), GiveUp)
        assert given_up == (count > 1000)
    assert len(job.failures) == 1001


def test_a_fixed_delay_does_not_grow() -> None:
    assert after(1000.0, strategy="fixed-delay") == Restart(1.5)
    assert after(990.0, 1000.0, strategy="fixed-delay") == Restart(1.5)


def test_a_fixed_delay_may_be_longer_than_a_minute() -> None:
    strategy = Strategy("fixed-delay", attempts=3, delay=120.0, window=600.0)
    assert decide((1000.0,), strategy) == Restart(120.0)


def test_with_a_fixed_delay_one_failure_more_than_allowed_gives_up() -> None:
    assert after(980.0, 990.0, 1000.0, strategy="fixed-delay") == GiveUp(_ENOUGH)


def test_without_restarts_the_first_failure_is_the_last() -> None:
    assert decide((1000.0,), Strategy("none")) == GiveUp("the restart strategy is none")


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"attempts": 3}, "--restart-attempts"),
        ({"delay": 2.0}, "--restart-delay"),
        ({"window": 60.0}, "--restart-window"),
    ],
)
def test_numbers_of_restarts_are_refused_where_there_are_none(given: dict[str, float], option: str) -> None:
    with pytest.raises(SettingsError, match=f"^{option}: says nothing under the restart strategy none"):
        Strategy("none", **given)  # type: ignore[arg-type]
