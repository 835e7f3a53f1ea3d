"""What a supervisor and its driver say to each other: typed JSON lines over a socketpair.

One line is one message: ``{"say": "Granted", "token": 30064771073}``. A line that cannot be understood is an error and never
ignored: both ends come from one installation, so a stranger's line means that something else holds the descriptor.

Both ends cut texts to ``redaction.LONGEST`` characters and mask secrets in them: what a driver says ends up in documents and logs.
Neither end reads a line of more than ``LONGEST_LINE`` bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from understudy.errors import EnvironmentProblem
from understudy.redaction import presentable, presentable_location

#: No line is longer, in bytes. Texts are cut far below that; what may be long is a list of directories.
LONGEST_LINE = 4 << 20


@dataclass(frozen=True, slots=True)
class Granted:
    """Supervisor → driver: lead, under this fencing token. The gate is already open.

    ``recorded``: the roots that the job's document lists, each with the token it was last claimed under; 0 where that is not known.
    """

    token: int
    recorded: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Revoked:
    """Supervisor → driver: nothing may be written any more, and the gate will not open again; what still runs is about to be killed."""

    reason: str


@dataclass(frozen=True, slots=True)
class PauseRehearsals:
    """Supervisor → driver: the leader is about to go, so rehearse nothing for ``seconds``; its lock is free before they are over."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Suspend:
    """Supervisor → driver: start no further batch, and say ``Suspended`` when none is running, or after ``patience`` seconds."""

    patience: float


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Supervisor → driver: the token was raised above a higher claim; claim again and go on."""

    token: int


@dataclass(frozen=True, slots=True)
class Hello:
    """Driver → supervisor: first line. Clocks in nanoseconds; ``time_namespace`` tells whether they can be compared."""

    pid: int
    boottime_ns: int
    monotonic_ns: int
    time_namespace: str


@dataclass(frozen=True, slots=True)
class Attached:
    """Driver → supervisor: a JVM is up, has mapped the gate and reads the same clocks."""

    spark: str
    jvm: int


@dataclass(frozen=True, slots=True)
class RehearsalReport:
    """Driver → supervisor: how ready this driver is.

    ``held`` says where the script waits (``flights.py:41``), ``how`` what was rehearsed (live, throwaway, synthetic, plan, or
    empty), ``reason`` why not. ``outdated`` names what the script has read and has changed since. ``queries``: how many of them
    were rehearsed.
    """

    held: str
    rehearsed: bool
    how: str
    rounds: int
    seconds: float
    reason: str = ""
    outdated: str = ""
    queries: int = 0


@dataclass(frozen=True, slots=True)
class Roots:
    """Driver → supervisor: every directory that this driver's queries hold claims of (checkpoints and sinks)."""

    roots: list[str]


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Driver → supervisor: a root holds a claim that ours cannot pass. ``owner``: whose it is, in words, or empty."""

    root: str
    reason: str
    token: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """Driver → supervisor: something that the user would rather know now."""

    text: str


@dataclass(frozen=True, slots=True)
class Starting:
    """Driver → supervisor: a takeover begins to claim and start that many deferred queries; ``Started`` follows."""

    queries: int


@dataclass(frozen=True, slots=True)
class Running:
    """Driver → supervisor: so many queries of a leader's script run. Said when it changes.

    ``failed``: by name, the first line of what ended a query that was not started again.
    """

    queries: int
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """Driver → supervisor: every deferred query was started, ``seconds`` after the grant (``claimed`` of them for claims)."""

    queries: int
    claimed: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Committed:
    """Driver → supervisor: the first commit since the grant landed, ``seconds`` after it."""

    root: str
    batch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StaleSnapshot:
    """Driver → supervisor: it stood by, took over, and fails before its first commit on something that changed meanwhile."""

    reason: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """Driver → supervisor: no batch is running (``clean``), or patience ran out."""

    clean: bool


@dataclass(frozen=True, slots=True)
class StillRunning:
    """Driver → supervisor: the script's main thread has ended, and ``what`` keeps the process."""

    what: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Driver → supervisor: the script ended, and every thread of its that is no daemon. ``code`` as the shell would see it, and not
    0 if a query failed; ``asked`` is false if it never wrote anything.

    ``fatal``: understudy itself refused the script, and starting it again would change nothing.
    """

    code: int
    error: str
    asked: bool
    fatal: bool = False


Message = (
    Granted
    | Revoked
    | PauseRehearsals
    | Suspend
    | Reclaim
    | Hello
    | Attached
    | RehearsalReport
    | Roots
    | ClaimRefused
    | Advice
    | Starting
    | Started
    | Running
    | Committed
    | StaleSnapshot
    | Suspended
    | StillRunning
    | Ended
)

_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        Granted,
        Revoked,
        PauseRehearsals,
        Suspend,
        Reclaim,
        Hello,
        Attached,
        RehearsalReport,
        Roots,
        ClaimRefused,
        Advice,
        Starting,
        Started,
        Running,
        Committed,
        StaleSnapshot,
        Suspended,
        StillRunning,
        Ended,
    )
}


#: Fields that name directories: they are compared with others, so they are not cut.
_LOCATIONS = frozenset({"root", "roots"})


def encode(message: Message) -> bytes:
    """One line. Texts in it may be shorter than they were, and without secrets."""
    return json.dumps({"say": type(message).__name__, **_presentable(asdict(message))}).encode() + b"\n"


def decode(line: bytes) -> Message:
    try:
        body = json.loads(line)
        kind = _KINDS[body.pop("say")]
        return kind(**_presentable(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        shown = presentable(repr(line[:80]))
        raise EnvironmentProblem(
            f"a line that is no message: {shown}", where="driver channel", remedy="Update both ends together"
        ) from cause


def _presentable(body: dict[str, Any]) -> dict[str, Any]:
    def of(name: str, value: Any) -> Any:
        match value:
            case str():
                return presentable_location(value) if name in _LOCATIONS else presentable(value)
            case list():
                return [of(name, each) for each in value]
            case dict():
                return {presentable(key): of(name, each) for key, each in value.items()}
            case _:
                return value

    return {name: of(name, value) for name, value in body.items()}
