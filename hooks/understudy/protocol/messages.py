"""Messages between a supervisor and its driver: JSON lines over a socketpair, with checked types.

One line is one message: ``{"message": "Granted", "token": 30064771073}``. A line that is no message is an error and never ignored: both
ends come from one installation, so a field that is missing, unknown or of another type means that something else holds the descriptor.

Both ends cut texts to ``redaction.LONGEST`` characters and mask secrets in them: what a driver reports ends up in documents and logs.
Neither end reads a line of more than ``LONGEST_LINE`` bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, get_args

from understudy.errors import EnvironmentProblem
from understudy.protocol import typed
from understudy.protocol.savepoint import SavedQuery
from understudy.redaction import presentable, presentable_location

#: No line is longer, in bytes. Texts are cut far below that; what may be long is a list of directories.
LONGEST_LINE = 4 << 20


@dataclass(frozen=True, slots=True)
class Granted:
    """Supervisor → driver: lead, under this fencing token. The gate is already open.

    ``recorded``: the roots that the job's document lists, each with the token it was last claimed under; 0 where that is not known.
    ``committed``: checkpoints, each with a batch that was committed there. ``drained``: checkpoints from which nothing goes
    on. ``draining``: no batch begins but the last one of each query.
    """

    token: int
    recorded: dict[str, int] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    drained: list[str] = field(default_factory=list)
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Revoked:
    """Supervisor → driver: the gate is closed for good, and what still runs is about to be killed."""

    reason: str


@dataclass(frozen=True, slots=True)
class PauseRehearsals:
    """Supervisor → driver: rehearse nothing for ``seconds``. The leader is about to release its lock, within that time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Quiesce:
    """Supervisor → driver: start no further batch; answer ``Quiesced`` when none is running, or after ``patience`` seconds."""

    patience: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Supervisor → driver: start no batch and no writer any more; answer ``Held``, at the latest ``timeout`` seconds from now.

    The hold lasts until ``LetGo``. A hold that fails ends by itself. ``request``: the id of what was asked of the job. ``drain``, ``save``:
    nothing is held if a query cannot be drained, or is without a checkpoint that lasts.
    """

    request: str
    timeout: float
    drain: bool = False
    save: bool = False


@dataclass(frozen=True, slots=True)
class LetGo:
    """Supervisor → driver: the hold is over; batches and writers go on."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Supervisor → driver: drain the queries of these checkpoints, which batches are held for; answer ``Drained``."""

    request: str
    roots: list[str]


@dataclass(frozen=True, slots=True)
class Save:
    """Supervisor → driver: copy the checkpoints, for which batches are held, to ``place`` as savepoint ``number``; answer ``Saved``.

    Copies take ``timeout`` seconds at most, and so do the proofs that they are whole. The hold ends with the copies, unless ``keep``.
    """

    request: str
    number: int
    place: str
    timeout: float
    keep: bool


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
    """Driver → supervisor: a JVM is up, has mapped the gate and reads the same clocks. ``jvm`` is its pid."""

    spark: str
    jvm: int


#: What was rehearsed where a script is held before it has declared a query: one that is none of its own.
WARM_UP = "warm-up"
#: What was rehearsed where rehearsals are off: nothing.
OFF = "off"


@dataclass(frozen=True, slots=True)
class RehearsalReport:
    """Driver → supervisor: how ready this driver is.

    ``held`` is where the script waits (``flights.py:41``), ``how`` what was rehearsed (live, throwaway, synthetic, plan,
    ``WARM_UP``, ``OFF``, or empty), ``reason`` why it was not. ``seconds`` is how long the last round took. ``outdated`` names what the
    script has read and what has changed since. ``queries`` counts those that were rehearsed. ``calls_functions`` is false once the
    script turned out to have functions that no rehearsal may call.
    """

    held: str
    rehearsed: bool
    how: str
    rounds: int
    seconds: float
    reason: str = ""
    outdated: str = ""
    queries: int = 0
    calls_functions: bool = True


@dataclass(frozen=True, slots=True)
class Roots:
    """Driver → supervisor: all directories that this driver's queries hold claims of (checkpoints and sinks)."""

    roots: list[str]


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Driver → supervisor: a root holds a claim that ours cannot pass. ``owner`` describes who holds it, or is empty."""

    root: str
    reason: str
    token: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """Driver → supervisor: a warning for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Starting:
    """Driver → supervisor: a takeover begins to claim and start this many deferred queries; ``Started`` follows."""

    queries: int


