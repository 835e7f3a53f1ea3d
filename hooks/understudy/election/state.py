"""What the election's machine remembers, and what others may see of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from understudy.config.timings import Timings
from understudy.documents.model import Document
from understudy.election.inputs import Hint
from understudy.election.records import Attempt, LockState


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
    MIN_EPOCH = "min-epoch"
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

    ``lock_state`` is the one view decisions are made on, with its compare-and-set token inside. ``changed_at`` is when
    *this* process saw that record change, or could read it again after an outage of its own. ``next_at`` is when to
    read (a standby) or write (a leader) next, ``not_before`` when to contend again after a failed attempt. ``pending``
    are writes that got no answer and may still land. ``barred``: the last try ended because the minimum epoch could not be read,
    or said that no replica may lead now. ``highest`` is the highest epoch ever seen or heard of here,
    ``lease`` the longest lease of a holder, ``min_epoch`` what was last heard from outside the lock.
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
    barred: bool = False
    hint: Hint | None = None
    dead: tuple[tuple[str, float], ...] = ()
    highest: int = 0
    lease: float = 0.0
    min_epoch: int = 0
    pending: tuple[Attempt, ...] = ()
    held_lease: HeldLease | None = None
    lost_at: float = 0.0
    reason: str = ""
    unreachable: bool = False

    @property
    def granted(self) -> int:
        """The highest epoch known to have been granted; 0 for a lock that is new."""
        return max(self.highest, self.min_epoch)

    @property
    def gate_deadline(self) -> float:
        """When the gate closes; in the past without a lease."""
        return float("-inf") if self.held_lease is None else self.held_lease.confirmed_at + self.rules.timings.renew

    @property
    def kill_deadline(self) -> float:
        """When a timer elsewhere kills the driver's session unless it is parked. Known here, done there."""
        return (
            float("-inf") if self.held_lease is None else self.held_lease.confirmed_at + self.rules.timings.kill_after
        )


@dataclass(frozen=True, slots=True)
class ElectionView:
    """What this replica knows of the election: of the lock as it last saw it, and of itself.

    ``leader`` is ``None`` for a free or unreadable lock. ``seen_at`` is when the record was seen to change, in seconds of the
    elector's clock. ``gate_deadline`` and ``kill_deadline`` are the own deadlines, ``None`` without a lease.
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
