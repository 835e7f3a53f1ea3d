"""What follows from a request to the job, and from what becomes of it: the part of ``lifecycle.step`` that is about requests. Pure.

A leader takes up one request at a time, and each once: what it has taken up already is told again by every look at the document.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from understudy.errors import IdentityConflict
from understudy.ha.job import Status
from understudy.ha.requests import Action, Request, Result
from understudy.protocol.messages import Held
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    Command,
    ContendNow,
    Decision,
    EndByHandler,
    Fail,
    FindReplica,
    HoldDriver,
    LetDriverGo,
    NoteLeadershipLost,
    NoteResumed,
    NoteSuspended,
    Publish,
    Purpose,
    QuiesceDriver,
    RecordEnd,
    RecordSuspended,
    ReleaseLock,
    Say,
    StartStandby,
    TerminateAndReap,
)
from understudy.supervisor.drain_decisions import draining_recorded, held_to_drain
from understudy.supervisor.inputs import (
    AttemptBegun,
    BoundaryRecorded,
    DrainingRecorded,
    JobChanged,
    ReplicaLookedFor,
    RequestOverdue,
    SavepointRecorded,
    SuspensionRecorded,
)
from understudy.supervisor.job_end import clear_all, ended_already
from understudy.supervisor.savepoint_decisions import (
    asked_to_save,
    boundary_recorded,
    held_to_save,
    savepoint_recorded,
    saves_first,
)
from understudy.supervisor.state import Ended, HandingOver, Leading, Standby, State, Suspended

_BOUNDARY = "it did not come to the end of a batch"


#: What holds the driver first.
_HOLDS = frozenset({Action.SUSPEND, Action.DRAIN, Action.SAVEPOINT})
#: What is asked of a driver that runs; each one begins it again.
OF_A_DRIVER = frozenset({Action.DRAIN, Action.SAVEPOINT})


def of_requests(
    state: State,
    given: JobChanged
    | RequestOverdue
    | SuspensionRecorded
    | DrainingRecorded
    | BoundaryRecorded
    | SavepointRecorded
    | ReplicaLookedFor,
) -> Decision:
    match given:
        case JobChanged():
            return _job_changed(state, given)
        case RequestOverdue():
            return _overdue(state, given)
        case SuspensionRecorded():
            return _suspension_recorded(state, given)
        case DrainingRecorded():
            return draining_recorded(state, given)
        case BoundaryRecorded():
            return boundary_recorded(state, given)
        case SavepointRecorded():
            return savepoint_recorded(state, given)
        case ReplicaLookedFor():
            return _replica_looked_for(state, given)
        case _:
            assert_never(given)


def _overdue(state: State, given: RequestOverdue) -> Decision:
    """While the document is being told, the answer to that decides. What else may hold batches has its time, also where no storage answers."""
    match state.leadership:
        case Leading(suspends=True) | Leading(drains=True):
            return state, ()
        case Leading(request=Request(id=request), saves=False) if request == given.request and not given.copies:
            return _failed(state, f"{_BOUNDARY}, and the driver does not say why")
        case Leading(request=Request(id=request), saves=True, copies=None) if request == given.request:
            return _failed(state, "the savepoint got no number: the documents or HA storage do not answer")
        case Leading(request=Request(id=request), saves=True, copies=True) if request == given.request and given.copies:
            return _failed(state, "the driver does not say what has become of the savepoint")
        case _:
            return state, ()


def _job_changed(state: State, seen: JobChanged) -> Decision:
    match seen, state.leadership:
        case (
            JobChanged(Status.SUSPENDED | Status.DRAINING as status, asked, other_run=str(run)),
            Standby() | Suspended(),
        ) if run and not _cancels(asked):
            return another_run(state, run, status)
        case JobChanged(Status.SUSPENDED, warm=warm), Standby():
            return (state, ()) if warm else suspended(state)
        case JobChanged(Status.RUNNING | Status.DRAINING), Suspended():
            said = Say("resumed", "the job runs again")
            return state.now(Standby()), (said, NoteResumed(), Publish(), ContendNow(), StartStandby())
        case JobChanged(Status.RUNNING), Standby():
            return state, (ContendNow(),)
        case JobChanged(status, token=token), Leading(_, ours) if token == ours and status.terminal:
            return ended_already(state, ours, status)
        case JobChanged(Status.SUSPENDED, token=token), Leading(_, ours) if token == ours:
            # its write has landed, and only its answer was lost
            return _suspension_recorded(state, SuspensionRecorded(Status.SUSPENDED, seen.warm))
        case (
            JobChanged(_, asked),
            Leading(request=Request(action=action, id=held), suspends=False, drains=False) as leads,
        ) if action in _HOLDS:
            if asked is not None and asked.id == held:
                return state, ()
            # Withdrawn or overridden. Should this look be older than the request, the next one shows it again.
            free = replace(state, leadership=leads.free(), taken_up="")
            after, commands = _asked(free, asked)
            return after, (Say("request-withdrawn", "the job runs on"), LetDriverGo(), *commands)
        case JobChanged(_, asked), Leading():
            return _asked(state, asked)
        case _:
            return state, ()


def _cancels(request: Request | None) -> bool:
    """Whether ``request`` ends a run, so that another one may begin where none of its own replicas is left."""
    return request is not None and request.action == Action.CANCEL


def another_run(state: State, run: str, status: Status) -> Decision:
    """The replica ends: ``run``, another one than its own, keeps its place although no leader of it may live."""
    remedy = {
        Status.SUSPENDED: f"Resume it or cancel it first; or give --run-id {run} for one more replica of it",
        Status.DRAINING: f"Start a replica with --run-id {run}, which drains it on; or understudy cancel ends it, with rows that stay back",
    }
    error = IdentityConflict(f"run {run} of this job is {status}", where="--run-id", remedy=remedy[status])
    return state.now(Ended()), (Fail(error),)


def _asked(state: State, request: Request | None) -> Decision:
    """Between two drivers an attempt may be under way, and its token in the document already: the attempt takes up the request.

    The pause before a restart may be long, and no attempt is under way in it. What ends the driver needs none, but a token above the dead one's.
    """
    leads = state.leadership
    if request is None or request.id == state.taken_up or not isinstance(leads, Leading):
        return state, ()
    if state.driver is not None:
        return take_up(state, request, writes=True)
    if not leads.pauses or request.action in OF_A_DRIVER:
        return state, ()
    if request.action in {Action.CANCEL, Action.SUSPEND}:
        return restart_now(state, leads)
    return take_up(state, request, writes=False)


def restart_now(state: State, leads: Leading) -> Decision:
    """The next driver's attempt, which takes up first what is asked of the job."""
    begin = BeginAttempt(leads.grant, leads.token.epoch, leads.token, Purpose.RESTART)
    return state.now(replace(leads, pauses=False)), (begin,)


