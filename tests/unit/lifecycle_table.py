"""Every decision of a replica: ``python -m tests.unit.lifecycle_table`` prints the page docs/lifecycle.md.

``step`` is asked in every state that can be reached, about every input that there is, whether or not it could come there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from understudy.config.tree import Restart
from understudy.election.commands import Grant
from understudy.errors import SettingsError
from understudy.ha.job import Job, Status
from understudy.ha.requests import Action, Request, Requests, Result
from understudy.ha.runs import Runs
from understudy.protocol.messages import (
    ClaimRefused,
    Drained,
    Held,
    RehearsalReport,
    Saved,
    StaleSnapshot,
    StillRunning,
)
from understudy.protocol.token import Token
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    Command,
    Purpose,
    RecordDraining,
    RecordEnd,
    RecordFailure,
    RecordSuspended,
)
from understudy.supervisor.driver_end import Completed, Failed, Refused
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
from understudy.supervisor.lifecycle import step
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.standby_staleness import ReloadDue
from understudy.supervisor.state import Claiming, Ended, Leading, Rules, State

NOW = 1000.0
RULES = Rules(Restart(attempts=1, delay=2.0, window=60.0), clears_executors=True, has_storage=True)
GRANTS = (Grant(1, "me", "r1", 0.0), Grant(2, "me", "r2", 0.0))
TOKENS = (Token(1, 1), Token(2, 1), Token(2, 2))
JOB = Job("job", "job.py", Status.FINISHED, TOKENS[0], TOKENS[0], "me")
DRAINS = replace(JOB, status=Status.DRAINING, runs=Runs("run-2"))
SUSPENDED = replace(JOB, status=Status.SUSPENDED)
WARM = replace(SUSPENDED, requests=Requests(Request("w", Action.SUSPEND, warm=True)))
#: One of each kind, and one that this release does not know.
REQUESTS = (
    *(
        Request(action, action, "a person", timeout=5.0)
        for action in (Action.SUSPEND, Action.CANCEL, Action.HAND_OVER, "dance", Action.DRAIN, Action.SAVEPOINT)
    ),
    Request("then", Action.SAVEPOINT, "a person", timeout=5.0, then=Action.SUSPEND),
    Request("saved-first", Action.DRAIN, "a person", timeout=5.0, savepoint=True),
)
SUSPEND, CANCEL, _, _, DRAIN, SAVEPOINT, THEN_SUSPEND, SAVED_FIRST = REQUESTS
#: Checkpoints whose queries are drained.
ROOTS = ("file:/checkpoint",)
GRANT, TOKEN = GRANTS[0], TOKENS[0]
#: States that the decision tables begin from.
STANDBY = State(RULES, driver=1, started=1)
CLAIMING = State(RULES, Claiming(GRANT), driver=1, started=1)
LEADING = State(RULES, Leading(GRANT, TOKEN), driver=1, started=1, last_token=TOKEN)
BETWEEN_DRIVERS = State(RULES, Leading(GRANT, TOKEN), driver=None, started=1, last_token=TOKEN)
DUE = ReloadDue("the script began an hour ago", urgent=False)


def inputs(state: State) -> Iterator[Event | Outcome]:
    """One of each kind, and more where what it is about matters."""
    for grant in GRANTS:
        yield LeadershipGranted(grant)
        for purpose in Purpose:
            yield CommandDue(BeginAttempt(grant, grant.epoch, TOKENS[0], purpose))
    for token in TOKENS:
        for purpose in Purpose:
            yield AttemptBegun(token, purpose)
            yield from (AttemptBegun(token, purpose, request) for request in REQUESTS)
            yield from (AttemptBegun(token, purpose, request, ROOTS) for request in (DRAIN, CANCEL, SUSPEND, None))
            yield from (AttemptBegun(token, purpose, request, saving=True) for request in (SAVEPOINT, SAVED_FIRST))
        yield RestartDue(token)
        yield CommandDue(RecordFailure(token, "it failed"))
    yield from _of_drivers(state)
    yield from _of_requests()
    yield from _of_the_rest()


def _of_drivers(state: State) -> Iterator[Event | Outcome]:
    for driver in {state.driver or 0, 0}:
        for message in (
            StaleSnapshot("a file is gone"),
            ClaimRefused("/root", "higher-token", int(Token(7, 1))),
            ClaimRefused("/root", "other-job", 0),
            RehearsalReport("job.py:1", rehearsed=True, how="live", rounds=1, seconds=0.1),
            StillRunning("a thread"),
            Held(Action.SUSPEND, ""),
            Held(Action.SUSPEND, "query flights"),
            Held(Action.DRAIN, "", roots=list(ROOTS)),
            Held(Action.DRAIN, "query flights"),
            Held(Action.DRAIN, "query flights cannot be drained", refused=True),
            Drained(Action.DRAIN, ""),
            Drained(Action.DRAIN, "query flights has failed"),
        ):
            yield DriverMessage(driver, message)
        yield DriverMessage(driver, Drained(SAVED_FIRST.id, ""))
        for asked in (SAVEPOINT, THEN_SUSPEND, SAVED_FIRST):
            yield DriverMessage(driver, Held(asked.id, "", roots=list(ROOTS)))
            yield from (DriverMessage(driver, Saved(asked.id, 7, problem)) for problem in ("", "no space left"))
        for end in (Completed(), Failed("it failed"), Refused(SettingsError("a wrong setting"))):
            yield DriverExited(driver, end, None)
            yield DriverExited(driver, end, "other")
        yield StandbyStale(driver, DUE, "other")
        yield StandbyStale(driver, DUE, None)


def _of_requests() -> Iterator[Event | Outcome]:
    for status in Status:
        yield JobChanged(status)
        yield SuspensionRecorded(status)
        yield JobChanged(status, warm=True)
        yield from (JobChanged(status, token=token) for token in TOKENS)
        yield JobChanged(status, other_run="run-2")
        yield JobChanged(status, CANCEL, other_run="run-2")
        yield SuspensionRecorded(status, warm=True)
        yield DrainingRecorded(status, ROOTS)
    for request in REQUESTS:
        yield JobChanged(Status.RUNNING, request)
        yield RequestOverdue(request.id)
        yield RequestOverdue(request.id, copies=True)
        yield CommandDue(RecordSuspended(TOKENS[0], request.id, between_batches=True))
        yield CommandDue(RecordDraining(TOKENS[0], request.id, ROOTS))
        yield CommandDue(AnswerRequest(TOKENS[0], request.id, Result.REFUSED, "no"))
        yield CommandDue(RecordBoundary(TOKENS[0], request.id))
        yield CommandDue(RecordSavepoint(TOKENS[0], Saved(request.id, 7, ""), suspend=False))
    yield from (
        BoundaryRecorded(7, "file:///savepoints/7"),
        BoundaryRecorded(None, reason="the job runs on"),
        SavepointRecorded("savepoint 7 is rehearsed", Status.RUNNING),
        SavepointRecorded("the job runs on", Status.CANCELED),
        RequestAnswered(),
        ReplicaLookedFor("other"),
        ReplicaLookedFor("other", completed=True),
        ReplicaLookedFor(None, "no standby has rehearsed"),
        AttemptTooLate(SUSPENDED),
        AttemptTooLate(WARM),
        AttemptTooLate(DRAINS),
    )


def _of_the_rest() -> Iterator[Event | Outcome]:
    yield from (
        StopRequested("SIGTERM"),
        StopRequested("SIGTERM", completed=True),
        StopRequested("SIGTERM", holds_lock=True),
    )
    for failures in ((NOW,), (NOW - 1.0, NOW)):
        yield FailureRecorded(failures, "it failed")
    yield FailureRecorded((), "its lease was not renewed", counts=False)
    for holder in ("other", None):
        for restarts in (False, True):
            yield SuccessorLookedFor(holder, 2.0, restarts)
    finish = RecordEnd(TOKENS[0], Status.FINISHED, "the script ended")
    yield from (
        LeadershipRevoked("another holds it"),
        LeaderDied("other"),
        StandbyStartDue(low_priority=True),
        RunEnded(JOB),
        ConflictingWorkload("theirs/uid"),
        ConflictingRun("run-2"),
        AttemptLost(),
        AttemptSuperseded("a newer generation has led", 1),
        AttemptTooLate(JOB),
        GateOpened(),
        DriverNotStarted("no space left"),
        JobEndRecorded(JOB),
        TokenOvertaken("a higher token"),
        LockReleased(0.0),
        LockRaised(8),
        LockRaised(None),
        CommandDue(finish),
        Unreachable(finish),
    )


def _bounded(state: State) -> State:
    """Counts that only grow are cut off, so that there is an end to what can be reached."""
    driver = None if state.driver is None else 1
    return replace(state, driver=driver, started=1, standby_failures=min(state.standby_failures, 1))


@cache
def transitions() -> list[tuple[State, Event | Outcome, State, tuple[Command, ...]]]:
    """Every state that can be reached, each input, and what follows."""
    found = []
    begin = State(RULES)
    seen, waiting = {begin}, [begin]
    while waiting:
        state = waiting.pop()
        for given in inputs(state):
            after, commands = step(state, given, NOW)
            found.append((state, given, after, commands))
            if (bounded := _bounded(after)) not in seen:
                seen.add(bounded)
                waiting.append(bounded)
    return found


def name(thing: object) -> str:
    return type(thing).__name__


def diagram() -> str:
    arrows: dict[tuple[str, str], set[str]] = {}
    for state, given, after, _ in transitions():
        before, then = name(state.leadership), name(after.leadership)
        if before != then:
            arrows.setdefault((before, then), set()).add(name(given))
    lines = ["stateDiagram-v2", "    [*] --> Standby"]
    for (before, then), why in sorted(arrows.items()):
        lines.append(f"    {before} --> {then}: {', '.join(sorted(why))}")
    return "\n".join([*lines, "    Ended --> [*]", "    Stopping --> [*]"])


def table() -> str:
    """Each input, what state it matters in, and the commands that may follow, in their order."""
    rows: dict[tuple[str, str], set[str]] = {}
    for state, given, after, commands in transitions():
        if commands or name(state.leadership) != name(after.leadership):
            does = ", ".join(name(command) for command in commands) or "nothing"
            rows.setdefault((name(given), name(state.leadership)), set()).add(f"→ {name(after.leadership)}: {does}")
    lines = ["| input | in | what follows |", "| --- | --- | --- |"]
    for (asked, before), follows in sorted(rows.items()):
        lines.append(f"| `{asked}` | {before} | {'<br>'.join(sorted(follows))} |")
    return "\n".join(lines)


PAGE = """# The life of a replica

Everything a replica decides is one pure function, [`lifecycle.step`](../hooks/understudy/supervisor/lifecycle.py): the state, an input
and the time give the next state and the commands to carry out. An input is an event of the supervisor's inbox or the outcome of a
command. This page is generated from that function: `python -m tests.unit.lifecycle_table`.

## States

```mermaid
{diagram}
```

## Decisions

Inputs that change nothing in a state are not listed. A replica that is *stopping* handles no event any more; what is listed there are
outcomes of its last commands.

{table}
"""


def page() -> str:
    return PAGE.format(diagram=diagram(), table=table())


def leads_under(state: State) -> Any:
    """The grant that this state's commands may use."""
    return state.leadership.grant if isinstance(state.leadership, Leading | Claiming) else None


def over(state: State) -> bool:
    return isinstance(state.leadership, Ended)


if __name__ == "__main__":
    sys.stdout.write(page())
