"""The decisions of a replica, row by row, and what holds for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit import lifecycle_table
from tests.unit.lifecycle_table import (
    BETWEEN_DRIVERS,
    CLAIMING,
    DUE,
    GRANT,
    GRANTS,
    JOB,
    LEADING,
    NOW,
    RULES,
    STANDBY,
    TOKEN,
    TOKENS,
    leads_under,
    name,
    over,
    transitions,
)
from understudy.errors import IdentityConflict, SettingsError
from understudy.ha.job import Status
from understudy.protocol.messages import ClaimRefused, RehearsalReport, StaleSnapshot
from understudy.protocol.token import Token
from understudy.supervisor.commands import (
    BeginAttempt,
    Documented,
    Fail,
    FindSuccessor,
    HandOverAndExit,
    OpenGate,
    Purpose,
    RecordEnd,
    RecordFailure,
    ReleaseLock,
    Retry,
    Say,
    ScheduleRestart,
    StartDriver,
    StartLeader,
    StartStandby,
    TerminateAndReap,
)
from understudy.supervisor.driver_end import Completed, Failed, Refused
from understudy.supervisor.inputs import (
    AttemptBegun,
    AttemptLost,
    AttemptSuperseded,
    AttemptTooLate,
    CommandDue,
    ConflictingRun,
    DriverExited,
    DriverMessage,
    DriverNotStarted,
    Event,
    FailureRecorded,
    JobChanged,
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
    SuspensionRecorded,
    TokenOvertaken,
    Unreachable,
)
from understudy.supervisor.lifecycle import step
from understudy.supervisor.state import Claiming, Ended, HandingOver, Leading, Standby, State, Stopping

NO_DRIVER = State(RULES)
HANDING_OVER = State(RULES, HandingOver(), started=1, last_token=TOKEN)
STOPPING = State(RULES, Stopping(TOKEN), driver=1, started=1, last_token=TOKEN)
#: Its script has ended, which is not recorded yet.
FINISHING = State(RULES, Stopping(TOKEN, NOW + RULES.renew), driver=1, started=1, last_token=TOKEN)

FAILED, REFUSED = Failed("it failed"), Refused(SettingsError("a wrong setting"))
BEGIN = BeginAttempt(GRANT, 1, TOKEN, Purpose.RESTART)
FINISH = RecordEnd(TOKEN, Status.FINISHED, "the script ended")
IN_ORDER = "SeekSuccessor QuiesceDriver EndByHandler HandOverAndExit"
REHEARSED = RehearsalReport("job.py:1", rehearsed=True, how="live", rounds=1, seconds=0.1)

ROWS: list[tuple[State, Event | Outcome, str, str]] = [
    # the lock
    (STANDBY, LeadershipGranted(GRANT), "Claiming", "Say BeginAttempt"),
    (State(RULES, Standby("dead"), 1, 1), LeadershipGranted(GRANT), "Claiming", "BeginAttempt"),
    (LEADING, LeadershipGranted(GRANTS[1]), "Leading", ""),
    (LEADING, LeadershipRevoked("lost"), "Standby", "Say NoteLeadershipLost TerminateAndReap Publish StartStandby"),
    (CLAIMING, LeadershipRevoked("lost"), "Standby", ""),
    (State(RULES, Claiming(GRANT)), LeadershipRevoked("lost"), "Standby", "StartStandby"),
    (STANDBY, LeadershipRevoked("lost"), "Standby", ""),
    (LEADING, LockRaised(8), "Leading", "BeginAttempt"),
    (LEADING, LockRaised(None), "Leading", ""),
    (STANDBY, LockRaised(8), "Standby", ""),
    (HANDING_OVER, LockReleased(2.0), "Standby", "NoteLeadershipLost Publish StartStandby"),
    # an attempt
    (CLAIMING, AttemptBegun(TOKEN, Purpose.TAKEOVER), "Leading", "ClearExecutors OpenGate"),
    (State(RULES, Claiming(GRANT)), AttemptBegun(TOKEN, Purpose.TAKEOVER), "Leading", "ClearExecutors StartLeader"),
    (BETWEEN_DRIVERS, AttemptBegun(TOKENS[1], Purpose.RESTART), "Leading", "Say StartLeader"),
    (LEADING, AttemptBegun(TOKENS[1], Purpose.RECLAIM), "Leading", "ReclaimRoots"),
    (BETWEEN_DRIVERS, AttemptBegun(TOKENS[1], Purpose.RECLAIM), "Leading", "Say StartLeader"),
    (CLAIMING, AttemptLost(), "Standby", ""),
    (State(RULES, Claiming(GRANT)), AttemptLost(), "Standby", "StartStandby"),
    (LEADING, AttemptLost(), "Leading", ""),
    (CLAIMING, AttemptSuperseded("newer", 1), "HandingOver", "Say TerminateAndReap FindSuccessor"),
    (LEADING, AttemptSuperseded("newer", 1), "HandingOver", "Say TerminateAndReap FindSuccessor"),
    (CLAIMING, AttemptTooLate(JOB), "Stopping", "StopContending TerminateAndReap ReleaseLock Exit"),
    (LEADING, AttemptTooLate(JOB), "Stopping", "StopContending TerminateAndReap ReleaseLock Exit"),
    (BETWEEN_DRIVERS, DriverNotStarted("no space"), "Leading", "Say RecordFailure"),
    (STANDBY, DriverNotStarted("no space"), "Standby", "NoteStandbyEnded Say Publish StartStandby"),
    # the driver
    (NO_DRIVER, StandbyStartDue(low_priority=True), "Standby", "StartDriver"),
    (STANDBY, StandbyStartDue(low_priority=True), "Standby", ""),
    (BETWEEN_DRIVERS, StandbyStartDue(low_priority=True), "Leading", ""),
    (STANDBY, DriverMessage(1, REHEARSED), "Standby", "HandleReport"),
    (STANDBY, DriverMessage(7, REHEARSED), "Standby", ""),
    (LEADING, DriverMessage(1, StaleSnapshot("gone")), "Leading", "Say TerminateAndReap BeginAttempt"),
    (State(RULES, Leading(GRANT, TOKEN, reloaded=True), 1, 1), DriverMessage(1, StaleSnapshot("gone")), "Leading", ""),
    (STANDBY, DriverMessage(1, StaleSnapshot("gone")), "Standby", "HandleReport"),
    (LEADING, DriverMessage(1, ClaimRefused("/r", "higher-token", int(Token(7, 1)))), "Leading", "RaiseLock"),
    (STANDBY, DriverMessage(1, ClaimRefused("/r", "higher-token", int(Token(7, 1)))), "Standby", ""),
    (LEADING, DriverMessage(1, ClaimRefused("/r", "other-job", 0)), "Ended", "Fail"),
    (LEADING, DriverExited(1, Completed()), "Leading", "TerminateAndReap RecordEnd"),
    (LEADING, DriverExited(1, FAILED), "Leading", "TerminateAndReap Say RecordFailure"),
    (LEADING, DriverExited(1, REFUSED, "other"), "Leading", "TerminateAndReap Fail"),
    (LEADING, DriverExited(7, FAILED), "Leading", ""),
    (STANDBY, DriverExited(1, FAILED), "Standby", "TerminateAndReap NoteStandbyEnded Say Publish StartStandby"),
    (STANDBY, DriverExited(1, Completed()), "Standby", "TerminateAndReap NoteStandbyEnded Say Publish StartStandby"),
    (
        STANDBY,
        DriverExited(1, REFUSED, "other"),
        "Standby",
        "TerminateAndReap NoteStandbyEnded Say Publish StartStandby",
    ),
    (STANDBY, DriverExited(1, REFUSED, None), "Ended", "TerminateAndReap Fail"),
    (STANDBY, StandbyStale(1, DUE, "other"), "Standby", "Say TerminateAndReap Publish StartStandby"),
    (STANDBY, StandbyStale(1, DUE, None), "Standby", ""),
    (State(RULES, Standby("dead"), 1, 1), StandbyStale(1, DUE, "dead"), "Standby", ""),
    (LEADING, StandbyStale(1, DUE, "other"), "Leading", ""),
    (BETWEEN_DRIVERS, RestartDue(TOKEN), "Leading", "FindSuccessor"),
    (BETWEEN_DRIVERS, RestartDue(TOKENS[1]), "Leading", ""),
    (LEADING, RestartDue(TOKEN), "Leading", ""),
    # the job
    (BETWEEN_DRIVERS, FailureRecorded((NOW,), "it failed"), "Leading", "FindSuccessor"),
    (BETWEEN_DRIVERS, FailureRecorded((NOW - 1, NOW), "it failed"), "Leading", "RecordEnd"),
    (BETWEEN_DRIVERS, FailureRecorded((NOW - 1, NOW), "it was late", counts=False), "Leading", "FindSuccessor"),
    (BETWEEN_DRIVERS, SuccessorLookedFor("other", 2.0, False), "HandingOver", "ReleaseLock"),
    (BETWEEN_DRIVERS, SuccessorLookedFor(None, 2.0, False), "Leading", "ScheduleRestart"),
    (BETWEEN_DRIVERS, SuccessorLookedFor(None, 0.0, True), "Leading", "BeginAttempt"),
    (HANDING_OVER, SuccessorLookedFor(None, 0.0, False), "HandingOver", "ReleaseLock"),
    (BETWEEN_DRIVERS, JobEndRecorded(JOB), "Stopping", "StopContending TerminateAndReap ReleaseLock Exit"),
    (STOPPING, JobEndRecorded(JOB), "Stopping", "StopContending TerminateAndReap ReleaseLock Exit"),
    (
        LEADING,
        TokenOvertaken("higher"),
        "Standby",
        "Say NoteLeadershipLost TerminateAndReap ReleaseLock Publish StartStandby",
    ),
    (STOPPING, TokenOvertaken("higher"), "Stopping", IN_ORDER),
    # ends
    (LEADING, StopRequested("SIGTERM", holds_lock=True), "Stopping", f"Say {IN_ORDER}"),
    (LEADING, StopRequested("SIGTERM", completed=True), "Stopping", "Say RecordEnd"),
    (CLAIMING, StopRequested("SIGTERM", holds_lock=True), "Stopping", "Say SeekSuccessor EndByHandler HandOverAndExit"),
    (STANDBY, StopRequested("SIGTERM"), "Stopping", "Say EndByHandler Exit"),
    (STOPPING, StopRequested("SIGTERM"), "Stopping", ""),
    (STANDBY, RunEnded(JOB), "Ended", "Exit"),
    (STANDBY, ConflictingRun("run-2"), "Ended", "Fail"),
    (LEADING, ConflictingRun("run-2"), "Leading", ""),
    # documents that cannot be reached
    (BETWEEN_DRIVERS, Unreachable(FINISH), "Leading", "Retry"),
    (STOPPING, Unreachable(FINISH), "Stopping", IN_ORDER),
    (FINISHING, Unreachable(FINISH), "Stopping", "Retry"),
    (FINISHING, CommandDue(FINISH), "Stopping", "RecordEnd"),
    (FINISHING, CommandDue(RecordEnd(TOKENS[1], Status.FINISHED, "the script ended")), "Stopping", ""),
    (FINISHING, CommandDue(RecordFailure(TOKEN, "it failed")), "Stopping", ""),
    (FINISHING, LeadershipRevoked("lost"), "Stopping", IN_ORDER),
    (FINISHING, StopRequested("SIGTERM", completed=True), "Stopping", ""),
    (STOPPING, CommandDue(FINISH), "Stopping", ""),
    (STOPPING, LeadershipRevoked("lost"), "Stopping", ""),
    (BETWEEN_DRIVERS, CommandDue(FINISH), "Leading", "RecordEnd"),
    (BETWEEN_DRIVERS, CommandDue(RecordFailure(TOKEN, "it failed")), "Leading", "RecordFailure"),
    (BETWEEN_DRIVERS, CommandDue(RecordFailure(TOKENS[1], "it failed")), "Leading", ""),
    (STANDBY, CommandDue(FINISH), "Standby", ""),
    (BETWEEN_DRIVERS, CommandDue(BEGIN), "Leading", "BeginAttempt"),
    (CLAIMING, CommandDue(BEGIN), "Claiming", ""),
    (LEADING, CommandDue(BeginAttempt(GRANT, 2, TOKEN, Purpose.RECLAIM)), "Leading", "BeginAttempt"),
    (BETWEEN_DRIVERS, CommandDue(BeginAttempt(GRANT, 2, TOKEN, Purpose.RECLAIM)), "Leading", ""),
]


@pytest.mark.parametrize(("state", "given", "then", "does"), ROWS)
def test_table(state: State, given: Event | Outcome, then: str, does: str) -> None:
    after, commands = step(state, given, NOW)
    assert (name(after.leadership), " ".join(map(name, commands))) == (then, does)


def test_a_standbys_failures_are_counted_until_one_rehearses() -> None:
    state = STANDBY
    for pause in (2.0, 4.0, 8.0):
        state, commands = step(state, DriverExited(state.driver or 0, FAILED), NOW)
        assert commands[-1] == StartStandby(pause)
        state, _ = step(state, StandbyStartDue(low_priority=True), NOW)
    state, _ = step(state, DriverMessage(state.driver or 0, REHEARSED), NOW)
    _, commands = step(state, DriverExited(state.driver or 0, FAILED), NOW)
    assert commands[-1] == StartStandby(2.0)


def test_a_leader_without_a_successor_waits_before_it_starts_again() -> None:
    state, commands = step(LEADING, DriverExited(1, FAILED), NOW)
    assert commands[-1] == RecordFailure(TOKEN, "it failed")
    state, commands = step(state, FailureRecorded((NOW,), "it failed"), NOW)
    assert commands == (FindSuccessor(2.0, earlier_generation=True),)
    state, commands = step(state, SuccessorLookedFor(None, 2.0, restarts=False), NOW)
    assert commands == (ScheduleRestart(2.0, TOKEN),)
    state, commands = step(state, RestartDue(TOKEN), NOW)
    state, commands = step(state, SuccessorLookedFor(None, 0.0, restarts=True), NOW)
    assert commands == (BEGIN,)


def test_a_driver_that_a_missed_renewal_has_ended_is_no_failure_of_the_job() -> None:
    """Its user code had to die, and the lock may still be this replica's when the server is back: a standby takes over all the same."""
    end = Failed("user code was running when the lease could not be renewed", overdue=True)
    state, commands = step(LEADING, DriverExited(1, end), NOW)
    assert commands[-1] == RecordFailure(TOKEN, end.reason, counts=False)
    state, commands = step(state, FailureRecorded((NOW,) * 20, end.reason, counts=False), NOW)
    assert commands == (FindSuccessor(earlier_generation=True),)
    _, commands = step(state, SuccessorLookedFor("other", 0.0, restarts=False), NOW)
    assert commands == (ReleaseLock("other", 0.0),)
    _, commands = step(state, SuccessorLookedFor(None, 0.0, restarts=False), NOW)
    assert commands == (ScheduleRestart(0.0, TOKEN),)


