"""The decisions of a replica: ``step(state, input, now) -> (state, commands)``. Pure: no clock, no I/O, no randomness.

The shell (``supervisor.py``) takes one event at a time from its inbox and carries out what ``step`` asks for. A command's outcome
is an input as events are, and is decided on at once, so one event has been dealt with to its end before the next is looked at.
Three things do not wait for that, because they must not wait for anything: deadlines written to the gate on a renewal, the
revocation of the gate with SIGKILL on a loss (both in ``deadline_guard.py``), and the kill timer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from understudy.election.facts import Grant
from understudy.errors import IdentityConflict
from understudy.ha.job import Job, Status
from understudy.protocol.token import Token
from understudy.supervisor import restart
from understudy.supervisor.commands import (
    BeginAttempt,
    ClearExecutors,
    Command,
    Decision,
    Documented,
    EndByHandler,
    Exit,
    Fail,
    FindSuccessor,
    HandOverAndExit,
    NoteLeadershipLost,
    OpenGate,
    Publish,
    Purpose,
    ReclaimRoots,
    RecordEnd,
    RecordFailure,
    ReleaseLock,
    Retry,
    Say,
    ScheduleRestart,
    SeekSuccessor,
    StartLeader,
    StartStandby,
    StopContending,
    SuspendDriver,
    TerminateAndReap,
)
from understudy.supervisor.driver_decisions import another_standby, driver_died, of_the_driver
from understudy.supervisor.inputs import (
    AttemptBegun,
    AttemptLost,
    AttemptSuperseded,
    AttemptTooLate,
    CommandDue,
    ConflictingRun,
    ConflictingWorkload,
    DriverExited,
    DriverMessage,
    DriverNotStarted,
    Event,
    FailureRecorded,
    GateOpened,
    JobEndRecorded,
    LeaderDied,
    LeadershipGranted,
    LeadershipRevoked,
    LockRaised,
    LockReleased,
    Outcome,
    RestartDue,
    RunEnded,
    StandbyStale,
    StandbyStartDue,
    StopRequested,
    SuccessorLookedFor,
    TokenOvertaken,
    Unreachable,
)
from understudy.supervisor.state import (
    Claiming,
    Ended,
    HandingOver,
    Leadership,
    Leading,
    Rules,
    Standby,
    State,
    Stopping,
)


def step(state: State, given: Event | Outcome, now: float) -> Decision:
    """The next state, and what to do, in that order. ``now`` in seconds since 1970, as failures of a job are recorded."""
    ending = isinstance(state.leadership, Stopping) and isinstance(given, Event)
    if ending or isinstance(state.leadership, Ended):
        return state, ()  # only what its last commands have come to still counts
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
            return _of_the_job(state, given, now)
        case RunEnded() | ConflictingWorkload() | ConflictingRun() | StopRequested():
            return _of_an_end(state, given)
        case CommandDue() | Unreachable():
            return _of_documents(state, given)
        case _:
            assert_never(given)


# --- the lock ---------------------------------------------------------------------------------------------------------


def _of_the_lock(
    state: State, given: LeadershipGranted | LeadershipRevoked | LeaderDied | LockRaised | LockReleased
) -> Decision:
    match given, state.leadership:
        case LeadershipGranted(grant), Standby(dead):
            free = "the lock is free: released, or its lease ran out"
            detected = () if dead is not None else (Say("detected", free, {"how": "lock"}),)
            begin = BeginAttempt(grant, grant.epoch, state.last_token, Purpose.TAKEOVER)
            return state.now(Claiming(grant)), (*detected, begin)
        case LeadershipRevoked(reason), Leading(_, token):
            return _step_down(state, token, reason)
        case LeadershipRevoked(), Claiming():
            return state.now(Standby()), ()
        case LeaderDied(holder), Standby():
            return state.now(Standby(holder)), ()
        case LockRaised(int(epoch)), Leading(grant, token):
            return state, (BeginAttempt(grant, epoch, token, Purpose.RECLAIM),)
        case LockReleased(pause), HandingOver():
            return state.now(Standby()), (NoteLeadershipLost(), Publish(), StartStandby(pause))
        case _:
            return state, ()


def _step_down(state: State, token: Token, reason: str) -> Decision:
    """Leadership is gone: the driver ends, and the replica stands by again."""
    down = replace(state, leadership=Standby(), driver=None)
    said = Say("stepped-down", reason, {"epoch": token.epoch})
    return down, (said, NoteLeadershipLost(), TerminateAndReap(), Publish(), StartStandby())


# --- an attempt -------------------------------------------------------------------------------------------------------


def _of_an_attempt(
    state: State,
    given: AttemptBegun | AttemptLost | AttemptSuperseded | AttemptTooLate | GateOpened | DriverNotStarted,
) -> Decision:
    match given, state.leadership:
        case AttemptBegun(), _:
            return _attempt_begun(state, given)
        case AttemptLost(), Claiming():
            return state.now(Standby()), ()
        case AttemptSuperseded(reason, epoch), Claiming() | Leading():
            over = replace(state, leadership=HandingOver(), driver=None)
            return over, (Say("superseded", reason, {"epoch": epoch}), TerminateAndReap(), FindSuccessor())
        case AttemptTooLate(job), Claiming() | Leading():
            return _retire(state, job, None)
        case GateOpened(), Leading():
            return state, (Publish(),)
        case DriverNotStarted(reason), Leading(_, token):
            return replace(state, driver=None), driver_died(token, reason)
        case DriverNotStarted(reason), Standby() | Claiming():
            failures = state.standby_failures + 1
            return replace(state, driver=None, standby_failures=failures), another_standby(state, reason, failures)
        case _:
            return state, ()


def _attempt_begun(state: State, begun: AttemptBegun) -> Decision:
    match begun, state.leadership:
        case AttemptBegun(token, Purpose.TAKEOVER), Claiming(grant):
            leads = replace(state, leadership=Leading(grant, token), last_token=token)
            clear = (ClearExecutors(),) if state.rules.clears_executors else ()
            if state.driver is not None:
                return leads, (*clear, OpenGate(grant))
            led, start = _start_leader(leads, grant)
            return led, (*clear, start)
        case AttemptBegun(token, Purpose.RESTART), Leading(grant) as before if state.driver is None:
            led, start = _start_leader(replace(state, leadership=replace(before, token=token), last_token=token), grant)
            told = f"the driver starts again in place under token {token}"
            return led, (Say("restarted", told, {"epoch": token.epoch}), start)
        case AttemptBegun(token, Purpose.RECLAIM), Leading() as before:
            raised = replace(state, leadership=replace(before, token=token), last_token=token)
            return raised, (ReclaimRoots(token),) if state.driver is not None else ()
        case _:
            return state, ()


def _start_leader(state: State, grant: Grant) -> tuple[State, StartLeader]:
    number = state.started + 1
    return replace(state, driver=number, started=number), StartLeader(number, grant)


def _retire(state: State, job: Job, token: Token | None) -> Decision:
    """The lock is given back, if it is ours, once no process of the driver is left."""
    ending = replace(state, leadership=Stopping(token), driver=None)
    return ending, (StopContending(), TerminateAndReap(), ReleaseLock(None), Exit(job))


# --- the job ----------------------------------------------------------------------------------------------------------


def _of_the_job(
    state: State, given: FailureRecorded | SuccessorLookedFor | JobEndRecorded | TokenOvertaken, now: float
) -> Decision:
    match given, state.leadership:
        case FailureRecorded(failures, reason), Leading(_, token):
            return state, (_after_failure(state.rules, token, failures, reason, now),)
        case SuccessorLookedFor(), _ if state.driver is None:
            return _successor_looked_for(state, given)
        case JobEndRecorded(job), Leading(_, token):
            return _retire(state, job, token)
        case JobEndRecorded(job), Stopping(token):
            return _retire(state, job, token)
        case TokenOvertaken(reason), Leading(_, token):
            return _step_down(state, token, reason)
        case TokenOvertaken(), Stopping(token):
            return state, _end_in_order(token)
        case _:
            return state, ()


def _successor_looked_for(state: State, given: SuccessorLookedFor) -> Decision:
    match given, state.leadership:
        case SuccessorLookedFor(str(successor), pause), Leading():
            return state.now(HandingOver()), (ReleaseLock(successor, pause),)
        case SuccessorLookedFor(None, _, restarts=True), Leading(grant, token):
            return state, (BeginAttempt(grant, token.epoch, token, Purpose.RESTART),)
        case SuccessorLookedFor(None, pause), Leading(_, token):
            # Not slept here: a replica that is told to stop meanwhile gives the lock back at once.
            return state, (ScheduleRestart(pause, token),)
        case SuccessorLookedFor(successor, pause), HandingOver():
            return state, (ReleaseLock(successor, pause),)
        case _:
            return state, ()


def _after_failure(
    rules: Rules, token: Token, failures: tuple[float, ...], reason: str, now: float
) -> RecordEnd | FindSuccessor:
    """The leading driver died under a living supervisor: a rehearsed standby takes over, else it starts again in place."""
    match restart.decide(
        failures, now, attempts=rules.restart_attempts, delay=rules.restart_delay, window=rules.restart_window
    ):
        case restart.GiveUp(why):
            return RecordEnd(token, Status.FAILED, f"{why}; the last: {reason}")
        case restart.Restart(delay):
            return FindSuccessor(delay, earlier_generation=True)


# --- ends -------------------------------------------------------------------------------------------------------------


def _of_an_end(state: State, given: RunEnded | ConflictingWorkload | ConflictingRun | StopRequested) -> Decision:
    match given:
        case RunEnded(job):
            return state.now(Ended()), (Exit(job),)
        case StopRequested():
            return _stop(state, given)
        case _:
            return _conflict(state, given)


def _stop(state: State, asked: StopRequested) -> Decision:
    """Finish or abandon the batch, release to a rehearsed standby, and end. From here on this process never contends."""
    match state.leadership:
        case Leading(_, token):
            said = Say("stopping", f"told to by {asked.why}", {"epoch": token.epoch})
            if asked.completed:  # a successor would run the whole script again
                return state.now(Stopping(token)), (said, RecordEnd(token, Status.FINISHED, "the script ended"))
            return state.now(Stopping(token)), (said, *_end_in_order(token))
        case _:
            said = Say("stopping", f"told to by {asked.why}", {"epoch": None})
            end = _end_in_order(None) if asked.holds_lock else (EndByHandler(), Exit())
            return state.now(Stopping()), (said, *end)


def _end_in_order(token: Token | None) -> tuple[Command, ...]:
    suspend = () if token is None else (SuspendDriver(),)
    return (SeekSuccessor(), *suspend, EndByHandler(), HandOverAndExit())


def _conflict(state: State, met: ConflictingWorkload | ConflictingRun) -> Decision:
    if not isinstance(state.leadership, Standby | Claiming):
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


# --- documents that cannot be reached ---------------------------------------------------------------------------------


def _of_documents(state: State, given: CommandDue | Unreachable) -> Decision:
    """Nothing is decided while documents cannot be reached; meanwhile the gate's deadlines and the kill timer hold."""
    match given, state.leadership:
        case Unreachable(), Stopping(token):
            return state, _end_in_order(token)
        case Unreachable(command), _:
            return state, (Retry(command),)
        case CommandDue(command), leadership if _still_wanted(leadership, command):
            return state, (command,)
        case _:
            return state, ()


def _still_wanted(leadership: Leadership, command: Documented) -> bool:
    """Whether what ``command`` was meant for still holds: the lead may have been lost, and won again, meanwhile."""
    match command, leadership:
        case BeginAttempt(grant, _, _, Purpose.TAKEOVER), Claiming(held):
            return grant is held
        case BeginAttempt(grant, _, above), Leading(held, token):
            return grant is held and above == token
        case RecordFailure(token) | RecordEnd(token), Leading(_, current):
            return token == current
        case _:
            return False