def _suspension_recorded(state: State, recorded: SuspensionRecorded) -> Decision:
    match recorded, state.leadership:
        case SuspensionRecorded(Status.SUSPENDED, warm), Leading(_, token):
            said = Say("suspended", "the job is SUSPENDED; understudy resume lets it go on", {"epoch": token.epoch})
            down, commands = suspended(state, *clear_all(state), ReleaseLock(None), warm=warm)
            return down, (said, NoteLeadershipLost(), *commands)
        case SuspensionRecorded(status), Leading(_, token) if status.terminal:
            # The write had landed, its answer was lost, and a job that is SUSPENDED may be canceled by anyone.
            return ended_already(state, token, status)
        case SuspensionRecorded(status), Leading(writes=writes, drains=False) if (
            not writes or status is Status.DRAINING
        ):
            # Nothing was opened for it, or what was may not go on from what is drained. Whether this replica may lead, and to do what, is
            # for the next acquire to find out.
            down, commands = suspended(state, ReleaseLock(None), warm=True)
            return down, (Say("request-withdrawn", f"the job is {status}"), NoteLeadershipLost(), *commands)
        case SuspensionRecorded(), Leading(drains=False) as leads:
            on = state.now(leads.free())
            return on, (Say("request-withdrawn", "the job runs on"), LetDriverGo())
        case _:
            return state, ()


def _replica_looked_for(state: State, found: ReplicaLookedFor) -> Decision:
    match found, state.leadership:
        case ReplicaLookedFor(completed=True), Leading(_, token, request=Request(), drains=False):
            # The script has come to its end meanwhile: the next leader would run the whole of it again.
            return replace(state, driver=None), (
                TerminateAndReap(),
                RecordEnd(token, Status.FINISHED, "the script ended"),
            )
        case ReplicaLookedFor(None, problem), Leading(_, token, request=Request(id=request)):
            return _without_request(state), (AnswerRequest(token, request, Result.REFUSED, problem),)
        case ReplicaLookedFor(holder), Leading(request=Request()):
            over = replace(state, leadership=HandingOver(), driver=None)
            end = (QuiesceDriver(), EndByHandler()) if state.driver is not None else ()
            return over, (*end, TerminateAndReap(), ReleaseLock(holder))
        case _:
            return state, ()


