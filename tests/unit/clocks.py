"""A clock for tests of what happens when time goes by, and of what does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Hands:
    """A clock that a test sets by hand, in seconds. Sleeping by it is an error."""

    at: float = 5000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)
