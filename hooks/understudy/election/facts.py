"""What the machine is told, what it remembers, and what it answers: frozen facts, nothing that does anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from understudy.config.timings import Timings
from understudy.documents.model import Document, Outcome
from understudy.election.records import Attempt, Corrupt, LockState


class Role(StrEnum):
    """``parked``: past the own deadline, the gate closed, still trying to renew the unchanged record. ``lost``: the driver of a
    lost grant is being killed, so no new one is wanted yet. ``stopped``: for good.
    """

    STANDBY = "standby"
    CONTENDING = "contending"
    LEADING = "leading"
    PARKED = "parked"
    RELEASING = "releasing"
    LOST = "lost"
    STOPPED = "stopped"


class Awaited(StrEnum):
    """The one request under way. A second one never is, so no answer can be about something decided meanwhile."""

    NOTHING = "nothing"
    READ = "read"
    FLOOR = "floor"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Rules:
    """What does not change while a process lives. ``holder`` is made at each start of a supervisor and never used again."""

    name: str
    holder: str
    timings: Timings
    generation: str = ""
    lock: str = "file"
    workload: str = ""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A grant this process holds. ``confirmed`` is the revision that was last certainly its own; ``confirmed_at`` is when that
    write was *sent*, for everyone else may count from then.
    """

    epoch: int
    confirmed: Document
    confirmed_at: float
    settling: bool = False
    raise_to: int | None = None
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class Release:
    successor: str | None
    until: float


@dataclass(frozen=True, slots=True)
class State:
    """Everything the machine remembers.

    ``lock_state`` is the one view decisions are made on, with its compare-and-set token inside. ``changed_at`` is when *this*
    process saw that record change, or could read it again after an outage of its own. ``next_at`` is when to read (a standby)
    or write (a leader) next, ``not_before`` when to contend again after a failed attempt. ``pending`` are writes nobody
    answered and that may still land. ``highest`` is the highest epoch ever seen or heard of here, ``lease`` the longest lease of a
    holder, ``floor`` what was last heard from outside the lock.
    """

    rules: Rules
    role: Role = Role.STANDBY
    ready: bool = False
    stopping: bool = False
    lock_state: LockState | None = None
    changed_at: float = 0.0
    read_at: float | None = None
    read_failed: bool = False
    awaited: Awaited = Awaited.NOTHING
    asked_at: float = 0.0
    next_at: float = float("-inf")
    not_before: float = float("-inf")
    hint: Hint | None = None
    dead: tuple[tuple[str, float], ...] = ()
    highest: int = 0
    lease: float = 0.0
    floor: int = 0
    pending: tuple[Attempt, ...] = ()
    held_lease: HeldLease | None = None
    lost_at: float = 0.0
    reason: str = ""
    unreachable: bool = False

    @property
    def granted(self) -> int:
        """The highest epoch known to have been granted; 0 for a lock that is new."""
        return max(self.highest, self.floor)

    @property
    def gate_deadline(self) -> float:
        """When the gate closes; in the past for whoever holds nothing."""
        return float("-inf") if self.held_lease is None else self.held_lease.confirmed_at + self.rules.timings.renew

    @property
    def kill_deadline(self) -> float:
        """When a timer elsewhere kills the driver's session unless it is parked. Known here, done there."""
        return (
            float("-inf") if self.held_lease is None else self.held_lease.confirmed_at + self.rules.timings.kill_after
        )


# --- observations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; nothing else."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A watch said something. Never a proof: it makes the machine read."""

    revision: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    lock_state: LockState


@dataclass(frozen=True, slots=True)
class Unseen:
    cause: str


@dataclass(frozen=True, slots=True)
class FloorIs:
    epoch: int


@dataclass(frozen=True, slots=True)
class FloorUnknown:
    cause: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How ``attempt`` (as it was sent) ended. ``Corrupt``: refused, and what stands there cannot be read."""

    attempt: Attempt
    outcome: Outcome | Corrupt


@dataclass(frozen=True, slots=True)
class Evidence:
    """Every process of ``holder`` that could write is dead."""

    holder: str


@dataclass(frozen=True, slots=True)
class Ready:
    ready: bool


@dataclass(frozen=True, slots=True)
class StopAsked:
    pass


@dataclass(frozen=True, slots=True)
class ReleaseAsked:
    """Every process of the own driver's session has been reaped."""

    successor: str | None


@dataclass(frozen=True, slots=True)
class RaiseAsked:
    epoch: int


Observation: TypeAlias = (
    Tick
    | Hint
    | Seen
    | Unseen
    | FloorIs
    | FloorUnknown
    | Answer
    | Evidence
    | Ready
    | StopAsked
    | ReleaseAsked
    | RaiseAsked
)


# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    pass


@dataclass(frozen=True, slots=True)
class AskFloor:
    pass


@dataclass(frozen=True, slots=True)
class Write:
    """Seal the attempt, create (``seen`` is ``None``) or replace on ``seen``, and answer with the sealed attempt."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Grant:
    """What a candidate is told: it leads from ``epoch``. ``sent_at`` is the send time of the write that won."""

    epoch: int
    holder: str
    revision: str
    sent_at: float


@dataclass(frozen=True, slots=True)
class Granted:
    grant: Grant


@dataclass(frozen=True, slots=True)
class Renewed:
    sent_at: float


@dataclass(frozen=True, slots=True)
class Lost:
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    ok: bool


@dataclass(frozen=True, slots=True)
class Raised:
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Say:
    event: str
    sentence: str
    facts: dict[str, object] = field(default_factory=dict)


Action: TypeAlias = Read | AskFloor | Write | Granted | Renewed | Lost | Released | Raised | Say


# --- what others may see ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElectionView:
    """What this replica knows of the election: of the lock as it last saw it, and of itself.

    ``leader`` is ``None`` for a free or unreadable lock. ``seen_at`` is when the record was seen to change, in seconds of the
    elector's clock. ``gate_deadline`` and ``kill_deadline`` are the own deadlines, ``None`` for whoever holds nothing.
    """

    role: Role
    leader: str | None
    epoch: int
    transitions: int
    released: bool
    successor: str | None
    generation: str
    workload: str
    seen_at: float
    revision: str | None
    reason: str
    gate_deadline: float | None
    kill_deadline: float | None
