"""What the election's machine wants done. The elector does it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from understudy.election.records import Attempt


@dataclass(frozen=True, slots=True)
class Read:
    pass


@dataclass(frozen=True, slots=True)
class ReadMinEpoch:
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
    fields: dict[str, object] = field(default_factory=dict)


Command: TypeAlias = Read | ReadMinEpoch | Write | Granted | Renewed | Lost | Released | Raised | Say
