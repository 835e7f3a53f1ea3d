"""Commands that could not be carried out because the documents were not reached, once they can be again."""

from __future__ import annotations

from dataclasses import replace

from understudy.ha.job import Status
from understudy.ha.requests import Request
from understudy.protocol.messages import Saved
from understudy.protocol.token import Token
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    Command,
    Decision,
    Documented,
    EndByHandler,
    HandOverAndExit,
    Purpose,
    QuiesceDriver,
    RecordDraining,
    RecordEnd,
    RecordFailure,
    RecordSuspended,
    Retry,
    SeekSuccessor,
)
from understudy.supervisor.inputs import CommandDue, Unreachable
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.state import Claiming, Leading, State, Stopping

#: What records that a driver holds its batches, or what it has done meanwhile.
_OfAHold = RecordSuspended | RecordDraining | RecordBoundary | RecordSavepoint


def of_documents(state: State, given: CommandDue | Unreachable, now: float) -> Decision:
    """Nothing is decided while documents cannot be reached; meanwhile the gate's deadlines and the kill timer hold.

    A replica that stops cannot wait for them for ever. It tries for a while to record that its script has ended, because a successor
    would run the whole script again.
    """
    match given, state.leadership:
        case Unreachable(command), Stopping(until=float(until)) if now < until:
            return state, (Retry(command),)
        case Unreachable(), Stopping(token):
            return state, end_in_order(token)
        case Unreachable(command), _:
            return state, (Retry(command, state.driver if isinstance(command, _OfAHold) else None),)
        case CommandDue(AnswerRequest() as command), Leading(_, token):
            # a restart has raised the token; the request's id still holds
            return state, (replace(command, token=token),)
        case (
            CommandDue(
                RecordSuspended() | RecordDraining() | RecordBoundary() | RecordSavepoint() as command, int(driver)
            ),
            Leading(_, token, request=Request(id=request)),
        ) if (driver, _request_of(command)) == (state.driver, request):
            # a claim was raised meanwhile, and the token with it; what the driver holds, it holds under any
            return state, (replace(command, token=token),)
        case CommandDue(command), _ if still_wanted(state, command):
            return state, (command,)
        case _:
            return state, ()


def end_in_order(token: Token | None) -> tuple[Command, ...]:
    suspend = () if token is None else (QuiesceDriver(),)
    return (SeekSuccessor(), *suspend, EndByHandler(), HandOverAndExit())


def _request_of(command: _OfAHold) -> str:
    return command.saved.request if isinstance(command, RecordSavepoint) else command.request


def still_wanted(state: State, command: Documented) -> bool:
    """Whether what ``command`` was meant for still holds: the lead may have been lost, and won again, meanwhile."""
    match command, state.leadership:
        case BeginAttempt(grant, _, _, Purpose.TAKEOVER), Claiming(held):
            return grant is held
        case BeginAttempt(_, _, _, Purpose.RECLAIM), Leading() if state.driver is None:
            # The driver that met the higher claim is gone. A token raised for it now would make what waits for the next one out of date;
            # that one meets the claim again.
            return False
        case BeginAttempt(grant, _, above), Leading(held, token):
            return grant is held and above == token
        case RecordFailure(token) | RecordEnd(token), Leading(_, current):
            return token == current
        case RecordEnd(token, Status.FINISHED), Stopping(current, float()):
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