@dataclass(frozen=True, slots=True)
class Running:
    """Driver → supervisor: this many queries of a leader's script run. Sent when it changes.

    ``failed``: by name, the first line of what ended a query that was not started again.
    """

    queries: int
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """Driver → supervisor: all deferred queries were started, ``seconds`` after the grant (``claimed`` of them for claims)."""

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
class CommittedBatch:
    """The last batch that a query has committed to the checkpoint ``root``. ``query`` and ``sink`` are for people."""

    root: str
    query: str
    sink: str
    batch: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Driver → supervisor: how far each query has come. Sent now and then, and before ``Held`` and ``Committed``."""

    checkpoints: list[CommittedBatch]


@dataclass(frozen=True, slots=True)
class StaleSnapshot:
    """Driver → supervisor: it took over as a standby, and failed before its first commit on something that had changed meanwhile."""

    reason: str


@dataclass(frozen=True, slots=True)
class Quiesced:
    """Driver → supervisor: no batch is running (``clean``), or patience ran out."""

    clean: bool


@dataclass(frozen=True, slots=True)
class Held:
    """Driver → supervisor: nothing of the job runs, and nothing starts (``busy`` is empty); or what still ran after the time-out.

    ``began``: a JVM is up. Without one nothing is known of a batch that a predecessor has left. ``refused``: nothing was held, for what
    ``busy`` says. ``roots``: for a drain, the checkpoints of queries that have to be drained.
    """

    request: str
    busy: str
    began: bool = True
    refused: bool = False
    roots: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Drained:
    """Driver → supervisor: every query has let out what it kept back; or ``problem`` says why one has not."""

    request: str
    problem: str


@dataclass(frozen=True, slots=True)
class Saved:
    """Driver → supervisor: what savepoint ``number`` holds; or ``problem`` says why there is none, and its copies are gone.

    ``spark``: its version. ``held``: seconds for which no batch could begin; ``copied``: those of them in which files were copied.
    """

    request: str
    number: int
    problem: str
    spark: str = ""
    held: float = 0.0
    copied: float = 0.0
    queries: list[SavedQuery] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StillRunning:
    """Driver → supervisor: the script's main thread has ended, and ``what`` keeps the process."""

    what: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Driver → supervisor: the script ended, and all its threads that are no daemons.

    ``code`` as a shell would see it, and not 0 if a query failed. ``asked`` is false if the script never tried to write. ``fatal``:
    understudy itself refused the script, and starting it again would change nothing.
    """

    code: int
    error: str
    asked: bool
    fatal: bool = False


Message: TypeAlias = (
    Granted
    | Revoked
    | PauseRehearsals
    | Quiesce
    | Hold
    | LetGo
    | Drain
    | Save
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
    | Checkpoints
    | StaleSnapshot
    | Quiesced
    | Held
    | Drained
    | Saved
    | StillRunning
    | Ended
)

#: The field that names the kind.
_KIND = "message"
_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}

#: Fields that name directories: they are compared with others, so they are not cut.
_LOCATIONS = frozenset({"root", "roots", "drained", "place", "directory"})


def encode(message: Message) -> bytes:
    """Write one line. Texts in it may be shorter than they were, and without secrets."""
    return json.dumps({_KIND: type(message).__name__, **_presentable(asdict(message))}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Read one line. Raises ``EnvironmentProblem`` that names the field which is missing, unknown or of another type."""
    try:
        return _decode(json.loads(line))
    except (ValueError, RecursionError) as cause:
        shown = presentable(repr(line[:80]))
        raise EnvironmentProblem(
            f"a line that is no message ({presentable(str(cause))}): {shown}",
            where="driver channel",
            remedy="Update both ends together",
        ) from cause


def _decode(body: object) -> Message:
    if not isinstance(body, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - what is read is wrong, not what was passed
    name = body.pop(_KIND, None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{_KIND}: {name!r} is none")
    return typed.build(kind, _presentable(body))


def _presentable(body: dict[str, Any]) -> dict[str, Any]:
    def of(name: str, value: Any) -> Any:
        match value:
            case str():
                return presentable_location(value) if name in _LOCATIONS else presentable(value)
            case list():
                return [of(name, each) for each in value]
            case dict():
                return {presentable(key): of(key if key in _LOCATIONS else name, each) for key, each in value.items()}
            case _:
                return value

    return {name: of(name, value) for name, value in body.items()}
