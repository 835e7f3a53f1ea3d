"""What a replica decides while a savepoint is taken, row by row, and what holds for all of these decisions."""

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
    ROOTS,
    RULES,
    SAVED_FIRST,
    STANDBY,
    THEN_SUSPEND,
    TOKEN,
    TOKENS,
    name,
    transitions,
)
from tests.unit.lifecycle_table import SAVEPOINT as SAVE
from understudy.ha.job import Status
from understudy.ha.requests import Result
from understudy.protocol.messages import Held, Saved
from understudy.supervisor.commands import AnswerRequest, DrainDriver, HoldDriver, LetDriverGo, Purpose, RecordEnd
from understudy.supervisor.driver_end import Completed, Failed
from understudy.supervisor.inputs import (
    AttemptBegun,
    BoundaryRecorded,
    CommandDue,
    DrainingRecorded,
    DriverExited,
    DriverMessage,
    Event,
    JobChanged,
    JobEndRecorded,
    Outcome,
    RequestOverdue,
    SavepointRecorded,
    StopRequested,
    SuspensionRecorded,
)
from understudy.supervisor.lifecycle import step
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint, SaveDriver
from understudy.supervisor.state import Leading, State

HOLDING = State(RULES, Leading(GRANT, TOKEN, request=SAVE), 1, 1, TOKEN, taken_up=SAVE.id)
SAVING = State(RULES, Leading(GRANT, TOKEN, request=SAVE, saves=True), 1, 1, TOKEN, taken_up=SAVE.id)
COPYING = SAVING.now(Leading(GRANT, TOKEN, request=SAVE, saves=True, copies=True))
RECORDING = SAVING.now(Leading(GRANT, TOKEN, request=SAVE, saves=True, copies=False))
STAYS = State(RULES, Leading(GRANT, TOKEN, request=THEN_SUSPEND, saves=True), 1, 1, TOKEN, taken_up=THEN_SUSPEND.id)
SUSPENDING = STAYS.now(Leading(GRANT, TOKEN, request=THEN_SUSPEND, saves=True, suspends=True))
AGAIN = State(RULES, Leading(GRANT, TOKEN, request=SAVE, saves=True), None, 1, TOKEN, taken_up=SAVE.id)
DRAINS = State(RULES, Leading(GRANT, TOKEN, request=SAVED_FIRST), 1, 1, TOKEN, taken_up=SAVED_FIRST.id)
SAVES_FIRST = DRAINS.now(Leading(GRANT, TOKEN, request=SAVED_FIRST, saves=True, roots=ROOTS))
SAVED_AND_DRAINS = DRAINS.now(Leading(GRANT, TOKEN, request=SAVED_FIRST, saves=True, drains=True, roots=ROOTS))
DONE, FAILED = Saved(SAVE.id, 7, ""), Saved(SAVE.id, 7, "no space left")
DIED = "TerminateAndReap Say RecordFailure"

