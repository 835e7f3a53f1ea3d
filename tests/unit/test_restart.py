from __future__ import annotations

from understudy.supervisor.restart import GiveUp, Restart, decide


def after(*failures: float, now: float = 1000.0) -> Restart | GiveUp:
    return decide(failures, now, attempts=2, delay=1.5, window=100.0)


def test_a_failure_within_the_allowance_restarts_after_the_fixed_delay() -> None:
    assert after(1000.0) == Restart(1.5)
    assert after(990.0, 1000.0) == Restart(1.5)


def test_one_failure_more_than_allowed_gives_up_and_says_how_many() -> None:
    assert after(980.0, 990.0, 1000.0) == GiveUp("3 failures within 100 s; 2 restarts are allowed")


def test_failures_before_the_window_are_forgotten() -> None:
    assert after(899.0, 990.0, 1000.0) == Restart(1.5)
