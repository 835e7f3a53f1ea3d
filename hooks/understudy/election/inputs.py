"""What the election's machine is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from understudy.documents.model import Outcome
from understudy.election.records import Attempt, Corrupt, LockState


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
class MinEpochRead:
    epoch: int


@dataclass(frozen=True, slots=True)
class MinEpochUnknown:
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
class ContendAsked:
    """What kept this replica from contending is over: it need not wait until its next try is due."""


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


Input: TypeAlias = (
    Tick
    | Hint
    | Seen
    | Unseen
    | MinEpochRead
    | MinEpochUnknown
    | Answer
    | Evidence
    | Ready
    | ContendAsked
    | StopAsked
    | ReleaseAsked
    | RaiseAsked
)
