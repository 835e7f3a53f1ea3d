"""What a supervisor's decisions ask for. Commands are carried out in order, each to its end.

Those in ``Documented`` write documents, and have an outcome. They stand last in their list: what follows depends on the outcome.
When the documents cannot be reached, the same command comes again as ``CommandDue``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from understudy.ha.job import Status
from understudy.ha.requests import Result
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint, SaveDriver
from understudy.supervisor.state import State

if TYPE_CHECKING:
    from understudy.election.commands import Grant
    from understudy.errors import UnderstudyError
    from understudy.ha.job import Job
    from understudy.protocol.messages import Message
    from understudy.protocol.token import Token
    from understudy.supervisor.standby_staleness import ReloadDue


@dataclass(frozen=True, slots=True)
class Say:
    """A line of the log, which the log's listeners get, too."""

    event: str
    sentence: str
    facts: Mapping[str, object] = field(default_factory=dict)


class Purpose(Enum):
    """Why a new attempt of the job is begun."""

    TAKEOVER = auto()
    RESTART = auto()
    RECLAIM = auto()  # a checkpoint root holds a higher token than ours


# --- documents, and the lock ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeginAttempt:
    """Claim the job under a new token of ``epoch`` or above, and above ``above``."""

    grant: Grant
    epoch: int
    above: Token
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """Add one failure to those the job's document counts; or, where it does not count, wait until the document can be reached again."""

    token: Token
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Write into the job's document that it has ended. While the lock is still held."""

    token: Token
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class RecordSuspended:
    """Write into the job's document that it is SUSPENDED, as ``request`` has asked. While the lock is still held.

    ``between_batches``: it is known that no batch was left in the middle.
    """

    token: Token
    request: str
    between_batches: bool


@dataclass(frozen=True, slots=True)
class RecordDraining:
    """Write into the job's document that it is DRAINING, as ``request`` has asked, and that ``roots`` are being drained."""

    token: Token
    request: str
    roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Say in the job's document what came of ``request``."""

    token: Token
    request: str
    result: Result
    text: str


@dataclass(frozen=True, slots=True)
class RaiseLock:
    """Raise the lock above ``epoch``, which was met in a checkpoint root."""

    grant: Grant
    epoch: int


Documented = (
    BeginAttempt
    | RecordFailure
    | RecordEnd
    | RecordSuspended
    | RecordDraining
    | RecordBoundary
    | RecordSavepoint
    | AnswerRequest
)


@dataclass(frozen=True, slots=True)
class FindSuccessor:
    """Look for the replica that should lead next.

    ``earlier_generation``: one of the code that led before will do, rehearsed or not, if ours has never come up. ``pause`` and
    ``restarts`` are handed on to the outcome.
    """

    pause: float = 0.0
    restarts: bool = False
    earlier_generation: bool = False


@dataclass(frozen=True, slots=True)
class FindReplica:
    """Look whether ``holder`` can lead next; any that has rehearsed, where it is empty."""

    holder: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Post ``CommandDue`` after a retry period. ``driver``: handed on to the event."""

    command: Documented
    driver: int | None = None


@dataclass(frozen=True, slots=True)
class ContendNow:
    """Try for the lock at once, if it is free: the job has been resumed."""


@dataclass(frozen=True, slots=True)
class StopContending:
    """This process takes no lock any more. A lock that is held is renewed until it is released."""


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """Only when no process of the driver is left. ``pause``: handed on to the outcome."""

    successor: str | None
    pause: float = 0.0


# --- the driver -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartStandby:
    """Post ``StandbyStartDue`` after ``pause`` seconds, once no other replica is just taking over."""

    pause: float = 0.0
    because: ReloadDue | None = None


@dataclass(frozen=True, slots=True)
class StartDriver:
    """Start a standby's script. ``low_priority`` and ``because`` as in ``StandbyStartDue``."""

    driver: int
    low_priority: bool
    because: ReloadDue | None = None


@dataclass(frozen=True, slots=True)
class StartLeader:
    """Start the script behind an open gate, while ``grant`` is the current one."""

    driver: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Open the gate of the driver that stands by, while ``grant`` is the current one, and tell it to take over."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class ReclaimRoots:
    """Show the driver its new token, and have it claim its roots again."""

    token: Token


@dataclass(frozen=True, slots=True)
class TerminateAndReap:
    """Return when no process of the driver is left. ``by_itself``: a standby's driver has ended without being told to."""

    by_itself: bool = False


@dataclass(frozen=True, slots=True)
class QuiesceDriver:
    """Let the driver finish or abandon its batch."""


@dataclass(frozen=True, slots=True)
class HoldDriver:
    """Have the driver hold everything between two batches; it says when. Post ``RequestOverdue`` if it does not.

    ``drain``, ``save``: it holds nothing if it cannot be drained, or saved.
    """

    request: str
    timeout: float
    drain: bool = False
    save: bool = False


@dataclass(frozen=True, slots=True)
class LetDriverGo:
    """The driver goes on with what it holds."""


@dataclass(frozen=True, slots=True)
class DrainDriver:
    """The driver, which holds its batches, drains the queries of these checkpoints; it says when."""

    request: str
    roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndByHandler:
    """Let the script's own handler of SIGTERM run, if it has one."""


@dataclass(frozen=True, slots=True)
class ClearExecutors:
    """Delete the executor pods of earlier leaders. ``own``: this replica's, too."""

    own: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleRestart:
    """Post ``RestartDue`` after ``delay`` seconds."""

    delay: float
    token: Token


# --- what others are told ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandleReport:
    """The driver says how it stands."""

    message: Message


@dataclass(frozen=True, slots=True)
class NoteStandbyEnded:
    """Say in the status why this standby has no driver."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoteLeadershipLost:
    """Count the loss."""


@dataclass(frozen=True, slots=True)
class NoteSuspended:
    """Say in probes and status why this replica has no driver, and is as ready as it has to be."""


@dataclass(frozen=True, slots=True)
class NoteResumed:
    """Unsay ``NoteSuspended``."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Tell the other replicas how it stands with ours."""


# --- the end ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeekSuccessor:
    """Begin to look for the replica that should lead next, while the driver comes to its end."""


@dataclass(frozen=True, slots=True)
class HandOverAndExit:
    """Reap the driver, release the lock to the successor that was found meanwhile, and end the process with exit code 0."""


@dataclass(frozen=True, slots=True)
class Exit:
    """End the process, with the exit code that ``job`` stands for; 0 without one."""

    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """End the process for ``error``."""

    error: UnderstudyError


Command = (
    Say
    | BeginAttempt
    | RecordFailure
    | RecordEnd
    | RecordSuspended
    | RecordDraining
    | RecordBoundary
    | RecordSavepoint
    | AnswerRequest
    | RaiseLock
    | Retry
    | FindSuccessor
    | FindReplica
    | SeekSuccessor
    | ContendNow
    | StopContending
    | ReleaseLock
    | StartStandby
    | StartDriver
    | StartLeader
    | OpenGate
    | ReclaimRoots
    | TerminateAndReap
    | QuiesceDriver
    | HoldDriver
    | LetDriverGo
    | DrainDriver
    | SaveDriver
    | EndByHandler
    | ClearExecutors
    | ScheduleRestart
    | HandleReport
    | NoteStandbyEnded
    | NoteLeadershipLost
    | NoteSuspended
    | NoteResumed
    | Publish
    | HandOverAndExit
    | Exit
    | Fail
)

#: The next state, and what to do, in that order.
Decision = tuple[State, tuple[Command, ...]]
