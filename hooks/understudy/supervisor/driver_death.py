"""What follows from the death of a leader's driver, however it came about."""

from __future__ import annotations

from understudy.protocol.token import Token
from understudy.supervisor.commands import Command, RecordFailure, Say


def driver_died(token: Token, reason: str, *, overdue: bool = False) -> tuple[Command, ...]:
    """``overdue`` as in ``Failed``."""
    return Say("driver-died", reason, {"epoch": token.epoch}), RecordFailure(token, reason, counts=not overdue)
