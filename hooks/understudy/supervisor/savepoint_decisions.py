"""What follows when a savepoint is taken: the part of ``lifecycle.step`` that is about savepoints. Pure.

It begins as a suspension, or a drain, does: everything is held between two batches. The boundary gets a number, the driver copies the checkpoints, lets its
batches go on and proves the copies; the manifest is last. A failure on the way leaves the job running. A driver that dies in the middle
leaves a savepoint that has failed: another one is not tried with it, for it may be what the driver has died of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.ha.requests import Action, Request, Result
from understudy.protocol.messages import Saved
from understudy.supervisor.commands import AnswerRequest, Command, Decision, HoldDriver, LetDriverGo, Say
from understudy.supervisor.job_end import ended_already
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint, SaveDriver
from understudy.supervisor.state import Leading, State

if TYPE_CHECKING:
    from understudy.supervisor.inputs import BoundaryRecorded, SavepointRecorded


def asked_to_save(state: State, leads: Leading, request: Request, said: Say) -> Decision:
    """A leader takes it up; refused where nothing could be kept."""
    if state.rules.has_storage:
        return state, (said, HoldDriver(request.id, request.timeout, save=True))
    why = "there is no place for a savepoint. Run the job with --ha-storage"
    return state.now(leads.free()), (said, AnswerRequest(leads.token, request.id, Result.REFUSED, why))


def saves_first(state: State, request: Request | None) -> bool:
    """Whether a savepoint comes before what ``request``, a drain, asks for."""
    return request is not None and request.action == Action.DRAIN and request.savepoint and state.rules.has_storage


def held_to_save(state: State, leads: Leading, request: str) -> Decision:
    return state.now(replace(leads, saves=True, copies=None)), (RecordBoundary(leads.token, request),)


def boundary_recorded(state: State, recorded: BoundaryRecorded) -> Decision:
    match state.leadership:
        case Leading(request=Request(id=request) as asked, saves=True, suspends=False, drains=False) as leads:
            if recorded.number is None:
                said = Say("request-withdrawn", recorded.reason)
                return state.now(leads.free()), (said, LetDriverGo())
            said = Say("savepoint-begins", f"savepoint {recorded.number} is copied to {recorded.place}")
            keep = asked.then == Action.SUSPEND or asked.action == Action.DRAIN
            on = state.now(replace(leads, copies=True))
            return on, (said, SaveDriver(request, recorded.number, recorded.place, asked.timeout, keep))
        case _:
            return state, ()


def saved(state: State, message: Saved) -> Decision:
    """The driver has copied and proven everything, or has not."""
    match state.leadership:
        case Leading(
            _, token, request=Request(id=request) as asked, saves=True, suspends=False, drains=False
        ) as leads if request == message.request:
            suspend = asked.then == Action.SUSPEND and not message.problem
            drain = asked.action == Action.DRAIN and not message.problem
            go: tuple[Command, ...] = () if suspend or drain else (LetDriverGo(),)
            record = RecordSavepoint(token, message, suspend, leads.roots if drain else None)
            return state.now(replace(leads, suspends=suspend, drains=drain, copies=False)), (*go, record)
        case _:
            return state, ()  # withdrawn; what was copied counts as failed


def savepoint_recorded(state: State, recorded: SavepointRecorded) -> Decision:
    match state.leadership:
        case Leading(_, token) if recorded.status.terminal:
            return ended_already(state, token, recorded.status)
        case Leading(saves=True, suspends=False, drains=False) as leads:
            return state.now(leads.free()), (Say("savepoint", recorded.text),)
        case _:
            return state, ()


def given_up(state: State, begun: tuple[Command, ...], request: Request) -> Decision:
    """A driver before this one has begun the savepoint, and died."""
    leads = state.leadership
    assert isinstance(leads, Leading)
    text = "the driver that took the savepoint died in the middle. The job goes on; ask again"
    said = Say("request-failed", text, {"request": request.id})
    failed = AnswerRequest(leads.token, request.id, Result.FAILED, text)
    return replace(state, leadership=leads.free(), taken_up=request.id), (*begun, said, failed)
