"""What a replica decides while its job is drained, row by row, and what holds for all of these decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.lifecycle_table import (
    CANCEL,
    CLAIMING,
    DRAIN,
    GRANT,
    JOB,
    LEADING,
    NOW,
    REQUESTS,
    ROOTS,
    RULES,
    STANDBY,
    TOKEN,
    TOKENS,
    name,
    transitions,
)
from understudy.ha.job import Status
from understudy.ha.requests import Result
from understudy.protocol.messages import Drained, Held
from understudy.supervisor.commands import (
    AnswerRequest,
    DrainDriver,
    HoldDriver,
    LetDriverGo,
    Purpose,
    RecordDraining,
    RecordEnd,
)
from understudy.supervisor.driver_end import Completed, Failed
from understudy.supervisor.inputs import (
    AttemptBegun,
    CommandDue,
    DrainingRecorded,
    DriverExited,
    DriverMessage,
    Event,
    JobChanged,
    Outcome,
    RequestOverdue,
    StopRequested,
    SuspensionRecorded,
)
from understudy.supervisor.lifecycle import step
from understudy.supervisor.state import Claiming, Leading, State

SUSPEND = REQUESTS[0]
COLD = State(RULES, Claiming(GRANT))
HOLDING = State(RULES, Leading(GRANT, TOKEN, request=DRAIN), 1, 1, TOKEN, taken_up=DRAIN.id)
DRAINING = State(RULES, Leading(GRANT, TOKEN, request=DRAIN, drains=True), 1, 1, TOKEN, taken_up=DRAIN.id)
AGAIN = State(RULES, Leading(GRANT, TOKEN, request=DRAIN, drains=True), None, 1, TOKEN, taken_up=DRAIN.id)
HELD_BY_A_DEAD_DRIVER = replace(HOLDING, driver=None)
NO_DRIVER_YET = State(RULES, Leading(GRANT, TOKEN), None, 1, TOKEN)
SUSPENDS = State(RULES, Leading(GRANT, TOKEN, request=SUSPEND, suspends=True), 1, 1, TOKEN, taken_up=SUSPEND.id)
BACK = "Say NoteLeadershipLost TerminateAndReap ReleaseLock Publish StartStandby"
DIED = "TerminateAndReap Say RecordFailure"

ROWS: list[tuple[State, Event | Outcome, str, str]] = [
    # before the document says so
    (LEADING, JobChanged(Status.RUNNING, DRAIN), "Leading", "Say HoldDriver"),
    (HOLDING, JobChanged(Status.RUNNING, DRAIN), "Leading", ""),
    (HOLDING, JobChanged(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (
        HOLDING,
        JobChanged(Status.RUNNING, CANCEL),
        "Leading",
        "Say LetDriverGo Say TerminateAndReap ClearExecutors RecordEnd",
    ),
    (HOLDING, RequestOverdue(DRAIN.id), "Leading", "Say LetDriverGo AnswerRequest"),
    (HOLDING, DriverMessage(1, Held(DRAIN.id, "", roots=list(ROOTS))), "Leading", "RecordDraining"),
    (HOLDING, DriverMessage(1, Held(DRAIN.id, "query flights")), "Leading", "Say LetDriverGo AnswerRequest"),
    (HOLDING, DriverMessage(1, Held(DRAIN.id, "no", refused=True)), "Leading", "Say AnswerRequest"),
    (LEADING, DriverMessage(1, Held(DRAIN.id, "", roots=list(ROOTS))), "Leading", "LetDriverGo"),
    (LEADING, DriverMessage(1, Drained(DRAIN.id, "")), "Leading", ""),
    (HOLDING, DriverMessage(1, Drained(DRAIN.id, "")), "Leading", ""),
    # the document
    (DRAINING, DrainingRecorded(Status.DRAINING, ROOTS), "Leading", "Say DrainDriver"),
    (DRAINING, DrainingRecorded(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (STANDBY, DrainingRecorded(Status.DRAINING, ROOTS), "Standby", ""),
    (DRAINING, CommandDue(RecordDraining(TOKEN, DRAIN.id, ROOTS)), "Leading", "RecordDraining"),
    (LEADING, CommandDue(RecordDraining(TOKEN, DRAIN.id, ROOTS)), "Leading", ""),
    # it cannot be taken back
    (DRAINING, JobChanged(Status.RUNNING), "Leading", ""),
    (DRAINING, JobChanged(Status.DRAINING, DRAIN), "Leading", ""),
    (DRAINING, RequestOverdue(DRAIN.id), "Leading", ""),
    (DRAINING, JobChanged(Status.DRAINING, CANCEL), "Leading", "Say TerminateAndReap ClearExecutors RecordEnd"),
    (STANDBY, JobChanged(Status.DRAINING, DRAIN), "Standby", ""),
    # its end
    (DRAINING, DriverMessage(1, Drained(DRAIN.id, "")), "Leading", "TerminateAndReap ClearExecutors RecordEnd"),
    (DRAINING, DriverMessage(1, Drained(DRAIN.id, "a query has failed")), "Leading", DIED),
    (DRAINING, DriverMessage(1, Drained("older", "")), "Leading", ""),
    (DRAINING, DriverExited(1, Completed()), "Leading", DIED),
    (DRAINING, DriverExited(1, Failed("it failed")), "Leading", DIED),
    # a leader that goes on with it
    (CLAIMING, AttemptBegun(TOKEN, Purpose.TAKEOVER, DRAIN), "Leading", "ClearExecutors OpenGate Say HoldDriver"),
    (COLD, AttemptBegun(TOKEN, Purpose.TAKEOVER, DRAIN), "Leading", "ClearExecutors StartLeader Say HoldDriver"),
    (
        CLAIMING,
        AttemptBegun(TOKEN, Purpose.TAKEOVER, DRAIN, ROOTS),
        "Leading",
        "ClearExecutors OpenGate Say DrainDriver",
    ),
    (
        COLD,
        AttemptBegun(TOKEN, Purpose.TAKEOVER, DRAIN, ROOTS),
        "Leading",
        "ClearExecutors StartLeader Say DrainDriver",
    ),
    (AGAIN, AttemptBegun(TOKENS[1], Purpose.RESTART, DRAIN, ROOTS), "Leading", "Say StartLeader Say DrainDriver"),
    # another request stands there
    (
        CLAIMING,
        AttemptBegun(TOKEN, Purpose.TAKEOVER, SUSPEND, ROOTS),
        "Leading",
        "ClearExecutors OpenGate Say DrainDriver AnswerRequest",
    ),
    (
        AGAIN,
        AttemptBegun(TOKENS[1], Purpose.RESTART, SUSPEND, ROOTS),
        "Leading",
        "Say StartLeader Say DrainDriver AnswerRequest",
    ),
    (SUSPENDS, SuspensionRecorded(Status.DRAINING), "Standby", BACK),
    # the driver died while it was held, and the document said nothing yet
    (
        HELD_BY_A_DEAD_DRIVER,
        AttemptBegun(TOKENS[1], Purpose.RESTART, DRAIN),
        "Leading",
        "Say StartLeader Say HoldDriver",
    ),
    (
        HELD_BY_A_DEAD_DRIVER,
        AttemptBegun(TOKENS[1], Purpose.RECLAIM, DRAIN),
        "Leading",
        "Say StartLeader Say HoldDriver",
    ),
    (NO_DRIVER_YET, AttemptBegun(TOKENS[1], Purpose.RECLAIM, DRAIN), "Leading", "Say StartLeader Say HoldDriver"),
    (HOLDING, AttemptBegun(TOKENS[1], Purpose.RECLAIM, DRAIN), "Leading", "ReclaimRoots"),
    (DRAINING, AttemptBegun(TOKENS[1], Purpose.RECLAIM, DRAIN, ROOTS), "Leading", "ReclaimRoots"),
    (
        CLAIMING,
        AttemptBegun(TOKEN, Purpose.TAKEOVER, CANCEL, ROOTS),
        "Leading",
        "Say TerminateAndReap ClearExecutors RecordEnd",
    ),
    # told to stop
    (DRAINING, StopRequested("SIGTERM"), "Stopping", "Say SeekSuccessor QuiesceDriver EndByHandler HandOverAndExit"),
    (
        DRAINING,
        StopRequested("SIGTERM", completed=True),
        "Stopping",
        "Say SeekSuccessor QuiesceDriver EndByHandler HandOverAndExit",
    ),
]


@pytest.mark.parametrize(("state", "given", "then", "does"), ROWS)
def test_table(state: State, given: Event | Outcome, then: str, does: str) -> None:
    after, commands = step(state, given, NOW)
    assert (name(after.leadership), " ".join(map(name, commands))) == (then, does)


def test_what_is_refused_changes_nothing_and_says_why() -> None:
    asked = step(LEADING, JobChanged(Status.RUNNING, DRAIN), NOW)[1]
    assert HoldDriver(DRAIN.id, DRAIN.timeout, drain=True) in asked
    after, commands = step(HOLDING, DriverMessage(1, Held(DRAIN.id, "it has no boundary", refused=True)), NOW)
    assert commands[-1] == AnswerRequest(TOKEN, DRAIN.id, Result.REFUSED, "it has no boundary")
    assert after.leadership == Leading(GRANT, TOKEN)


def test_a_job_that_is_draining_without_its_request_is_drained_all_the_same() -> None:
    after, commands = step(CLAIMING, AttemptBegun(TOKEN, Purpose.TAKEOVER, None, ROOTS), NOW)
    assert commands[-1] == DrainDriver("", ROOTS)
    assert step(after, DriverMessage(1, Drained("", "")), NOW)[1][-1] == RecordEnd(TOKEN, JOB.status, "drained")


def test_a_job_that_is_draining_is_drained_on_although_a_request_to_suspend_it_stands_there() -> None:
    """Suspended, it would be gone on from when it is resumed."""
    after, commands = step(CLAIMING, AttemptBegun(TOKEN, Purpose.TAKEOVER, SUSPEND, ROOTS), NOW)
    assert commands[-2:] == (
        DrainDriver("", ROOTS),
        AnswerRequest(TOKEN, SUSPEND.id, Result.REFUSED, "the job is DRAINING"),
    )
    assert step(after, DriverMessage(1, Drained("", "")), NOW)[1][-1] == RecordEnd(TOKEN, JOB.status, "drained")


def test_a_driver_is_drained_only_once_the_document_says_so() -> None:
    for _, given, after, commands in transitions():
        if any(isinstance(each, DrainDriver) for each in commands):
            assert isinstance(given, DrainingRecorded | AttemptBegun), given
            assert isinstance(after.leadership, Leading), given
            assert after.leadership.drains, given


def test_what_drains_is_not_let_go() -> None:
    for before, given, after, commands in transitions():
        if isinstance(before.leadership, Leading) and before.leadership.drains:
            let_go = any(isinstance(each, LetDriverGo) for each in commands)
            assert not let_go or isinstance(given, DrainingRecorded), given
            assert not let_go or (isinstance(after.leadership, Leading) and not after.leadership.drains), given