def test_what_others_read_of_a_conflict_names_the_option_and_the_remedy() -> None:
    _, (fail,) = step(STANDBY, ConflictingRun("run-2"), NOW)
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, IdentityConflict)
    assert str(fail.error).startswith("--run-id: run run-2 of this job is under way")


def test_a_standby_is_stale_again_once_another_leader_than_the_dead_one_leads() -> None:
    """It heard of a death, lost the race for the lock, and ignored its own age until it led."""
    state, _ = step(STANDBY, LeaderDied("first"), NOW)
    assert step(state, StandbyStale(1, DUE, "first"), NOW)[1] == ()
    assert TerminateAndReap() in step(state, StandbyStale(1, DUE, "second"), NOW)[1]


def test_a_script_s_end_is_recorded_for_as_long_as_a_release_would_wait_and_then_given_up_in_order() -> None:
    state, commands = step(LEADING, StopRequested("SIGTERM", completed=True), NOW)
    assert commands[-1] == FINISH
    for later in (0.0, RULES.renew / 2, RULES.renew - 0.1):
        state, commands = step(state, Unreachable(FINISH), NOW + later)
        assert commands == (Retry(FINISH),)
        state, commands = step(state, CommandDue(FINISH), NOW + later)
        assert commands == (FINISH,)
    _, commands = step(state, Unreachable(FINISH), NOW + RULES.renew)
    assert " ".join(map(name, commands)) == IN_ORDER


