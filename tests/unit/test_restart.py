from __future__ import annotations

from understudy.supervisor.restart import GiveUp, Restart, backoff, decide


def after(*failures: float, now: float = 1000.0) -> Restart | GiveUp:
    return decide(failures, now, attempts=2, delay=1.5, window=100.0)


def test_each_failure_within_the_allowance_doubles_the_delay() -> None:
    assert after(1000.0) == Restart(1.5)
    assert after(990.0, 1000.0) == Restart(3.0)


def test_no_delay_is_longer_than_a_minute() -> None:
    assert [backoff(failures, 1.0) for failures in (1, 2, 6, 7, 8, 10_000)] == [1.0, 2.0, 32.0, 60.0, 60.0, 60.0]


def test_the_defaults_outlast_an_outage_of_five_minutes() -> None:
    """A driver that fails at once, again and again: when is the last one of the default ten attempts started?"""
    at = 0.0
    failures: tuple[float, ...] = (0.0,)
    while isinstance(decision := decide(failures, at, attempts=10, delay=1.0, window=600.0), Restart):
        at += decision.delay
        failures = (*failures, at)
    assert at > 300


def test_one_failure_more_than_allowed_gives_up_and_says_how_many() -> None:
    assert after(980.0, 990.0, 1000.0) == GiveUp("3 failures within 100 s; 2 restarts are allowed")


def test_failures_before_the_window_are_forgotten() -> None:
    assert after(899.0, 990.0, 1000.0) == Restart(3.0)
