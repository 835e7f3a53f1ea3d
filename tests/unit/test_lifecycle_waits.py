"""What a leader waits for comes: every order of a few events, in which documents are reached or not, is played to its end.

A timer or a command that is carried out again may be about a token or a driver that is not the one of now. Where nothing that still counts is
left, a leader without a driver leads for ever, and no other replica may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.lifecycle_table import CANCEL, GRANT, JOB, NOW, REQUESTS, ROOTS, RULES, SUSPEND, TOKEN, TOKENS, name
from understudy.ha.job import Status
from understudy.ha.requests import Request
from understudy.protocol.messages import ClaimRefused, Held, Saved, StaleSnapshot
from understudy.protocol.token import Token
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    Command,
    Documented,
    FindReplica,
    FindSuccessor,
    Purpose,
    RaiseLock,
    RecordDraining,
    RecordEnd,
    RecordFailure,
    RecordSuspended,
    Retry,
    ScheduleRestart,
)
from understudy.supervisor.driver_end import Completed, Failed
from understudy.supervisor.inputs import (
    AttemptBegun,
    CommandDue,
    DriverExited,
    DriverMessage,
    Event,
    FailureRecorded,
    JobChanged,
    JobEndRecorded,
    LockRaised,
    Outcome,
    ReplicaLookedFor,
    RequestAnswered,
    RestartDue,
    SuccessorLookedFor,
    SuspensionRecorded,
    Unreachable,
)
from understudy.supervisor.lifecycle import step
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.state import Leading, Rules, State

#: So many events, each dealt with to its end.
EVENTS = 6
HAND_OVER = REQUESTS[2]

BEGIN = State(Rules(replace(RULES.restart, attempts=100)), Leading(GRANT, TOKEN), driver=1, started=1, last_token=TOKEN)
#: What comes later by itself.
Pending = tuple[Event, ...]


def outcomes(command: Command) -> Iterator[Event | Outcome]:
    """What ``command`` may come to, as an input of ``step``; nothing for one without an outcome."""
    if isinstance(command, Documented):
        yield Unreachable(command)
    match command:
        case BeginAttempt(_, epoch, above, purpose):
            token = Token(epoch, above.attempt + 1 if above.epoch == epoch else 1)
            yield from (AttemptBegun(token, purpose, asked) for asked in (None, SUSPEND, CANCEL))
        case RecordFailure(_, reason):
            yield FailureRecorded((NOW,), reason)
        case RecordEnd():
            yield JobEndRecorded(JOB)
        case RecordSuspended():
            yield from (SuspensionRecorded(status) for status in (Status.SUSPENDED, Status.RUNNING))
        case AnswerRequest():
            yield RequestAnswered()
        case FindSuccessor(pause, restarts):
            yield SuccessorLookedFor(None, pause, restarts)
        case FindReplica():
            yield ReplicaLookedFor(None, "no standby has rehearsed")
        case RaiseLock(_, epoch):
            yield LockRaised(epoch + 1)


def after(state: State, given: Event | Outcome, pending: Pending) -> Iterator[tuple[State, Pending]]:
    """Where ``given`` and all that comes of it at once may lead."""
    state, commands = step(state, given, NOW)
    for command in commands:
        match command:
            case Retry(again, driver):
                pending = (*pending, CommandDue(again, driver))
            case ScheduleRestart(_, token):
                pending = (*pending, RestartDue(token))
    inputs = [list(found) for command in commands if (found := tuple(outcomes(command)))]
    assert len(inputs) <= 1, "one command has an outcome, and stands last"
    if not inputs:
        yield state, pending
    for outcome in inputs[0] if inputs else ():
        yield from after(state, outcome, pending)


def events(state: State) -> Iterator[Event]:
    leads = state.leadership
    assert isinstance(leads, Leading)
    yield from (JobChanged(Status.RUNNING, asked, token=leads.token) for asked in (None, SUSPEND, CANCEL, HAND_OVER))
    if state.driver is None:
        return
    yield DriverMessage(state.driver, ClaimRefused("/root", "higher-token", int(Token(leads.token.epoch + 1, 1))))
    yield DriverMessage(state.driver, StaleSnapshot("a file is gone"))
    yield from (DriverExited(state.driver, end) for end in (Failed("it failed"), Completed()))
    if leads.request is not None:
        yield DriverMessage(state.driver, Held(leads.request.id, ""))


def counts(state: State, given: Event) -> bool:
    return step(state, given, NOW) != (state, ())


def histories() -> Iterator[tuple[State, Pending]]:
    """Each state of a leader that a few events lead to, with what is still to come."""
    seen: set[tuple[State, Pending]] = {(BEGIN, ())}
    latest: set[tuple[State, Pending]] = {(BEGIN, ())}
    for _ in range(EVENTS):
        found = set()
        for state, pending in latest:
            for given in (*events(state), *pending):
                left = list(pending)
                if given in left:
                    left.remove(given)
                for then, to_come in after(state, given, tuple(left)):
                    if isinstance(then.leadership, Leading):
                        found.add((then, tuple(sorted(to_come, key=repr))))
        latest = found - seen
        seen |= latest
    yield from seen


def test_a_leader_without_a_driver_and_one_that_records_a_suspension_have_something_that_still_counts_to_wait_for() -> (
    None
):
    for state, pending in histories():
        leads = state.leadership
        assert isinstance(leads, Leading)
        if state.driver is None or leads.suspends:
            assert any(counts(state, each) for each in pending), (state, pending)


@pytest.mark.parametrize("asked", [SUSPEND, CANCEL], ids=lambda asked: asked.action)
def test_what_ends_the_driver_is_heard_where_there_is_none_and_none_comes_soon(asked: Request) -> None:
    """The pause before a restart may be ten minutes. What is carried out again comes after a retry period, and an attempt takes up the request."""
    new = JobChanged(Status.RUNNING, replace(asked, id="new"))
    for state, pending in histories():
        if state.driver is None:
            soon = any(isinstance(each, CommandDue) and counts(state, each) for each in pending)
            assert soon or counts(state, new), (state, pending)


def test_a_token_that_is_raised_late_loses_no_end_of_a_script() -> None:
    """The driver has met a higher claim, and the documents were not reached; it came to its end meanwhile."""
    state, (raise_lock,) = step(BEGIN, DriverMessage(1, ClaimRefused("/root", "higher-token", int(Token(1, 9)))), NOW)
    assert raise_lock == RaiseLock(GRANT, 1)
    state, (reclaim,) = step(state, LockRaised(2), NOW)
    assert isinstance(reclaim, BeginAttempt)
    state, _ = step(state, Unreachable(reclaim), NOW)
    state, (*_, end) = step(state, DriverExited(1, Completed()), NOW)
    assert isinstance(end, RecordEnd)
    state, _ = step(state, Unreachable(end), NOW)
    assert step(state, CommandDue(reclaim), NOW) == (state, ()), "it would make the end one of a former token"
    assert step(state, CommandDue(end), NOW)[1] == (end,)


@pytest.mark.parametrize(
    "hold",
    [
        RecordSuspended(TOKEN, SUSPEND.id, between_batches=True),
        RecordDraining(TOKEN, SUSPEND.id, ROOTS),
        RecordBoundary(TOKEN, SUSPEND.id),
        RecordSavepoint(TOKEN, Saved(SUSPEND.id, 7, ""), suspend=False),
    ],
    ids=name,
)
def test_what_a_driver_holds_is_recorded_under_the_token_that_it_has_by_then(
    hold: RecordSuspended | RecordDraining | RecordBoundary | RecordSavepoint,
) -> None:
    """Its claim was raised before the documents were reached again; else it would hold for ever."""
    holding = replace(BEGIN, leadership=Leading(GRANT, TOKEN, request=SUSPEND, suspends=True), taken_up=SUSPEND.id)
    state, (retry,) = step(holding, Unreachable(hold), NOW)
    assert retry == Retry(hold, driver=1)
    state, _ = step(state, AttemptBegun(TOKENS[1], Purpose.RECLAIM, SUSPEND), NOW)
    assert step(state, CommandDue(hold, driver=1), NOW)[1] == (replace(hold, token=TOKENS[1]),)
    again = replace(state, driver=2, started=2)
    assert step(again, CommandDue(hold, driver=1), NOW)[1] == (), "the next driver may be in the middle of a batch"
