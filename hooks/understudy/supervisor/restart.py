"""The restart strategy: which delay, and how many attempts. Pure; the counts live in the job's document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from understudy.config.tree import Restart as Strategy

#: No delay is longer, in seconds.
LONGEST = 60.0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again after ``delay`` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


def backoff(failures: int, delay: float) -> float:
    """Seconds before the start that follows so many failures in a row: ``delay`` after the first, then twice as many each time."""
    return min(LONGEST, delay * 2.0 ** min(failures - 1, 30))


def decide(failures: tuple[float, ...], strategy: Strategy) -> Restart | GiveUp:
    """What follows after a failure. ``failures`` are the times of all since a driver has run for the window, the last included.

    They are counted however long ago they were: a driver that takes a minute to fail would else never have enough of them at a time.
    """
    recent = len(failures)
    if strategy.strategy == "none":
        return GiveUp("the restart strategy is none")
    if recent > strategy.attempts:
        allowed = f"{strategy.attempts} restarts are allowed"
        return GiveUp(f"{recent} failures, and no driver ran for {strategy.window:g} s in between; {allowed}")
    match strategy.strategy:
        case "exponential":
            return Restart(backoff(recent, strategy.delay))
        case "fixed-delay":
            return Restart(strategy.delay)
        case _:
            assert_never(strategy.strategy)
