"""What a renewal and a loss do at once: new deadlines in the gate, or its revocation and SIGKILL. Synchronous, never queued.

The elector calls it from its own loop and not through the supervisor's inbox, which may be busy. A renewal therefore
reaches the gate before the next deadline, and nothing passes a gate whose grant is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from understudy.clock import Instant, instant
from understudy.config.timings import Timings
from understudy.election.commands import Grant
from understudy.fencing.gate import GateWriter
from understudy.protocol.gate import State, View
from understudy.protocol.messages import Granted, Message
from understudy.protocol.token import NONE, Token

#: States of a gate whose driver may write, or has written, until its deadlines.
_DEADLINES = frozenset({State.OPEN, State.CLOSED})


class Gated(Protocol):
    """The driver behind the gate."""

    gate: GateWriter

    def show(self, view: View) -> None: ...

    def send(self, message: Message) -> None: ...

    def kill_now(self, reason: str) -> None: ...


def open_view(token: Token, sent_at: float, timings: Timings, now: Instant) -> View:
    """Deadlines count from ``sent_at``, when the last confirmed renewal was *sent* (s on CLOCK_BOOTTIME), on both clocks."""
    passed = now.boottime_ns - int(sent_at * 1e9)
    sent = Instant(now.boottime_ns - passed, now.monotonic_ns - passed)
    # guard: gate-closes-within-the-lease
    close = sent.plus(timings.renew)
    # guard: user-code-is-killed
    return View(State.OPEN, token, close, sent.plus(timings.kill_after), close.plus(timings.grace))


class DeadlineGuard:
    """One replica's. ``driver`` is the one that runs, while one does.

    A grant is current while ``grant`` is that very object: only the elector's calls set and unset it, however far
    behind the inbox is. ``token`` is that of the last start of a leading driver.
    """

    def __init__(self, timings: Timings, instant: Callable[[], Instant] = instant) -> None:
        self._timings = timings
        self._instant = instant
        self._sent_at = 0.0
        self._granted = Granted(int(NONE))
        self.driver: Gated | None = None
        self.grant: Grant | None = None
        self.token: Token = NONE

    def granted(self, grant: Grant) -> None:
        self.grant = grant

    def renewed(self, sent_at: float) -> None:
        # guard: deadlines-count-from-the-sending
        self._sent_at = sent_at
        self.extend()

    @property
    def lease_lasts(self) -> bool:
        """Whether the last confirmed renewal keeps a gate open now: a leader that is cut off can only believe that it leads."""
        return self.grant is not None and self._instant().boottime_ns < int((self._sent_at + self._timings.renew) * 1e9)

    @property
    def overdue(self) -> bool:
        """Whether the driver's gate is past the time by which what writes behind it has to be dead."""
        if self.driver is None:
            return False
        view = self.driver.gate.view
        return view.state in _DEADLINES and view.kill_due(self._instant(), busy=True)

    def lost(self, reason: str, *, leads: bool) -> None:
        """Nothing passes any more, and SIGKILL, if the driver could write or is about to; ``TerminateAndReap`` makes sure of it.

        One that hands over does not lead any more, and its driver may still write.
        """
        self.grant = None
        if self.driver is not None and (leads or self.driver.gate.view.state in _DEADLINES):
            self.driver.show(View(State.REVOKED, self.token))
            self.driver.kill_now(reason)

    def released(self) -> None:
        """From here on no gate opens under the grant, even if the release fails."""
        self.grant = None

    def leads_under(self, granted: Granted) -> None:
        """The job was claimed. ``granted``: what the driver is told once its gate opens."""
        self.token, self._granted = Token.from_int(granted.token), granted

    def open(self, grant: Grant) -> bool:
        """Open the gate and tell the driver, which takes over.

        False, and nothing is opened, when ``grant`` is no longer the current one: it was lost or released since it was looked at.
        """
        # guard: gate-opens-under-the-current-grant
        if self.grant is not grant or self.driver is None:
            return False
        self.driver.show(self._open_view())
        self.driver.send(self._granted)
        return True

    def extend(self) -> None:
        """New deadlines, or a new token; in other states than open the gate stays as it is.

        A gate that was closed for a script that ends in its own way stays closed, and has deadlines: a JVM halts itself at them.
        """
        if self.driver is None:
            return
        if (state := self.driver.gate.view.state) in _DEADLINES:
            self.driver.show(replace(self._open_view(), state=state))

    def _open_view(self) -> View:
        return open_view(self.token, self._sent_at, self._timings, self._instant())
