"""What follows when a job is drained: the part of ``lifecycle.step`` that is about DRAINING. Pure.

A drain begins as a suspension does: everything is held between two batches. From when the job's document says DRAINING it cannot be taken
back: each leader goes on with it, until every query has let out what it kept back and the job is FINISHED; or it is canceled. A savepoint
comes before that, if it is wanted and there is a place for it: the document says DRAINING in the same write as that it is complete.
"""

from __future__ import annotations

from dataclasses import replace

from understudy.ha.job import Status
from understudy.ha.requests import Action, Request, Result
from understudy.protocol.messages import Drained, Held
from understudy.supervisor.commands import (
    AnswerRequest,
    Command,
    Decision,
    DrainDriver,
    LetDriverGo,
    RecordDraining,
    RecordEnd,
    Say,
    TerminateAndReap,
)
from understudy.supervisor.driver_death import driver_died
from understudy.supervisor.inputs import DrainingRecorded
from understudy.supervisor.job_end import clear_all, ended_already
from understudy.supervisor.savepoint_decisions import held_to_save, saves_first
from understudy.supervisor.state import Leading, State


def held_to_drain(state: State, leads: Leading, message: Held) -> Decision:
    """The driver holds everything, or will not."""
    if message.refused:
        said = Say("request-failed", message.busy, {"request": message.request})
        answer = AnswerRequest(leads.token, message.request, Result.REFUSED, message.busy)
        return state.now(replace(leads, request=None)), (said, answer)
    roots = tuple(message.roots)
    if saves_first(state, leads.request):
        return held_to_save(state, replace(leads, roots=roots), message.request)
    record = RecordDraining(leads.token, message.request, roots)
    return state.now(replace(leads, drains=True)), (record,)


def draining_recorded(state: State, recorded: DrainingRecorded) -> Decision:
    match recorded, state.leadership:
        case DrainingRecorded(Status.DRAINING, roots), Leading(request=Request(id=request), drains=True):
            said = Say("draining", f"{len(roots)} queries with a watermark let out what they keep back")
            return state, (said, DrainDriver(request, roots))
        case DrainingRecorded(status), Leading(_, token) if status.terminal:
            return ended_already(state, token, status)
        case DrainingRecorded(), Leading(drains=True) as leads:
            on = state.now(leads.free())
            return on, (Say("request-withdrawn", "the job runs on"), LetDriverGo())
        case _:
            return state, ()


def goes_on_draining(
    state: State, begun: tuple[Command, ...], request: Request | None, roots: tuple[str, ...]
) -> Decision:
    """A new driver of a job that is DRAINING already: no batch begins in it but the last one of each query.

    Any other request than to drain is refused: an earlier release, or a person, has put it there.
    """
    leads = state.leadership
    assert isinstance(leads, Leading)
    drains = request is not None and request.action == Action.DRAIN
    asked = request if request is not None and drains else Request("", Action.DRAIN)
    on = replace(state, leadership=replace(leads, request=asked, drains=True), taken_up=asked.id)
    commands = (*begun, Say("draining", "the job was DRAINING, and is drained on"), DrainDriver(asked.id, roots))
    if request is None or drains:
        return on, commands
    return on, (*commands, AnswerRequest(leads.token, request.id, Result.REFUSED, "the job is DRAINING"))


def drained(state: State, said: Drained) -> Decision:
    match state.leadership:
        case Leading(_, token, request=Request(id=request), drains=True) if request == said.request:
            gone = replace(state, driver=None)
            if said.problem:
                return gone, (TerminateAndReap(), *driver_died(token, said.problem))
            return gone, (TerminateAndReap(), *clear_all(state), RecordEnd(token, Status.FINISHED, "drained"))
        case _:
            return state, ()
