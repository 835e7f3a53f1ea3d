"""Commands of a savepoint. See ``commands``, which lists them among the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.protocol.messages import Saved
    from understudy.protocol.token import Token


@dataclass(frozen=True, slots=True)
class RecordBoundary:
    """Give the boundary at which the job stands still its number, and write into the job's document that ``request`` has begun a savepoint."""

    token: Token
    request: str


@dataclass(frozen=True, slots=True)
class SaveDriver:
    """The driver, which holds its batches, copies its checkpoints to ``place``; it says when. ``keep``: it holds them on."""

    request: str
    number: int
    place: str
    timeout: float
    keep: bool


@dataclass(frozen=True, slots=True)
class RecordSavepoint:
    """Create the manifest of what the driver has ``saved``, and answer the request; or write that it has failed.

    ``suspend``: the job is SUSPENDED in the same write. ``drain``: it is DRAINING in the same write, and these checkpoints are to be drained; the request
    is not answered then.
    """

    token: Token
    saved: Saved
    suspend: bool
    drain: tuple[str, ...] | None = None
