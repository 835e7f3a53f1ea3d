"""What a replica decides about requests to its job, row by row, and what holds for all of these decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.lifecycle_table import (
    BETWEEN_DRIVERS,
    CLAIMING,
    GRANT,
    JOB,
    LEADING,
    NOW,
    REQUESTS,
    RULES,
    STANDBY,
    SUSPENDED,
    TOKEN,
    TOKENS,
    WARM,
    name,
    transitions,
)
from understudy.errors import IdentityConflict
from understudy.ha.job import Status
from understudy.ha.requests import Request, Result
from understudy.ha.runs import Runs
from understudy.protocol.messages import Held
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    Exit,
    Fail,
    LetDriverGo,
    OpenGate,
    Purpose,
    RecordEnd,
    RecordSuspended,
    ReleaseLock,
    StartDriver,
    StartLeader,
    StartStandby,
    StopContending,
    TerminateAndReap,
)
from understudy.supervisor.inputs import (
    AttemptBegun,
    AttemptTooLate,
    CommandDue,
    DrainingRecorded,
    DriverMessage,
    Event,
    JobChanged,
    JobEndRecorded,
    LeadershipGranted,
    Outcome,
    ReplicaLookedFor,
    RequestAnswered,
    RequestOverdue,
    RestartDue,
    RunEnded,
    SavepointRecorded,
    StandbyStartDue,
    StopRequested,
    SuccessorLookedFor,
    SuspensionRecorded,
)
from understudy.supervisor.lifecycle import step
from understudy.supervisor.state import Claiming, Leading, State, Suspended

SUSPEND, CANCEL, HAND_OVER, UNKNOWN, DRAIN, SAVEPOINT, *_ = REQUESTS
ANOTHER_DRAINS = replace(JOB, status=Status.DRAINING, runs=Runs("run-2"))
SUSPENDING = State(RULES, Leading(GRANT, TOKEN, request=SUSPEND), 1, 1, TOKEN, taken_up=SUSPEND.id)
RECORDING = State(RULES, Leading(GRANT, TOKEN, request=SUSPEND, suspends=True), 1, 1, TOKEN, taken_up=SUSPEND.id)
HANDS_OVER = State(RULES, Leading(GRANT, TOKEN, request=HAND_OVER), 1, 1, TOKEN, taken_up=HAND_OVER.id)
IDLE = State(RULES, Suspended(), started=1)
DRAINS = State(RULES, Leading(GRANT, TOKEN, request=DRAIN, drains=True), 1, 1, TOKEN, taken_up=DRAIN.id)
SAVES = State(RULES, Leading(GRANT, TOKEN, request=SAVEPOINT, saves=True), 1, 1, TOKEN, taken_up=SAVEPOINT.id)
PAUSES = State(RULES, Leading(GRANT, TOKEN, pauses=True), None, 1, TOKEN)
ENDS = "Say TerminateAndReap ClearExecutors RecordEnd"

ROWS: list[tuple[State, Event | Outcome, str, str]] = [
    # requests
    (LEADING, JobChanged(Status.RUNNING, SUSPEND), "Leading", "Say HoldDriver"),
    (BETWEEN_DRIVERS, JobChanged(Status.RUNNING, SUSPEND), "Leading", ""),
    (PAUSES, JobChanged(Status.RUNNING, SUSPEND), "Leading", "BeginAttempt"),
    (PAUSES, JobChanged(Status.RUNNING, CANCEL), "Leading", "BeginAttempt"),
    (PAUSES, JobChanged(Status.RUNNING, HAND_OVER), "Leading", "Say FindReplica"),
    (PAUSES, JobChanged(Status.RUNNING, UNKNOWN), "Leading", "Say AnswerRequest"),
    (PAUSES, JobChanged(Status.RUNNING, DRAIN), "Leading", ""),
    (PAUSES, JobChanged(Status.RUNNING, SAVEPOINT), "Leading", ""),
    (PAUSES, JobChanged(Status.RUNNING), "Leading", ""),
    (PAUSES, SuccessorLookedFor(None, 0.0, True), "Leading", "BeginAttempt"),
    (LEADING, JobChanged(Status.RUNNING, CANCEL), "Leading", "Say TerminateAndReap ClearExecutors RecordEnd"),
    (LEADING, JobChanged(Status.RUNNING, HAND_OVER), "Leading", "Say FindReplica"),
    (LEADING, JobChanged(Status.RUNNING, UNKNOWN), "Leading", "Say AnswerRequest"),
    (LEADING, JobChanged(Status.RUNNING), "Leading", ""),
    (SUSPENDING, JobChanged(Status.RUNNING, SUSPEND), "Leading", ""),
    (
        SUSPENDING,
        JobChanged(Status.RUNNING, CANCEL),
        "Leading",
        "Say LetDriverGo Say TerminateAndReap ClearExecutors RecordEnd",
    ),
    (SUSPENDING, JobChanged(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (RECORDING, JobChanged(Status.RUNNING), "Leading", ""),
    (RECORDING, RequestOverdue(SUSPEND.id), "Leading", ""),
    (RECORDING, JobChanged(Status.RUNNING, HAND_OVER), "Leading", ""),
    (RECORDING, JobChanged(Status.SUSPENDED, token=TOKENS[1]), "Leading", ""),
    (
        RECORDING,
        JobChanged(Status.SUSPENDED, token=TOKEN),
        "Suspended",
        "Say NoteLeadershipLost TerminateAndReap ClearExecutors ReleaseLock NoteSuspended Publish",
    ),
    # it has ended under our token
    (RECORDING, SuspensionRecorded(Status.CANCELED), "Leading", ENDS),
    (RECORDING, SuspensionRecorded(Status.FINISHED), "Leading", ENDS),
    (DRAINS, DrainingRecorded(Status.CANCELED), "Leading", ENDS),
    (SAVES, SavepointRecorded("the job runs on", Status.CANCELED), "Leading", ENDS),
    (LEADING, JobChanged(Status.CANCELED, token=TOKEN), "Leading", ENDS),
    (RECORDING, JobChanged(Status.CANCELED, token=TOKEN), "Leading", ENDS),
    (SUSPENDING, JobChanged(Status.CANCELED, token=TOKEN), "Leading", ENDS),
    (BETWEEN_DRIVERS, JobChanged(Status.FINISHED, token=TOKEN), "Leading", ENDS),
    (LEADING, JobChanged(Status.CANCELED, token=TOKENS[1]), "Leading", ""),
    (STANDBY, JobChanged(Status.CANCELED, token=TOKEN), "Standby", ""),
    (STANDBY, JobChanged(Status.RUNNING, SUSPEND), "Standby", "ContendNow"),
    (CLAIMING, JobChanged(Status.RUNNING, SUSPEND), "Claiming", ""),
    (SUSPENDING, DriverMessage(1, Held(SUSPEND.id, "")), "Leading", "RecordSuspended"),
    (SUSPENDING, DriverMessage(1, Held(SUSPEND.id, "query flights")), "Leading", "Say LetDriverGo AnswerRequest"),
    (LEADING, DriverMessage(1, Held(SUSPEND.id, "")), "Leading", "LetDriverGo"),
    (LEADING, DriverMessage(1, Held(SUSPEND.id, "query flights")), "Leading", ""),
    (SUSPENDING, RequestOverdue(SUSPEND.id), "Leading", "Say LetDriverGo AnswerRequest"),
    (SUSPENDING, RequestOverdue("an earlier one"), "Leading", ""),
    (LEADING, RequestOverdue(SUSPEND.id), "Leading", ""),
    (
        SUSPENDING,
        SuspensionRecorded(Status.SUSPENDED),
        "Suspended",
        "Say NoteLeadershipLost TerminateAndReap ClearExecutors ReleaseLock NoteSuspended Publish",
    ),
    (SUSPENDING, SuspensionRecorded(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (RECORDING, CommandDue(RecordSuspended(TOKEN, SUSPEND.id, True)), "Leading", "RecordSuspended"),
    (LEADING, CommandDue(RecordSuspended(TOKEN, SUSPEND.id, True)), "Leading", ""),
    (
        State(RULES, Leading(GRANT, TOKEN, request=SUSPEND, writes=False, suspends=True), 1, 1, TOKEN),
        SuspensionRecorded(Status.RUNNING),
        "Standby",
        "Say NoteLeadershipLost TerminateAndReap ReleaseLock Publish StartStandby",
    ),
    (LEADING, CommandDue(AnswerRequest(TOKEN, "r", Result.REFUSED, "no")), "Leading", "AnswerRequest"),
    (LEADING, CommandDue(AnswerRequest(TOKENS[1], "r", Result.REFUSED, "no")), "Leading", "AnswerRequest"),
    (LEADING, RequestAnswered(), "Leading", ""),
    (
        HANDS_OVER,
        ReplicaLookedFor("other"),
        "HandingOver",
        "QuiesceDriver EndByHandler TerminateAndReap ReleaseLock",
    ),
    (HANDS_OVER, ReplicaLookedFor(None, "no standby has rehearsed"), "Leading", "AnswerRequest"),
    (HANDS_OVER, ReplicaLookedFor("other", completed=True), "Leading", "TerminateAndReap RecordEnd"),
    (HANDS_OVER, ReplicaLookedFor(None, "none", completed=True), "Leading", "TerminateAndReap RecordEnd"),
    (CLAIMING, AttemptBegun(TOKEN, Purpose.TAKEOVER, SUSPEND), "Leading", "Say RecordSuspended"),
    (
        CLAIMING,
        AttemptBegun(TOKEN, Purpose.TAKEOVER, CANCEL),
        "Leading",
        "Say TerminateAndReap ClearExecutors RecordEnd",
    ),
    (
        CLAIMING,
        AttemptBegun(TOKEN, Purpose.TAKEOVER, HAND_OVER),
        "Leading",
        "ClearExecutors OpenGate Say FindReplica",
    ),
    (BETWEEN_DRIVERS, AttemptBegun(TOKENS[1], Purpose.RESTART, SUSPEND), "Leading", "Say RecordSuspended"),
    (LEADING, AttemptBegun(TOKENS[1], Purpose.RECLAIM, SUSPEND), "Leading", "ReclaimRoots Say HoldDriver"),
    (SUSPENDING, AttemptBegun(TOKENS[1], Purpose.RECLAIM, SUSPEND), "Leading", "ReclaimRoots"),
    # a job that is SUSPENDED
    (STANDBY, JobChanged(Status.SUSPENDED), "Suspended", "TerminateAndReap NoteSuspended Publish"),
    (CLAIMING, AttemptTooLate(SUSPENDED), "Suspended", "TerminateAndReap ReleaseLock NoteSuspended Publish"),
    (
        LEADING,
        AttemptTooLate(SUSPENDED),
        "Suspended",
        "NoteLeadershipLost TerminateAndReap ReleaseLock NoteSuspended Publish",
    ),
    (IDLE, JobChanged(Status.SUSPENDED), "Suspended", ""),
    (IDLE, JobChanged(Status.RUNNING), "Standby", "Say NoteResumed Publish ContendNow StartStandby"),
    (IDLE, JobChanged(Status.SUSPENDED, other_run="run-2"), "Ended", "Fail"),
    (STANDBY, JobChanged(Status.SUSPENDED, other_run="run-2"), "Ended", "Fail"),
    # another run, which is DRAINING
    (IDLE, JobChanged(Status.DRAINING, DRAIN, other_run="run-2"), "Ended", "Fail"),
    (STANDBY, JobChanged(Status.DRAINING, DRAIN, other_run="run-2"), "Ended", "Fail"),
    (STANDBY, JobChanged(Status.DRAINING, CANCEL, other_run="run-2"), "Standby", ""),
    (CLAIMING, AttemptTooLate(ANOTHER_DRAINS), "Ended", "Fail"),
    (
        State(RULES, Claiming(GRANT), 1, 1, taken_up=HAND_OVER.id),
        AttemptBegun(TOKEN, Purpose.TAKEOVER, HAND_OVER),
        "Leading",
        "ClearExecutors OpenGate AnswerRequest",
    ),
    (STANDBY, JobChanged(Status.RUNNING), "Standby", "ContendNow"),
    (STANDBY, JobChanged(Status.SUSPENDED, warm=True), "Standby", ""),
    (CLAIMING, AttemptTooLate(WARM), "Standby", "TerminateAndReap ReleaseLock Publish StartStandby"),
    (
        SUSPENDING,
        SuspensionRecorded(Status.SUSPENDED, warm=True),
        "Standby",
        "Say NoteLeadershipLost TerminateAndReap ClearExecutors ReleaseLock Publish StartStandby",
    ),
    (IDLE, StandbyStartDue(low_priority=True), "Suspended", ""),
    (IDLE, LeadershipGranted(GRANT), "Claiming", "Say BeginAttempt"),
    (IDLE, RunEnded(JOB), "Ended", "Exit"),
    (IDLE, StopRequested("SIGTERM"), "Stopping", "Say EndByHandler Exit"),
]


@pytest.mark.parametrize(("state", "given", "then", "does"), ROWS)
def test_table(state: State, given: Event | Outcome, then: str, does: str) -> None:
    after, commands = step(state, given, NOW)
    assert (name(after.leadership), " ".join(map(name, commands))) == (then, does)


@pytest.mark.parametrize("asked", [SUSPEND, CANCEL], ids=lambda asked: asked.action)
def test_what_ends_the_driver_is_taken_up_once_in_the_pause_before_a_restart(asked: Request) -> None:
    state, commands = step(PAUSES, JobChanged(Status.RUNNING, asked), NOW)
    assert commands == (BeginAttempt(GRANT, TOKEN.epoch, TOKEN, Purpose.RESTART),)
    assert step(state, JobChanged(Status.RUNNING, asked), NOW) == (state, ()), "its attempt is under way"
    state, (*_, record) = step(state, AttemptBegun(TOKENS[2], Purpose.RESTART, asked), NOW)
    assert isinstance(record, RecordSuspended | RecordEnd)
    assert record.token == TOKENS[2]
    assert step(state, RestartDue(TOKEN), NOW) == (state, ())


def test_a_suspension_whose_driver_has_died_is_taken_up_again_before_the_next_one_starts() -> None:
    dead = replace(SUSPENDING, driver=None)
    state, _ = step(dead, SuccessorLookedFor(None, 600.0, restarts=False), NOW)
    state, commands = step(state, JobChanged(Status.RUNNING, SUSPEND), NOW)
    assert commands == (BeginAttempt(GRANT, TOKEN.epoch, TOKEN, Purpose.RESTART),)


def test_a_drain_that_has_begun_stays_one_in_the_pause_before_a_restart() -> None:
    """A script that ends then, told to stop, has not let out what its queries keep back."""
    state, _ = step(replace(DRAINS, driver=None), SuccessorLookedFor(None, 600.0, restarts=False), NOW)
    _, commands = step(state, StopRequested("SIGTERM", completed=True), NOW)
    assert not any(isinstance(each, RecordEnd) for each in commands)


@pytest.mark.parametrize(
    ("state", "given"),
    [(CLAIMING, AttemptTooLate(ANOTHER_DRAINS)), (STANDBY, JobChanged(Status.DRAINING, DRAIN, other_run="run-2"))],
    ids=["granted", "not granted"],
)
def test_a_replica_that_another_run_which_is_draining_keeps_from_leading_says_what_can_be_done(
    state: State, given: Event | Outcome
) -> None:
    _, (fail,) = step(state, given, NOW)
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, IdentityConflict)
    assert str(fail.error) == (
        "--run-id: run run-2 of this job is DRAINING. Start a replica with --run-id run-2, which drains it on; or understudy cancel ends it, "
        "with rows that stay back"
    )


def test_a_job_is_suspended_only_under_the_request_that_is_carried_out() -> None:
    for _, given, after, commands in transitions():
        for each in commands:
            if isinstance(each, RecordSuspended):
                assert isinstance(after.leadership, Leading), given
                assert after.leadership.request is not None, given
                assert (each.token, each.request) == (after.leadership.token, after.leadership.request.id), given


def test_nothing_starts_while_the_job_is_suspended() -> None:
    for _, given, after, commands in transitions():
        if isinstance(after.leadership, Suspended):
            assert after.driver is None, given
            assert not any(
                isinstance(each, StartDriver | StartLeader | OpenGate | StartStandby) for each in commands
            ), given


def test_a_leader_whose_job_was_canceled_behind_its_back_ends_its_driver_gives_the_lock_back_and_exits() -> None:
    """Its own SUSPENDED had landed unanswered, so the job was canceled as one without a leader."""
    canceled = replace(JOB, status=Status.CANCELED)
    state, commands = step(RECORDING, SuspensionRecorded(Status.CANCELED), NOW)
    assert state.driver is None
    assert commands[-1] == RecordEnd(TOKEN, Status.CANCELED, "the job is CANCELED")
    _, commands = step(state, JobEndRecorded(canceled), NOW)
    assert commands == (StopContending(), TerminateAndReap(), ReleaseLock(None), Exit(canceled))


def test_no_driver_is_let_go_on_where_the_job_has_ended() -> None:
    for before, given, after, commands in transitions():
        ended = isinstance(given, SuspensionRecorded | DrainingRecorded | SavepointRecorded) and given.status.terminal
        if ended and isinstance(before.leadership, Leading):
            assert LetDriverGo() not in commands, given
            assert after.driver is None, given