def suspended(state: State, *last: Command, warm: bool = False) -> Decision:
    """Idle, without a driver: its memory is given back. Where the job is to stay ``warm``, the replica stands by.

    ``last`` comes when no process of the driver is left.
    """
    if warm:
        return replace(state, leadership=Standby(), driver=None), (TerminateAndReap(), *last, Publish(), StartStandby())
    down = replace(state, leadership=Suspended(), driver=None)
    return down, (TerminateAndReap(), *last, NoteSuspended(), Publish())


def take_up(state: State, request: Request, *, writes: bool) -> Decision:
    """Begin what ``request`` asks for. ``writes``: a driver runs behind an open gate, and may be in the middle of a batch."""
    leads = state.leadership
    assert isinstance(leads, Leading), "a leader takes up requests"
    if (leads.suspends or leads.drains) and request.action != Action.CANCEL:
        return state, ()  # what the document is being told decides first; the next look shows this one again
    token = leads.token
    leads = replace(leads, request=request, suspends=request.action == Action.SUSPEND and not writes)
    state = replace(state, leadership=leads, taken_up=request.id)
    said = Say("request", f"{request.action} is asked for by {request.by or 'no name'}", {"request": request.id})
    match request.action:
        case Action.CANCEL:
            end = RecordEnd(token, Status.CANCELED, f"canceled by {request.by}")
            return replace(state, driver=None), (said, TerminateAndReap(), *clear_all(state), end)
        case Action.SAVEPOINT if writes:
            return asked_to_save(state, leads, request, said)
        case Action.SUSPEND | Action.DRAIN if writes:
            drain = request.action == Action.DRAIN
            return state, (said, HoldDriver(request.id, request.timeout, drain, saves_first(state, request)))
        case Action.SUSPEND:
            # A batch that an earlier driver was in the middle of is run again when the job goes on, as at a takeover.
            return state, (said, RecordSuspended(token, request.id, between_batches=False))
        case Action.HAND_OVER:
            return state, (said, FindReplica(request.to))
        case _:
            what = f"{request.action!r} is nothing this release can do" if request.action else "it cannot be read"
            return _without_request(state), (said, AnswerRequest(token, request.id, Result.REFUSED, what))


def needs_no_driver(begun: AttemptBegun) -> bool:
    """Whether the request is carried out before any driver writes. A job that is DRAINING is not suspended: resumed, it would be gone on from."""
    ends = {Action.CANCEL} if begun.draining is not None else {Action.CANCEL, Action.SUSPEND}
    return begun.request is not None and begun.request.action in ends and begun.purpose is not Purpose.RECLAIM


def held(state: State, message: Held) -> Decision:
    """The driver holds everything, or could not."""
    match state.leadership:
        case Leading(drains=True) | Leading(saves=True):
            return state, ()  # it holds already
        case Leading(_, token, request=Request(id=request) as asked) as leads if request == message.request:
            if message.refused or (asked.action == Action.DRAIN and not message.busy):
                return held_to_drain(state, leads, message)
            if message.busy:
                return _failed(state, f"{_BOUNDARY}: {message.busy}")
            if asked.action == Action.SAVEPOINT:
                return held_to_save(state, leads, request)
            record = RecordSuspended(token, request, between_batches=message.began)
            return state.now(replace(leads, suspends=True)), (record,)
        case Leading() if not message.busy:
            return state, (LetDriverGo(),)  # too late
        case _:
            return state, ()


def _failed(state: State, why: str) -> Decision:
    leads = state.leadership
    assert isinstance(leads, Leading)
    assert leads.request is not None
    request = leads.request
    text = f"{why}. It had {request.timeout:g} s. The job runs on"
    said = Say("request-failed", text, {"request": request.id})
    return _without_request(state), (said, LetDriverGo(), AnswerRequest(leads.token, request.id, Result.FAILED, text))


def _without_request(state: State) -> State:
    return state.now(state.leadership.free()) if isinstance(state.leadership, Leading) else state
