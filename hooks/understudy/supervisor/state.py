"""Where a replica stands: one value, which everything that asks "do we lead?" is told, and what its decisions remember beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from understudy.protocol.token import NONE, Token

if TYPE_CHECKING:
    from understudy.config.tree import Restart
    from understudy.election.commands import Grant
    from understudy.ha.requests import Request


@dataclass(frozen=True, slots=True)
class Standby:
    """Another replica leads, or none does. ``dead``: the last leader that was reported dead, until this replica leads."""

    dead: str | None = None


@dataclass(frozen=True, slots=True)
class Claiming:
    """The lock is held under ``grant``; the job's document is not claimed yet, so nothing may be written."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Leading:
    """The job is run under ``token``, the one of the last start of a leading driver.

    ``reloaded``: this leader's script was run again already because it had read something that changed meanwhile. ``request``: what was
    asked of the job, while the leader is at it. ``writes``: its gate has been opened, or its driver is about to start again.
    ``suspends``: the document is being told that the job is SUSPENDED, and may say so already. ``drains``: the same of DRAINING, which cannot
    be taken back. ``saves``: a savepoint is being taken at the boundary where the driver holds, or has held; ``copies``: the
    driver is at it, ``None`` before the boundary has a number. ``roots``: the checkpoints that are drained once it is complete. ``pauses``: there
    is no driver before the pause of a restart is over, which may be long.
    """

    grant: Grant
    token: Token
    reloaded: bool = False
    request: Request | None = None
    writes: bool = True
    suspends: bool = False
    drains: bool = False
    saves: bool = False
    copies: bool | None = None
    roots: tuple[str, ...] = ()
    pauses: bool = False

    def free(self) -> Leading:
        """Without a request, and with nothing under way for one."""
        return replace(self, request=None, suspends=False, drains=False, saves=False, copies=None, roots=())


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job is SUSPENDED: no replica leads it, and this one has no driver until it is resumed."""


@dataclass(frozen=True, slots=True)
class HandingOver:
    """The lock is being released to another replica, and this one stands by afterwards."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """This replica ends. ``token`` is the one under which its driver may still write; ``None`` when it did not lead. ``until``, in seconds since 1970:
    its script has come to its end, and so long it is tried to record that.
    """

    token: Token | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is decided any more."""


Leadership = Standby | Claiming | Leading | Suspended | HandingOver | Stopping | Ended


def token_of(leadership: Leadership) -> Token | None:
    """The token under which this replica's driver may write; ``None`` where it may not."""
    return leadership.token if isinstance(leadership, Leading | Stopping) else None


@dataclass(frozen=True, slots=True)
class Rules:
    """What does not change while a process lives."""

    restart: Restart
    #: Executors are pods, which outlive a leader.
    clears_executors: bool = False
    #: There is a place for savepoints.
    has_storage: bool = False
    #: The renew deadline in seconds: as long as a release waits for an answer, too.
    renew: float = 10.0


@dataclass(frozen=True, slots=True)
class State:
    """``driver``: the number of the driver that runs, ``None`` while none does; ``started``: how many were started so far.

    ``last_token``: that of the last start of a leading driver. ``standby_failures``: ends of a standby's drivers, since one has
    rehearsed. ``taken_up``: the id of the last request that this replica has begun to carry out.
    """

    rules: Rules
    leadership: Leadership = field(default_factory=Standby)
    driver: int | None = None
    started: int = 0
    last_token: Token = NONE
    standby_failures: int = 0
    taken_up: str = ""

    def now(self, leadership: Leadership) -> State:
        return replace(self, leadership=leadership)

    def with_next_driver(self) -> State:
        number = self.started + 1
        return replace(self, driver=number, started=number)
