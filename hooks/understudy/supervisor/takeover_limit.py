"""Ends a takeover that does not start its queries in time, no matter why: its driver is killed, and another begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.clock import Instant
from understudy.protocol.gate import State

if TYPE_CHECKING:
    from understudy.supervisor.driver_process import DriverProcess


class TakeoverLimit:
    """One replica's; ``seconds`` for each takeover, from the moment the driver was told to lead.

    Only what stood by is limited: its queries wait to be started, and nothing of the script comes before them. A script that begins
    under a leader may work for as long as it likes before it starts a query.
    """

    def __init__(self, seconds: float, instant: Callable[[], Instant]) -> None:
        self._seconds = seconds
        self._instant = instant
        self._due: asyncio.TimerHandle | None = None

    def begins(self, driver: DriverProcess) -> None:
        """The driver was told to lead, and has queries to start. A limit that runs already stays."""
        if self._due is None:
            self._wait(driver)

    def ends(self) -> None:
        """The queries have started, or there is no such driver any more."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _wait(self, driver: DriverProcess) -> None:
        self._due = asyncio.get_running_loop().call_later(self._seconds, self._over, driver)

    def _over(self, driver: DriverProcess) -> None:
        if driver.gate.view.standing(self._instant()) is State.OPEN:
            self._due = None
            driver.kill_now(f"its queries have not started within {self._seconds:g} s of the grant")
        else:
            self._wait(
                driver
            )  # an outage: the fence holds every write until the gate opens again, and that is no fault of its
