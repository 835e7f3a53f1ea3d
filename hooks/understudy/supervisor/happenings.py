"""What the control loop handles, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.election.facts import Grant
    from understudy.ha.job import Job
    from understudy.protocol.messages import Message
    from understudy.protocol.token import Token
    from understudy.supervisor.driver_process import DriverProcess
    from understudy.supervisor.standby_staleness import ReloadDue


@dataclass(frozen=True, slots=True)
class Led:
    """The lock was granted to us. It counts for as long as ``grant`` is the one the elector holds."""

    grant: Grant


@dataclass(frozen=True, slots=True)
class Lost:
    reason: str


@dataclass(frozen=True, slots=True)
class Heard:
    """``driver`` said something. A message of a driver that was replaced meanwhile is not answered."""

    driver: DriverProcess
    message: Message


@dataclass(frozen=True, slots=True)
class Exited:
    driver: DriverProcess
    status: int


@dataclass(frozen=True, slots=True)
class Died:
    """Our leading driver is dead and buried; ``reason`` says of what. Comes again while the documents cannot be written.

    It counts only while we lead under ``token``: until it can be answered we may have lost the lead, and won another.
    """

    reason: str
    token: Token


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The pause before our driver starts again in place is over; ``token`` is the one its predecessor had."""

    token: Token
    #: What others have rehearsed is as old as what has just failed here.
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Aged:
    """A standby's driver has become too old to lead."""

    driver: DriverProcess
    due: ReloadDue


@dataclass(frozen=True, slots=True)
class Finished:
    """Our leading driver's script came to its end. Comes again while the documents cannot be written, as ``Died`` does."""

    token: Token


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Our run has ended, as ``job`` shows it."""

    job: Job


@dataclass(frozen=True, slots=True)
class Met:
    """Another workload with our cluster id, whose leader lives."""

    workload: str


@dataclass(frozen=True, slots=True)
class MetRun:
    """Another run of the job than ours is under way, and its leader lives."""

    run: str


@dataclass(frozen=True, slots=True)
class Stop:
    why: str


Happening = Led | Lost | Heard | Exited | Died | RestartDue | Aged | Finished | JobEnded | Met | MetRun | Stop