# --- what holds for every decision ------------------------------------------------------------------------------------


def test_commands_that_write_documents_stand_last() -> None:
    for _, given, _, commands in transitions():
        assert not any(isinstance(each, Documented) for each in commands[:-1]), given


def test_a_gate_opens_only_for_a_leader_and_under_its_own_grant() -> None:
    for _, given, after, commands in transitions():
        for each in commands:
            if isinstance(each, OpenGate | StartLeader):
                assert isinstance(after.leadership, Leading), given
                assert each.grant is leads_under(after), given


def test_only_a_claimed_job_is_led() -> None:
    for before, given, after, _ in transitions():
        if isinstance(after.leadership, Leading) and not isinstance(before.leadership, Leading):
            assert isinstance(before.leadership, Claiming)
            assert isinstance(given, AttemptBegun)


def test_no_lock_is_released_before_the_driver_is_reaped() -> None:
    for before, given, _, commands in transitions():
        for at, each in enumerate(commands):
            if isinstance(each, ReleaseLock):
                assert before.driver is None or TerminateAndReap() in commands[:at], given


def test_there_is_one_driver_at_a_time() -> None:
    for before, given, after, commands in transitions():
        for at, each in enumerate(commands):
            if isinstance(each, StartDriver | StartLeader):
                assert before.driver is None or any(isinstance(one, TerminateAndReap) for one in commands[:at]), given
                assert each.driver == after.driver == after.started, given


