"""A clock for tests of what happens when time goes by, and of what does not."""

from __future__ import annotations

import time
from dataclasses import dataclass

from understudy.clock import Instant


@dataclass
class Hands:
    """A clock that a test sets by hand, in seconds. Sleeping by it is an error."""

    at: float = 5000.0

    def now(self) -> float:
        return self.at

    def instant(self) -> Instant:
        return Instant(int(self.at * 1e9), int(self.at * 1e9))

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)
