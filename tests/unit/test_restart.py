from __future__ import annotations

import pytest

from understudy.config.tree import Restart as Strategy
from understudy.config.tree import RestartStrategy
from understudy.errors import SettingsError
from understudy.supervisor.restart import GiveUp, Restart, backoff, decide


def after(*failures: float, now: float = 1000.0, strategy: RestartStrategy = "exponential") -> Restart | GiveUp:
    return decide(failures, now, Strategy(strategy, attempts=2, delay=1.5, window=100.0))


def test_each_failure_within_the_allowance_doubles_the_delay() -> None:
    assert after(1000.0) == Restart(1.5)
    assert after(990.0, 1000.0) == Restart(3.0)


def test_no_delay_is_longer_than_a_minute() -> None:
    assert [backoff(failures, 1.0) for failures in (1, 2, 6, 7, 8, 10_000)] == [1.0, 2.0, 32.0, 60.0, 60.0, 60.0]


def test_the_defaults_outlast_an_outage_of_five_minutes() -> None:
    """A driver that fails at once, again and again: when is the last one of the default ten attempts started?"""
    at = 0.0
    failures: tuple[float, ...] = (0.0,)
    while isinstance(decision := decide(failures, at, Strategy()), Restart):
        at += decision.delay
        failures = (*failures, at)
    assert at > 300


def test_one_failure_more_than_allowed_gives_up_and_says_how_many() -> None:
    assert after(980.0, 990.0, 1000.0) == GiveUp("3 failures within 100 s; 2 restarts are allowed")


def test_failures_before_the_window_are_forgotten() -> None:
    assert after(899.0, 990.0, 1000.0) == Restart(3.0)


def test_a_fixed_delay_does_not_grow() -> None:
    assert after(1000.0, strategy="fixed-delay") == Restart(1.5)
    assert after(990.0, 1000.0, strategy="fixed-delay") == Restart(1.5)


def test_a_fixed_delay_may_be_longer_than_a_minute() -> None:
    strategy = Strategy("fixed-delay", attempts=3, delay=120.0, window=600.0)
    assert decide((1000.0,), 1000.0, strategy) == Restart(120.0)


def test_with_a_fixed_delay_one_failure_more_than_allowed_gives_up() -> None:
    assert after(980.0, 990.0, 1000.0, strategy="fixed-delay") == GiveUp(
        "3 failures within 100 s; 2 restarts are allowed"
    )


def test_without_restarts_the_first_failure_is_the_last() -> None:
    assert decide((1000.0,), 1000.0, Strategy("none")) == GiveUp("the restart strategy is none")


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


def test_a_fixed_delay_must_let_every_failure_count_within_the_window() -> None:
    """Driver after driver that fails at once: with the shortest window that is allowed the last one is given up."""
    with pytest.raises(SettingsError, match="^--restart-window: 6 restarts, each 100 s after a failure"):
        Strategy("fixed-delay", attempts=6, delay=100.0, window=600.0)
    strategy = Strategy("fixed-delay", attempts=6, delay=100.0, window=600.1)
    at = 0.0
    failures: tuple[float, ...] = (0.0,)
    while isinstance(decision := decide(failures, at, strategy), Restart):
        at += decision.delay
        failures = (*failures, at)
        assert len(failures) < 100, "it is restarted for ever"
    assert len(failures) == 7
