"""How a supervisor starts a driver: the specification, and the environment variables it comes in."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from understudy.config.tree import Rehearsal, SparkDefaults
from understudy.errors import EnvironmentProblem
from understudy.protocol import typed

#: The specification, as JSON.
SPEC_VARIABLE = "UNDERSTUDY_DRIVER"
#: Two descriptors, ``channel,proof-of-life``.
CHANNEL_VARIABLE = "UNDERSTUDY_CHANNEL"
#: In the environment of every process of a replica: how stragglers that left session and group are found.
HOLDER_VARIABLE = "UNDERSTUDY_HOLDER"
#: The lock file whose release proves that all processes of a replica are gone.
ALIVE_VARIABLE = "UNDERSTUDY_ALIVE"

#: Niceness of a standby that warms up: a tenth of a leader's weight. The idle class would get nothing on a busy machine.
LOW_PRIORITY = 10
#: A standby's OOM score (0–1000) is this much above its leader's: the kernel kills it first when memory is short.
EXPENDABLE = 300


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """What a driver needs to know at its start. Groups of options are handed on as they were declared.

    ``defaults`` are settings for Spark that the user's own win over, ``settings`` those that win over the user's. ``executors``
    is how many to ask for at the grant; 0 leaves that to Spark. ``low_priority``: another replica leads; the kernel should favour
    it for CPU and memory. ``former_locks``: kinds of lock from which the job was moved, each with the highest epoch it granted.
    """

    holder: str
    cluster: str
    job: str
    lock_kind: str
    gate: str
    alive: str
    fence_jar: str
    fence_log: str
    write_timeout: float
    checkpoints: str
    scratch: str
    rehearsal: Rehearsal
    spark: SparkDefaults
    parent: int
    low_priority: bool
    script: str
    arguments: list[str] = field(default_factory=list)
    submit: list[str] = field(default_factory=list)
    defaults: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    executors: int = 0
    former_locks: dict[str, int] = field(default_factory=dict)
    calls_functions: bool = True  # whether rehearsals may call functions of the script's

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> DriverSpec:
        """Raises ``EnvironmentProblem`` that names the field which is missing, unknown or of another type."""
        try:
            return typed.build(cls, json.loads(text))
        except (ValueError, AttributeError) as cause:
            raise EnvironmentProblem(
                f"this is no specification of a driver: {cause}",
                where=SPEC_VARIABLE,
                remedy="Start scripts with understudy run",
            ) from cause
