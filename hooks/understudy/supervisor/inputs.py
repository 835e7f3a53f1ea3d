"""What a supervisor's decisions are about: events of its inbox, and the outcomes of commands it has carried out.

An event names the driver, the grant or the token it is about. What they are no longer about by the time it is handled, it does
not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.protocol.token import NONE, Token

if TYPE_CHECKING:
    from understudy.election.commands import Grant
    from understudy.ha.job import Job, Status
    from understudy.ha.requests import Request
    from understudy.protocol.messages import Message
    from understudy.supervisor.commands import Documented, Purpose
    from understudy.supervisor.driver_end import Completed, Failed, Refused
    from understudy.supervisor.standby_staleness import ReloadDue

# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeadershipGranted:
    grant: Grant


@dataclass(frozen=True, slots=True)
class LeadershipRevoked:
    """The elector has lost the grant; the gate is revoked already."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaderDied:
    """Every process of the replica that led is gone."""

    holder: str


@dataclass(frozen=True, slots=True)
class DriverMessage:
    driver: int
    message: Message


@dataclass(frozen=True, slots=True)
class DriverExited:
    """``leader``: the other replica that leads, as far as is known when this is handled."""

    driver: int
    end: Completed | Refused | Failed
    leader: str | None = None


@dataclass(frozen=True, slots=True)
class StandbyStartDue:
    """The machine is quiet enough for a standby to warm up. ``low_priority``: another replica leads; ``because``: of what its predecessor
    was ended, if it was for its age.
    """

    low_priority: bool
    because: ReloadDue | None = None


@dataclass(frozen=True, slots=True)
class StandbyStale:
    """A standby's driver has become too old to lead, and it is its turn. ``leader`` as in ``DriverExited``."""

    driver: int
    due: ReloadDue
    leader: str | None = None


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The pause before a leader's driver starts again is over; ``token`` is the one its predecessor had."""

    token: Token


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run this replica is for has ended, as ``job`` shows it."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobChanged:
    """What a look at the job's document has found; often nothing new. ``request``: the one under way. ``warm``: as ``Job.warm``.

    ``token`` is the job's. ``other_run``: the id of the run under way, if it is another than this replica's.
    """

    status: Status
    request: Request | None = None
    warm: bool = False
    token: Token = NONE
    other_run: str = ""


@dataclass(frozen=True, slots=True)
class RequestOverdue:
    """The driver has not answered in time whether it holds; ``copies``: whether it has taken a savepoint."""

    request: str
    copies: bool = False


@dataclass(frozen=True, slots=True)
class ConflictingWorkload:
    """Another workload uses our cluster id, and its leader renews."""

    workload: str


@dataclass(frozen=True, slots=True)
class ConflictingRun:
    """Another run of the job is under way, and its leader renews."""

    run: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """``completed``: the script has come to its end under this leader, and its end is not recorded yet. ``holds_lock``: a grant is
    current, whether it was handled or not.
    """

    why: str
    completed: bool = False
    holds_lock: bool = False


@dataclass(frozen=True, slots=True)
class CommandDue:
    """The documents could not be reached when ``command`` was carried out, and a retry period has passed. ``driver``: the one that ran then, where it
    holds what the command records.
    """

    command: Documented
    driver: int | None = None


Event = (
    LeadershipGranted
    | LeadershipRevoked
    | LeaderDied
    | DriverMessage
    | DriverExited
    | StandbyStartDue
    | StandbyStale
    | RestartDue
    | RunEnded
    | JobChanged
    | RequestOverdue
    | ConflictingWorkload
    | ConflictingRun
    | StopRequested
    | CommandDue
)

# --- outcomes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttemptBegun:
    """``request``: what the job is asked to do, and no leader has answered yet. ``draining``, ``saving``: as those of ``Job``."""

    token: Token
    purpose: Purpose
    request: Request | None = None
    draining: tuple[str, ...] | None = None
    saving: bool = False


@dataclass(frozen=True, slots=True)
class AttemptLost:
    """The lock was lost on the way; the elector says so in an event of its own."""


@dataclass(frozen=True, slots=True)
class AttemptSuperseded:
    """A newer generation of the code has led: this one does not lead any more."""

    reason: str
    epoch: int


@dataclass(frozen=True, slots=True)
class AttemptTooLate:
    """The run had ended before it was claimed, or is SUSPENDED; or another run is DRAINING."""

    job: Job


@dataclass(frozen=True, slots=True)
class GateOpened:
    """The driver may write."""


@dataclass(frozen=True, slots=True)
class DriverNotStarted:
    """A driver could not be started: a full disk, no descriptor, no memory. Counted as the death of a driver is."""

    reason: str


@dataclass(frozen=True, slots=True)
class FailureRecorded:
    """``failures``: when drivers have failed since one has run for the restart window, the last one included, in seconds since 1970.
    Without ``counts`` this one is none.
    """

    failures: tuple[float, ...]
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class JobEndRecorded:
    job: Job


@dataclass(frozen=True, slots=True)
class SuspensionRecorded:
    """``status``: SUSPENDED, unless the request was withdrawn meanwhile, or the job has ended. ``warm``: as ``Job.warm``."""

    status: Status
    warm: bool = False


@dataclass(frozen=True, slots=True)
class DrainingRecorded:
    """``status``: DRAINING, unless the request was withdrawn meanwhile, or the job has ended. ``roots``: as ``Job.draining``."""

    status: Status
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundaryRecorded:
    """``number`` and ``place`` of the savepoint that has begun; ``number`` is ``None`` where none has, for ``reason``."""

    number: int | None
    place: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SavepointRecorded:
    """A savepoint's request is answered; ``text``: how. ``status`` of the job."""

    text: str
    status: Status


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """The answer stands in the job's document."""


@dataclass(frozen=True, slots=True)
class ReplicaLookedFor:
    """``holder`` of the replica to hand over to; ``None`` where there is none, for the reason in ``problem``. ``completed`` as in ``StopRequested``."""

    holder: str | None
    problem: str = ""
    completed: bool = False


@dataclass(frozen=True, slots=True)
class TokenOvertaken:
    """The job's document holds a higher token than ours."""

    reason: str


@dataclass(frozen=True, slots=True)
class SuccessorLookedFor:
    """``holder`` of the replica that should lead next, if there is one; ``pause`` until our driver starts again, in seconds."""

    holder: str | None
    pause: float
    restarts: bool


@dataclass(frozen=True, slots=True)
class LockReleased:
    """``pause`` as in ``SuccessorLookedFor``."""

    pause: float


@dataclass(frozen=True, slots=True)
class LockRaised:
    """``epoch``: what the lock was raised to; ``None`` when it is lost."""

    epoch: int | None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The documents could not be reached when ``command`` was carried out."""

    command: Documented


Outcome = (
    AttemptBegun
    | AttemptLost
    | AttemptSuperseded
    | AttemptTooLate
    | GateOpened
    | DriverNotStarted
    | FailureRecorded
    | JobEndRecorded
    | SuspensionRecorded
    | DrainingRecorded
    | BoundaryRecorded
    | SavepointRecorded
    | RequestAnswered
    | ReplicaLookedFor
    | TokenOvertaken
    | SuccessorLookedFor
    | LockReleased
    | LockRaised
    | Unreachable
)