def test_a_replica_that_stops_never_leads_again() -> None:
    for before, given, after, commands in transitions():
        if isinstance(before.leadership, Stopping):
            assert isinstance(after.leadership, Stopping | Ended), given
            assert not any(isinstance(each, OpenGate | StartLeader | StartDriver | BeginAttempt) for each in commands)
        if over(before):
            assert (after, commands) == (before, ()), given


def test_a_leader_has_no_driver_in_the_pause_before_a_restart() -> None:
    for _, given, after, _ in transitions():
        if isinstance(after.leadership, Leading) and after.leadership.pauses:
            assert after.driver is None, given


def test_every_driver_that_is_no_longer_counted_is_reaped() -> None:
    for before, given, after, commands in transitions():
        if before.driver is not None and after.driver is None and not isinstance(given, DriverNotStarted):
            assert any(isinstance(each, TerminateAndReap) for each in commands), given


def test_what_ends_the_process_stands_last() -> None:
    for _, given, _, commands in transitions():
        assert not any(isinstance(each, Fail | HandOverAndExit) for each in commands[:-1]), given


def test_what_cannot_be_written_now_comes_again_or_is_given_up_in_order() -> None:
    for before, given, _, commands in transitions():
        if isinstance(given, Unreachable) and not over(before):
            assert Retry(given.command) in commands or isinstance(commands[-1], HandOverAndExit)


def test_the_log_names_each_change_of_the_lead() -> None:
    for before, given, after, commands in transitions():
        if isinstance(before.leadership, Leading) and isinstance(after.leadership, Standby):
            if isinstance(given, AttemptTooLate):
                continue  # the lead came to its end while no driver ran
            asked = isinstance(given, SuspensionRecorded | JobChanged)
            said = {"suspended", "request-withdrawn"} if asked else {"stepped-down"}
            assert any(isinstance(each, Say) and each.event in said for each in commands), given


def test_the_page_shows_what_the_code_does() -> None:
    shown = Path(__file__).parents[2] / "docs" / "lifecycle.md"
    assert shown.read_text(encoding="utf-8") == lifecycle_table.page(), (
        "run: python -m tests.unit.lifecycle_table > docs/lifecycle.md"
    )
