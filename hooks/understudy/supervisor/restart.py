"""The restart strategy: a delay that doubles, and so many attempts within a window. Pure; the counts live in the job's document."""

from __future__ import annotations

from dataclasses import dataclass

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


def decide(failures: tuple[float, ...], now: float, *, attempts: int, delay: float, window: float) -> Restart | GiveUp:
    """What follows after a failure. ``failures`` are the times of all recent ones, the last included, in seconds."""
    recent = [at for at in failures if now - at < window]
    if len(recent) > attempts:
        return GiveUp(f"{len(recent)} failures within {window:.0f} s; {attempts} restarts are allowed")
    return Restart(backoff(len(recent), delay))
