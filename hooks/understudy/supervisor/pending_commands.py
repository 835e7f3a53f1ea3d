"""Commands that could not be carried out because the documents were not reached, once they can be again."""

from __future__ import annotations

from dataclasses import replace

from understudy.ha.job import Status
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
from understudy.supervisor.state import Claiming, Leadership, Leading, State, Stopping


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
            return state, (Retry(command),)
        case CommandDue(AnswerRequest() as command), Leading(_, token):
            # a restart has raised the token; the request's id still holds
            return state, (replace(command, token=token),)
        case CommandDue(command), leadership if still_wanted(leadership, command):
            return state, (command,)
        case _:
            return state, ()


def end_in_order(token: Token | None) -> tuple[Command, ...]:
    suspend = () if token is None else (QuiesceDriver(),)
    return (SeekSuccessor(), *suspend, EndByHandler(), HandOverAndExit())


def still_wanted(leadership: Leadership, command: Documented) -> bool:
    """Whether what ``command`` was meant for still holds: the lead may have been lost, and won again, meanwhile."""
    match command, leadership:
        case BeginAttempt(grant, _, _, Purpose.TAKEOVER), Claiming(held):
            return grant is held
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
