"""Clocks, injected everywhere so that tests run in virtual time.

Election deadlines are kept on ``CLOCK_BOOTTIME``, which goes on while the machine is suspended: a laptop lid closed for a
minute, or a paused virtual machine, must cost a leader its lease. The gate compares both ``CLOCK_BOOTTIME`` and
``CLOCK_MONOTONIC`` because a JVM reads the second one cheaply and exactly, and the first one only to a hundredth of a second.

Nothing here reads wall-clock time for a decision; foreign clocks are never read at all.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Seconds since an arbitrary start, never going back."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on both clocks, in nanoseconds."""

    boottime_ns: int
    monotonic_ns: int

    def plus(self, seconds: float) -> Instant:
        delta = int(seconds * 1e9)
        return Instant(self.boottime_ns + delta, self.monotonic_ns + delta)


#: Later than any deadline: what a gate carries when there is nothing to wait for.
NEVER = Instant((1 << 63) - 1, (1 << 63) - 1)


def instant() -> Instant:
    return Instant(time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC))


class HostClock(Clock, Protocol):
    """All clocks of one machine. ``wall`` is in seconds since 1970, for people and for the records that they read."""

    def instant(self) -> Instant: ...

    def wall(self) -> float: ...


class BootClock:
    """The clock of production: ``CLOCK_BOOTTIME``."""

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def instant(self) -> Instant:
        return instant()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        # asyncio sleeps on CLOCK_MONOTONIC; after a suspend it wakes late, and every decision then reads now() again.
        await asyncio.sleep(max(0.0, seconds))
