"""The decisions of a replica: ``step(state, input, now) -> (state, commands)``. Pure: no clock, no I/O, no randomness.

The shell (``supervisor.py``) takes one event at a time from its inbox and carries out what ``step`` asks for. A command's outcome
is an input as events are, and is decided on at once, so one event has been dealt with to its end before the next is looked at.
Three things do not wait for that, because they must not wait for anything: deadlines written to the gate on a renewal, the
revocation of the gate with SIGKILL on a loss (both in ``deadline_guard.py``), and the kill timer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from understudy.errors import IdentityConflict
from understudy.ha.job import Job, Status
from understudy.ha.requests import Action, Result
from understudy.protocol.token import Token
from understudy.supervisor import restart
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    ClearExecutors,
    Command,
    Decision,
    EndByHandler,
    Exit,
    Fail,
    FindSuccessor,
    NoteLeadershipLost,
    OpenGate,
    Publish,
    Purpose,
    ReclaimRoots,
    RecordEnd,
    ReleaseLock,
    Say,
    ScheduleRestart,
    StartLeader,
    StartStandby,
    StopContending,
    TerminateAndReap,
)
from understudy.supervisor.drain_decisions import goes_on_draining
from understudy.supervisor.driver_death import driver_died
from understudy.supervisor.driver_decisions import another_standby, of_the_driver
from understudy.supervisor.inputs import (
    AttemptBegun,
    AttemptLost,
    AttemptSuperseded,
    AttemptTooLate,
    BoundaryRecorded,
    CommandDue,
    ConflictingRun,
    ConflictingWorkload,
    DrainingRecorded,
    DriverExited,
    DriverMessage,
    DriverNotStarted,
    Event,
    FailureRecorded,
    GateOpened,
    JobChanged,
    JobEndRecorded,
    LeaderDied,
    LeadershipGranted,
    LeadershipRevoked,
    LockRaised,
    LockReleased,
    Outcome,
    ReplicaLookedFor,
    RequestAnswered,
    RequestOverdue,
    RestartDue,
    RunEnded,
    SavepointRecorded,
    StandbyStale,
    StandbyStartDue,
    StopRequested,
    SuccessorLookedFor,
    SuspensionRecorded,
    TokenOvertaken,
    Unreachable,
)
from understudy.supervisor.pending_commands import end_in_order, of_documents
from understudy.supervisor.request_decisions import (
    OF_A_DRIVER,
    another_run,
    needs_no_driver,
    of_requests,
    restart_now,
    suspended,
    take_up,
)
from understudy.supervisor.savepoint_decisions import given_up
from understudy.supervisor.state import (
    Claiming,
    Ended,
    HandingOver,
    Leading,
    Rules,
    Standby,
    State,
    Stopping,
    Suspended,
    token_of,
)


def step(state: State, given: Event | Outcome, now: float) -> Decision:
    """The next state, and what to do, in that order. ``now`` in seconds since 1970."""
    if _too_late(state, given):
        return state, ()
    match given:
        case LeadershipGranted() | LeadershipRevoked() | LeaderDied() | LockRaised() | LockReleased():
            return _of_the_lock(state, given)
        case DriverMessage() | DriverExited() | StandbyStartDue() | StandbyStale() | RestartDue():
            return of_the_driver(state, given)
        case (
            AttemptBegun() | AttemptLost() | AttemptSuperseded() | AttemptTooLate() | GateOpened() | DriverNotStarted()
        ):
            return _of_an_attempt(state, given)
        case FailureRecorded() | SuccessorLookedFor() | JobEndRecorded() | TokenOvertaken():
            return _of_the_job(state, given)
        case (
            JobChanged()
            | RequestOverdue()
            | SuspensionRecorded()
            | DrainingRecorded()
            | BoundaryRecorded()
            | SavepointRecorded()
            | ReplicaLookedFor()
        ):
            return of_requests(state, given)
        case RequestAnswered():
            return state, ()
        case RunEnded() | ConflictingWorkload() | ConflictingRun() | StopRequested():
            return _of_an_end(state, given, now)
        case CommandDue() | Unreachable():
            return of_documents(state, given, now)
        case _:
            assert_never(given)


def _too_late(state: State, given: Event | Outcome) -> bool:
    """Whether only what the last commands have come to still counts."""
    match state.leadership:
        case Stopping(until=float()) if isinstance(given, CommandDue | LeadershipRevoked):
            return False  # the end of its script is not recorded yet
        case Stopping():
            return isinstance(given, Event)
        case leadership:
            return isinstance(leadership, Ended)


# --- the lock ---------------------------------------------------------------------------------------------------------


def _of_the_lock(
    state: State, given: LeadershipGranted | LeadershipRevoked | LeaderDied | LockRaised | LockReleased
) -> Decision:
    match given, state.leadership:
        case LeadershipGranted(grant), Standby() | Suspended() as before:
            free = "the lock is free: released, or its lease ran out"
            known = isinstance(before, Standby) and before.dead is not None
            detected = () if known else (Say("detected", free, {"how": "lock"}),)
            begin = BeginAttempt(grant, grant.epoch, state.last_token, Purpose.TAKEOVER)
            return state.now(Claiming(grant)), (*detected, begin)
        case LeadershipRevoked(reason), Leading(_, token):
            return _step_down(state, token, reason)
        case LeadershipRevoked(), Claiming():
            return _stand_by_again(state)
        case LeadershipRevoked(), Stopping(token):
            return state, end_in_order(token)
        case LeaderDied(holder), Standby():
            return state.now(Standby(holder)), ()
        case LockRaised(int(epoch)), Leading(grant, token):
            return state, (BeginAttempt(grant, epoch, token, Purpose.RECLAIM),)
        case LockReleased(pause), HandingOver():
            return state.now(Standby()), (NoteLeadershipLost(), Publish(), StartStandby(pause))
        case _:
            return state, ()


def _stand_by_again(state: State) -> Decision:
    """A grant came to nothing. One that was suspended before it has no driver, and none that is about to start."""
    return state.now(Standby()), () if state.driver is not None else (StartStandby(),)


def _step_down(state: State, token: Token, reason: str, *last: Command) -> Decision:
    """Leadership is gone: the driver ends, and the replica stands by again."""
    down = replace(state, leadership=Standby(), driver=None)
    said = Say("stepped-down", reason, {"epoch": token.epoch})
    return down, (said, NoteLeadershipLost(), TerminateAndReap(), *last, Publish(), StartStandby())


# --- an attempt -------------------------------------------------------------------------------------------------------


def _of_an_attempt(
    state: State,
    given: AttemptBegun | AttemptLost | AttemptSuperseded | AttemptTooLate | GateOpened | DriverNotStarted,
) -> Decision:
    match given, state.leadership:
        case AttemptBegun(), _:
            return _attempt_begun(state, given)
        case AttemptLost(), Claiming():
            return _stand_by_again(state)
        case AttemptSuperseded(reason, epoch), Claiming() | Leading():
            over = replace(state, leadership=HandingOver(), driver=None)
            return over, (Say("superseded", reason, {"epoch": epoch}), TerminateAndReap(), FindSuccessor())
        case AttemptTooLate(Job(status=Status.SUSPENDED) as job), Claiming() | Leading():
            lost = (NoteLeadershipLost(),) if isinstance(state.leadership, Leading) else ()
            down, commands = suspended(state, ReleaseLock(None), warm=job.warm)
            return down, (*lost, *commands)
        case AttemptTooLate(Job(status=Status.DRAINING) as job), Claiming() | Leading():
            return another_run(state, job.runs.run, job.status)
        case AttemptTooLate(job), Claiming() | Leading():
            return _retire(state, job)
        case GateOpened(), Leading():
            return state, (Publish(),)
        case DriverNotStarted(reason), Leading(_, token):
            return replace(state, driver=None), driver_died(token, reason)
        case DriverNotStarted(reason), Standby() | Claiming():
            return another_standby(state, reason)
        case _:
            return state, ()


def _attempt_begun(state: State, begun: AttemptBegun) -> Decision:
    """The job is claimed. A request that ends without a driver is taken up before anything writes, another one afterwards."""
    if begun.purpose is Purpose.RECLAIM and state.driver is None:
        begun = replace(
            begun, purpose=Purpose.RESTART
        )  # what it was raised for is gone; else nothing would start the next driver
    asked, leads = begun.request, _leads(state, begun)
    if leads is None:
        return state, ()
    if asked is not None and needs_no_driver(begun):
        assert isinstance(leads.leadership, Leading)
        return take_up(leads.now(replace(leads.leadership, writes=False)), asked, writes=False)
    leads, commands = _begin_to_write(leads, begun)
    if begun.draining is not None and begun.purpose is not Purpose.RECLAIM:
        return goes_on_draining(leads, commands, asked, begun.draining)
    if asked is None or (asked.action in OF_A_DRIVER and leads.driver is None):
        return leads, commands  # the next driver takes it up
    if asked.action in OF_A_DRIVER and begun.purpose is not Purpose.RECLAIM:
        leads = replace(leads, taken_up="")  # the driver that had taken it up is gone
        if begun.saving:
            return given_up(leads, commands, asked)
    if asked.id == leads.taken_up:
        if asked.action == Action.HAND_OVER and begun.purpose is Purpose.TAKEOVER:
            back = AnswerRequest(
                begun.token, asked.id, Result.FAILED, "no other replica took the lock; the same one leads again"
            )
            return leads, (*commands, back)
        return leads, commands
    leads, further = take_up(leads, asked, writes=leads.driver is not None)
    return leads, (*commands, *further)


def _leads(state: State, begun: AttemptBegun) -> State | None:
    """The leader under the new token; ``None`` where that is not what this replica waits for."""
    match begun, state.leadership:
        case AttemptBegun(token, Purpose.TAKEOVER), Claiming(grant):
            return replace(state, leadership=Leading(grant, token), last_token=token)
        case AttemptBegun(token, Purpose.RESTART), Leading() as before if state.driver is None:
            again = replace(before.free(), token=token, pauses=False)
            return replace(state, leadership=again, last_token=token)
        case AttemptBegun(token, Purpose.RECLAIM), Leading() as before:
            return replace(state, leadership=replace(before, token=token), last_token=token)
        case _:
            return None


def _begin_to_write(leads: State, begun: AttemptBegun) -> Decision:
    match begun, leads.leadership:
        case AttemptBegun(_, Purpose.TAKEOVER), Leading(grant):
            clear = (ClearExecutors(),) if leads.rules.clears_executors else ()
            if leads.driver is not None:
                return leads, (*clear, OpenGate(grant))
            leads = leads.with_next_driver()
            return leads, (*clear, StartLeader(leads.started, grant))
        case AttemptBegun(token, Purpose.RESTART), Leading(grant):
            leads = leads.with_next_driver()
            told = f"the driver starts again in place under token {token}"
            return leads, (Say("restarted", told, {"epoch": token.epoch}), StartLeader(leads.started, grant))
        case AttemptBegun(token, Purpose.RECLAIM), _ if leads.driver is not None:
            return leads, (ReclaimRoots(token),)
        case _:
            return leads, ()


def _retire(state: State, job: Job) -> Decision:
    """The lock is given back, if it is ours, once no process of the driver is left."""
    ending = replace(state, leadership=Stopping(token_of(state.leadership)), driver=None)
    return ending, (StopContending(), TerminateAndReap(), ReleaseLock(None), Exit(job))


# --- the job ----------------------------------------------------------------------------------------------------------


def _of_the_job(
    state: State, given: FailureRecorded | SuccessorLookedFor | JobEndRecorded | TokenOvertaken
) -> Decision:
    match given, state.leadership:
        case FailureRecorded(counts=False), Leading():
            return state, (FindSuccessor(earlier_generation=True),)
        case FailureRecorded(failures, reason), Leading(_, token):
            return state, (_after_failure(state.rules, token, failures, reason),)
        case SuccessorLookedFor(), _ if state.driver is None:
            return _successor_looked_for(state, given)
        case JobEndRecorded(job), Leading() | Stopping():
            return _retire(state, job)
        case TokenOvertaken(reason), Leading(_, token):
            # Perhaps by an attempt of our own, whose answer was lost: then the lock is still ours, and must not stay so without a leader.
            return _step_down(state, token, reason, ReleaseLock(None))
        case TokenOvertaken(), Stopping(token):
            return state, end_in_order(token)
        case _:
            return state, ()


def _successor_looked_for(state: State, given: SuccessorLookedFor) -> Decision:
    match given, state.leadership:
        case SuccessorLookedFor(str(successor), pause), Leading():
            return state.now(HandingOver()), (ReleaseLock(successor, pause),)
        case SuccessorLookedFor(None, _, restarts=True), Leading() as leads:
            return restart_now(state, leads)
        case SuccessorLookedFor(None, pause), Leading(_, token) as leads:
            # Not slept here: a replica that is told to stop meanwhile gives the lock back at once. What the dead driver was at is taken up
            # again, by the next one or before it. Whether the job is DRAINING does not depend on a driver.
            pauses = replace(leads.free(), drains=leads.drains, pauses=True)
            taken_up = state.taken_up if leads.request is None else ""
            return replace(state, leadership=pauses, taken_up=taken_up), (ScheduleRestart(pause, token),)
        case SuccessorLookedFor(successor, pause), HandingOver():
            return state, (ReleaseLock(successor, pause),)
        case _:
            return state, ()


def _after_failure(rules: Rules, token: Token, failures: tuple[float, ...], reason: str) -> RecordEnd | FindSuccessor:
    """The leading driver died under a living supervisor: a rehearsed standby takes over, else it starts again in place."""
    match restart.decide(failures, rules.restart):
        case restart.GiveUp(why):
            return RecordEnd(token, Status.FAILED, f"{why}; the last: {reason}")
        case restart.Restart(delay):
            return FindSuccessor(delay, earlier_generation=True)


# --- ends -------------------------------------------------------------------------------------------------------------


def _of_an_end(
    state: State, given: RunEnded | ConflictingWorkload | ConflictingRun | StopRequested, now: float
) -> Decision:
    match given:
        case RunEnded(job):
            return state.now(Ended()), (Exit(job),)
        case StopRequested():
            return _stop(state, given, now)
        case _:
            return _conflict(state, given)


def _stop(state: State, asked: StopRequested, now: float) -> Decision:
    """Finish or abandon the batch, release to a rehearsed standby, and end. From here on this process never contends."""
    until = None
    token = token_of(state.leadership)
    said = Say("stopping", f"told to by {asked.why}", {"epoch": None if token is None else token.epoch})
    end: tuple[Command, ...]
    drains = isinstance(state.leadership, Leading) and state.leadership.drains
    if asked.completed and token is not None and not drains:  # a successor would run the whole script again
        end, until = (RecordEnd(token, Status.FINISHED, "the script ended"),), now + state.rules.renew
    elif token is not None or asked.holds_lock:
        end = end_in_order(token)
    else:
        end = (EndByHandler(), Exit())
    return state.now(Stopping(token, until)), (said, *end)


def _conflict(state: State, met: ConflictingWorkload | ConflictingRun) -> Decision:
    if not isinstance(state.leadership, Standby | Claiming | Suspended):
        return state, ()  # it led while we did not; now we do, so it is gone
    match met:
        case ConflictingWorkload(workload):
            error = IdentityConflict(
                f"the workload {workload} runs this cluster id, and its leader lives",
                where="--cluster-id",
                remedy="Give each workload a cluster id of its own, or delete the other one first",
            )
        case ConflictingRun(run):
            error = IdentityConflict(
                f"run {run} of this job is under way, and its leader lives",
                where="--run-id",
                remedy=f"Wait until it has ended; or give --run-id {run} for one more replica of it",
            )
        case _:
            assert_never(met)
    return state.now(Ended()), (Fail(error),)