ROWS: list[tuple[State, Event | Outcome, str, str]] = [
    # until everything is held
    (LEADING, JobChanged(Status.RUNNING, SAVE), "Leading", "Say HoldDriver"),
    (HOLDING, JobChanged(Status.RUNNING, SAVE), "Leading", ""),
    (HOLDING, JobChanged(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (HOLDING, RequestOverdue(SAVE.id), "Leading", "Say LetDriverGo AnswerRequest"),
    (HOLDING, DriverMessage(1, Held(SAVE.id, "")), "Leading", "RecordBoundary"),
    (HOLDING, DriverMessage(1, Held(SAVE.id, "query flights")), "Leading", "Say LetDriverGo AnswerRequest"),
    (HOLDING, DriverMessage(1, Held(SAVE.id, "no", refused=True)), "Leading", "Say AnswerRequest"),
    # while files are copied
    (SAVING, BoundaryRecorded(7, "file:///s/7"), "Leading", "Say SaveDriver"),
    (SAVING, BoundaryRecorded(None, reason="withdrawn"), "Leading", "Say LetDriverGo"),
    (STANDBY, BoundaryRecorded(7, "file:///s/7"), "Standby", ""),
    # each step has its time, and a storage without an answer has no more
    (SAVING, RequestOverdue(SAVE.id), "Leading", "Say LetDriverGo AnswerRequest"),
    (SAVING, RequestOverdue("another"), "Leading", ""),
    (COPYING, RequestOverdue(SAVE.id), "Leading", ""),
    (COPYING, RequestOverdue(SAVE.id, copies=True), "Leading", "Say LetDriverGo AnswerRequest"),
    (COPYING, RequestOverdue("another", copies=True), "Leading", ""),
    (RECORDING, RequestOverdue(SAVE.id), "Leading", ""),
    (RECORDING, RequestOverdue(SAVE.id, copies=True), "Leading", ""),
    (HOLDING, RequestOverdue(SAVE.id, copies=True), "Leading", ""),
    (SUSPENDING, RequestOverdue(THEN_SUSPEND.id, copies=True), "Leading", ""),
    (SAVING, DriverMessage(1, Held(SAVE.id, "")), "Leading", ""),
    (SAVING, DriverMessage(1, DONE), "Leading", "LetDriverGo RecordSavepoint"),
    (SAVING, DriverMessage(1, FAILED), "Leading", "LetDriverGo RecordSavepoint"),
    (SAVING, DriverMessage(1, replace(DONE, request="another")), "Leading", ""),
    (HOLDING, DriverMessage(1, DONE), "Leading", ""),
    (STAYS, DriverMessage(1, replace(DONE, request=THEN_SUSPEND.id)), "Leading", "RecordSavepoint"),
    (STAYS, DriverMessage(1, replace(FAILED, request=THEN_SUSPEND.id)), "Leading", "LetDriverGo RecordSavepoint"),
    (SAVING, SavepointRecorded("it is rehearsed", Status.RUNNING), "Leading", "Say"),
    (SUSPENDING, SuspensionRecorded(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (SAVING, JobChanged(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (
        SAVING,
        JobChanged(Status.RUNNING, CANCEL),
        "Leading",
        "Say LetDriverGo Say TerminateAndReap ClearExecutors RecordEnd",
    ),
    (SAVING, CommandDue(RecordBoundary(TOKEN, SAVE.id)), "Leading", "RecordBoundary"),
    (SAVING, CommandDue(RecordSavepoint(TOKEN, DONE, suspend=False)), "Leading", "RecordSavepoint"),
    (LEADING, CommandDue(RecordSavepoint(TOKEN, DONE, suspend=False)), "Leading", ""),
    # before a drain
    (LEADING, JobChanged(Status.RUNNING, SAVED_FIRST), "Leading", "Say HoldDriver"),
    (DRAINS, DriverMessage(1, Held(SAVED_FIRST.id, "", roots=list(ROOTS))), "Leading", "RecordBoundary"),
    (DRAINS, DriverMessage(1, Held(SAVED_FIRST.id, "query flights")), "Leading", "Say LetDriverGo AnswerRequest"),
    (DRAINS, DriverMessage(1, Held(SAVED_FIRST.id, "no", refused=True)), "Leading", "Say AnswerRequest"),
    (SAVES_FIRST, BoundaryRecorded(7, "file:///s/7"), "Leading", "Say SaveDriver"),
    (SAVES_FIRST, JobChanged(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (SAVES_FIRST, DriverMessage(1, replace(DONE, request=SAVED_FIRST.id)), "Leading", "RecordSavepoint"),
    (SAVES_FIRST, DriverMessage(1, replace(FAILED, request=SAVED_FIRST.id)), "Leading", "LetDriverGo RecordSavepoint"),
    (SAVES_FIRST, SavepointRecorded("there is no savepoint", Status.RUNNING), "Leading", "Say"),
    (SAVED_AND_DRAINS, DrainingRecorded(Status.DRAINING, ROOTS), "Leading", "Say DrainDriver"),
    (SAVED_AND_DRAINS, DrainingRecorded(Status.RUNNING), "Leading", "Say LetDriverGo"),
    (SAVED_AND_DRAINS, JobChanged(Status.RUNNING), "Leading", ""),
    # what ends the driver
    (SAVING, DriverExited(1, Failed("it failed")), "Leading", DIED),
    (SAVING, DriverExited(1, Completed()), "Leading", "TerminateAndReap RecordEnd"),
    (SAVING, JobEndRecorded(JOB), "Stopping", "StopContending TerminateAndReap ReleaseLock Exit"),
    (SAVING, StopRequested("SIGTERM"), "Stopping", "Say SeekSuccessor QuiesceDriver EndByHandler HandOverAndExit"),
]


def commands_of(state: State, given: Event | Outcome) -> list[str]:
    return [name(each) for each in step(state, given, NOW)[1]]


@pytest.mark.parametrize(("state", "given", "after", "commands"), ROWS)
def test_a_row(state: State, given: Event | Outcome, after: str, commands: str) -> None:
    then, does = step(state, given, NOW)
    assert name(then.leadership) == after
    assert " ".join(map(name, does)) == commands


def test_without_a_place_it_is_refused_before_anything_is_held() -> None:
    bare = replace(LEADING, rules=replace(RULES, has_storage=False))
    _, commands = step(bare, JobChanged(Status.RUNNING, SAVE), NOW)
    assert [name(each) for each in commands] == ["Say", "AnswerRequest"]
    answer = commands[-1]
    assert isinstance(answer, AnswerRequest)
    assert answer.result is Result.REFUSED
    assert "--ha-storage" in answer.text


@pytest.mark.parametrize("state", [CLAIMING, AGAIN], ids=["successor", "restart in place"])
def test_what_a_dead_driver_has_begun_is_answered_as_failed_and_not_begun_again(state: State) -> None:
    purpose = Purpose.RESTART if state is AGAIN else Purpose.TAKEOVER
    token = TOKENS[2] if state is AGAIN else TOKEN
    after, commands = step(state, AttemptBegun(token, purpose, SAVE, saving=True), NOW)
    answer = commands[-1]
    assert isinstance(answer, AnswerRequest)
    assert (answer.result, answer.request) == (Result.FAILED, SAVE.id)
    assert not any(isinstance(each, HoldDriver) for each in commands)
    assert commands_of(after, JobChanged(Status.RUNNING, SAVE)) == [], "a look that is older than the answer"


@pytest.mark.parametrize("state", [CLAIMING, AGAIN], ids=["successor", "restart in place"])
def test_one_that_no_driver_has_begun_is_taken_up(state: State) -> None:
    purpose = Purpose.RESTART if state is AGAIN else Purpose.TAKEOVER
    token = TOKENS[2] if state is AGAIN else TOKEN
    _, commands = step(state, AttemptBegun(token, purpose, SAVE), NOW)
    assert HoldDriver(SAVE.id, SAVE.timeout, save=True) in commands


def test_once_it_is_suspended_the_driver_ends() -> None:
    after, commands = step(SUSPENDING, SuspensionRecorded(Status.SUSPENDED), NOW)
    assert name(after.leadership) == "Suspended"
    assert "TerminateAndReap" in map(name, commands)


def test_a_drain_takes_no_savepoint_where_none_is_wanted_or_there_is_no_place() -> None:
    bare = replace(LEADING, rules=replace(RULES, has_storage=False))
    for state, request in ((bare, SAVED_FIRST), (LEADING, DRAIN)):
        holding, commands = step(state, JobChanged(Status.RUNNING, request), NOW)
        assert commands[-1] == HoldDriver(request.id, request.timeout, drain=True, save=False)
        held = DriverMessage(1, Held(request.id, "", roots=list(ROOTS)))
        assert commands_of(holding, held) == ["RecordDraining"]


def test_what_is_drained_after_a_savepoint_is_what_the_driver_told_before_it() -> None:
    after, commands = step(SAVES_FIRST, DriverMessage(1, replace(DONE, request=SAVED_FIRST.id)), NOW)
    record = commands[-1]
    assert isinstance(record, RecordSavepoint)
    assert (record.drain, record.suspend) == (ROOTS, False)
    _, commands = step(after, DrainingRecorded(Status.DRAINING, ROOTS), NOW)
    assert commands[-1] == DrainDriver(SAVED_FIRST.id, ROOTS)


@pytest.mark.parametrize("state", [CLAIMING, AGAIN], ids=["successor", "restart in place"])
@pytest.mark.parametrize("saving", [True, False], ids=["begun", "not begun"])
def test_a_drain_whose_driver_died_is_taken_up_again_unless_its_savepoint_had_begun(state: State, saving: bool) -> None:
    again = replace(state, taken_up=SAVED_FIRST.id) if state is AGAIN else state
    purpose = Purpose.RESTART if state is AGAIN else Purpose.TAKEOVER
    token = TOKENS[2] if state is AGAIN else TOKEN
    _, commands = step(again, AttemptBegun(token, purpose, SAVED_FIRST, saving=saving), NOW)
    if saving:
        assert isinstance(commands[-1], AnswerRequest)
        assert commands[-1].result is Result.FAILED
    else:
        assert commands[-1] == HoldDriver(SAVED_FIRST.id, SAVED_FIRST.timeout, drain=True, save=True)


def test_files_are_copied_only_at_a_boundary_that_has_a_number() -> None:
    for state, given, _, commands in transitions():
        if any(isinstance(each, SaveDriver) for each in commands):
            assert isinstance(given, BoundaryRecorded)
            assert given.number is not None
            assert isinstance(state.leadership, Leading)
            assert state.leadership.saves


def test_a_job_is_suspended_at_a_savepoint_only_while_its_driver_still_holds() -> None:
    for _, given, _, commands in transitions():
        for each in commands:
            if isinstance(each, RecordSavepoint) and each.suspend:
                assert LetDriverGo() not in commands
                assert not each.saved.problem
            if isinstance(each, RecordEnd):
                assert not (isinstance(given, DriverMessage) and isinstance(given.message, Saved))
