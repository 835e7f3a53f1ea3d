"""The restart strategy: a fixed delay, and so many attempts within a window. Pure; the counts live in the job's document."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again after ``delay`` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


def decide(failures: tuple[float, ...], now: float, *, attempts: int, delay: float, window: float) -> Restart | GiveUp:
    """What follows after a failure. ``failures`` are the times of all recent ones, the last included, in seconds."""
    recent = [at for at in failures if now - at < window]
    if len(recent) > attempts:
        return GiveUp(f"{len(recent)} failures within {window:.0f} s; {attempts} restarts are allowed")
    return Restart(delay)
