"""What follows from what a driver says, and from its end: the part of ``lifecycle.step`` that is about drivers. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from understudy.ha.job import Status
from understudy.protocol.messages import ClaimRefused, Drained, Held, Message, RehearsalReport, Saved, StaleSnapshot
from understudy.protocol.token import Token
from understudy.supervisor import restart
from understudy.supervisor.claims import refused_claim
from understudy.supervisor.commands import (
    BeginAttempt,
    Command,
    Decision,
    Fail,
    FindSuccessor,
    HandleReport,
    NoteStandbyEnded,
    Publish,
    Purpose,
    RaiseLock,
    RecordEnd,
    Say,
    StartDriver,
    StartStandby,
    TerminateAndReap,
)
from understudy.supervisor.drain_decisions import drained
from understudy.supervisor.driver_death import driver_died
from understudy.supervisor.driver_end import Completed, Failed, Refused
from understudy.supervisor.inputs import DriverExited, DriverMessage, RestartDue, StandbyStale, StandbyStartDue
from understudy.supervisor.request_decisions import held
from understudy.supervisor.savepoint_decisions import saved
from understudy.supervisor.state import Claiming, Ended, Leading, Standby, State


def of_the_driver(
    state: State, given: DriverMessage | DriverExited | StandbyStartDue | StandbyStale | RestartDue
) -> Decision:
    """Decide about the driver. Inputs about one that was replaced meanwhile change nothing."""
    match given, state.leadership:
        case DriverMessage(driver, message), _ if driver == state.driver:
            return _message(state, message)
        case DriverExited(driver, end), Leading(_, token) if driver == state.driver:
            return _leader_exited(replace(state, driver=None), token, end)
        case DriverExited(driver, end, leader), Standby() | Claiming() if driver == state.driver:
            return _standby_exited(replace(state, driver=None), end, leader)
        # guard: one-driver
        case StandbyStartDue(low_priority, because), Standby() | Claiming() if state.driver is None:
            begun = state.with_next_driver()
            return begun, (StartDriver(begun.started, low_priority, because),)
        case StandbyStale(driver, due, str(leader)), Standby(dead) if driver == state.driver and leader != dead:
            again = Say("restart-stale-standby", due.reason)
            return replace(state, driver=None), (again, TerminateAndReap(), Publish(), StartStandby(because=due))
        case RestartDue(expected), Leading(_, token) if token == expected and state.driver is None:
            # Another replica may have rehearsed meanwhile.
            return state, (FindSuccessor(restarts=True, earlier_generation=True),)
        case _:
            return state, ()


def _message(state: State, message: Message) -> Decision:
    match message, state.leadership:
        case StaleSnapshot(reason), Leading(grant, token, reloaded) as leads:
            if reloaded:
                return state, ()
            # What other standbys have rehearsed is as old as what has just failed here. At no cost to the restarts that are left.
            again = replace(state, leadership=replace(leads, reloaded=True), driver=None)
            begin = BeginAttempt(grant, token.epoch, token, Purpose.RESTART)
            return again, (Say("restart-for-stale-snapshot", reason, {"epoch": token.epoch}), TerminateAndReap(), begin)
        case ClaimRefused() as refused, _:
            if (error := refused_claim(refused)) is not None:
                return state.now(Ended()), (Fail(error),)
            if isinstance(before := state.leadership, Leading):
                return state, (RaiseLock(before.grant, Token.from_int(refused.token).epoch),)
            return state, ()
        case Held() as said, _:
            return held(state, said)
        case Drained() as said, _:
            return drained(state, said)
        case Saved() as said, _:
            return saved(state, said)
        case RehearsalReport(rehearsed=True), _:
            return replace(state, standby_failures=0), (HandleReport(message),)
        case _:
            return state, (HandleReport(message),)


def _leader_exited(state: State, token: Token, end: Completed | Refused | Failed) -> Decision:
    match end:
        case Completed() if isinstance(state.leadership, Leading) and state.leadership.drains:
            reason = "the script ended before its queries were drained"
            return state, (TerminateAndReap(), *driver_died(token, reason))
        case Completed(reason):
            return state, (TerminateAndReap(), RecordEnd(token, Status.FINISHED, reason))
        case Refused(error):
            return state, (TerminateAndReap(), Fail(error))
        case Failed(reason, overdue):
            return state, (TerminateAndReap(), *driver_died(token, reason, overdue=overdue))
        case _:
            assert_never(end)


def _standby_exited(state: State, end: Completed | Refused | Failed, leader: str | None) -> Decision:
    reap = TerminateAndReap(by_itself=True)
    if isinstance(end, Refused) and leader is None:
        return state.now(Ended()), (reap, Fail(end.error))
    return another_standby(state, end.reason, reap)


def another_standby(state: State, reason: str, *first: Command) -> Decision:
    """A standby's driver is gone, or could not be started: count it, say it, and start another one after a pause."""
    failures = state.standby_failures + 1
    return replace(state, driver=None, standby_failures=failures), (
        *first,
        NoteStandbyEnded(reason),
        Say("standby-ended", reason, {"failures": failures}),
        Publish(),
        StartStandby(restart.backoff(failures, state.rules.restart.delay)),
    )
