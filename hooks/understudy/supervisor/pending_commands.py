"""Commands that could not be carried out because the documents were not reached, once they can be again."""

from __future__ import annotations

from understudy.protocol.messages import Saved
from understudy.supervisor.commands import (
    BeginAttempt,
    Documented,
    Purpose,
    RecordDraining,
    RecordEnd,
    RecordFailure,
    RecordSuspended,
)
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.state import Claiming, Leadership, Leading


def still_wanted(leadership: Leadership, command: Documented) -> bool:
    """Whether what ``command`` was meant for still holds: the lead may have been lost, and won again, meanwhile."""
    match command, leadership:
        case BeginAttempt(grant, _, _, Purpose.TAKEOVER), Claiming(held):
            return grant is held
        case BeginAttempt(grant, _, above), Leading(held, token):
            return grant is held and above == token
        case RecordFailure(token) | RecordEnd(token), Leading(_, current):
            return token == current
        case (
            RecordSuspended(token, request)
            | RecordDraining(token, request)
            | RecordBoundary(token, request)
            | RecordSavepoint(token, Saved(request)),
            Leading(_, current, request=held),
        ) if held is not None:
            return token == current and request == held.id
        case _:
            return False
