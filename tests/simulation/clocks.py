"""The clocks of simulated processes."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from tests.simulation.loop import SimulatedLoop, current
from understudy.clock import Instant

#: Second 0 of the world, for people.
_EPOCH = 1.7e9


@dataclass(frozen=True, slots=True)
class ProcessClock:
    """The clocks of the process that runs: CLOCK_BOOTTIME and CLOCK_MONOTONIC are its own clock, wall-clock time may be wrong besides.

    Clocks of one machine that disagree are not simulated: the gate compares both, and its own tests do.
    """

    loop: SimulatedLoop

    def now(self) -> float:
        return self.loop.time()

    def instant(self) -> Instant:
        now = int(self.loop.time() * 1e9)
        return Instant(now, now)

    def wall(self) -> float:
        process = current()
        return _EPOCH + self.loop.now + (0.0 if process is None else process.wall_error)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


@contextmanager
def simulated(loop: SimulatedLoop, chance: random.Random) -> Iterator[None]:
    """Within it ``time``, ``uuid`` and ``random`` depend on the seed and the running process alone.

    For other projects' electors, which have no seam for it (``peers.py``). Ours are given a ``ProcessClock``.
    """

    def wall() -> float:
        process = current()
        return _EPOCH + loop.now + (0.0 if process is None else process.wall_error)

    def steady(_: int = 0) -> float:
        return loop.time()

    def steady_ns(_: int = 0) -> int:
        return int(loop.time() * 1e9)

    def unique() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128), version=4)

    state = random.getstate()
    random.seed(chance.getrandbits(64))  # the jitter of electors
    with (
        mock.patch.multiple(
            time, time=wall, monotonic=steady, clock_gettime=steady, clock_gettime_ns=steady_ns, monotonic_ns=steady_ns
        ),
        mock.patch.object(uuid, "uuid4", unique),
    ):
        try:
            yield
        finally:
            random.setstate(state)
