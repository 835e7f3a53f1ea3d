"""Every option of ``understudy run``, declared once: type, default, unit, meaning, and where else it is known.

A new option is a field here and the code that reads it. The command line, its help, the environment variable and completion follow;
with ``bundle=`` the bundle has a key for it, once ``python -m tools.tables`` has written Pulumi.yaml, its schema and the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

from understudy.config.locks import BUILT_IN
from understudy.config.option import BundleKey, Declared, Group, Option, Unit, options_of
from understudy.errors import SettingsError

SECONDS = Unit("seconds", "s")
ROUNDS = Unit("rounds")
ROWS_PER_HOUR = Unit("rows per hour")
BYTES = Unit("bytes")
BYTES_PER_HOUR = Unit("bytes per hour")
PODS = Unit("pods")
FAILURES = Unit("failures")

#: Restarts that can be allowed: the document of a job keeps a time for each failure.
MOST_ATTEMPTS = 1000

RehearsalMode = Literal["live", "synthetic", "plan", "off"]
RestartStrategy = Literal["exponential", "fixed-delay", "none"]

#: A key that follows from its option, and one that takes whole seconds.
_KEY, _WHOLE = BundleKey(), BundleKey(type="integer")


@dataclass(frozen=True, slots=True)
class Job(Group):
    """Which job this is, among others and among its own runs."""

    panel: ClassVar[str] = "Job"

    cluster_id: Annotated[
        str,
        Declared(
            "Replicas with one cluster id elect one leader. A DNS label of up to 40 characters; names the objects.",
            default_words="the script's name",
            bundle=BundleKey(required=True),
        ),
    ] = ""
    job_id: Annotated[
        str,
        Declared(
            "What this cluster runs; another job id is refused.", default_words="the cluster id", bundle=BundleKey()
        ),
    ] = ""
    run_id: Annotated[
        str,
        Declared(
            "Which run of the job this is. A run that has ended never runs again; a new id begins a new one.",
            default_words="the run under way",
        ),
    ] = ""
    submitted: Annotated[
        bool,
        Declared(
            "Run what understudy submit has stored, the newest there is at this start, instead of a script of this command line; wait for it, if"
            " there is none. Needs --cluster-id and --ha-storage.",
            bundle=BundleKey(
                meaning="Replicas run what understudy submit has stored, instead of script or scriptFile, which are empty then. Needs haStorage."
            ),
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Election(Group):
    """The lock, where it and the documents are, and its timing."""

    panel: ClassVar[str] = "Election"

    ha: Annotated[
        str,
        Declared(
            "The high-availability services, which keep lock and documents: kubernetes, filesystem (this machine), zookeeper, s3 (a bucket), or those of another package.",
            default_words="what --lock belongs to; without it, kubernetes in a pod, else filesystem",
            bundle=BundleKey(
                default="kubernetes",
                choices=("kubernetes", "zookeeper"),
                meaning="What keeps lock and documents: kubernetes (the API server; on a StatefulSet, its volume), or zookeeper (the ensemble at"
                " haAddress).",
            ),
        ),
    ] = ""
    ha_address: Annotated[
        str,
        Declared(
            "Where those services are, if they are neither in this cluster nor on this machine: s3a://BUCKET/PREFIX for s3.",
            default_words="none",
            bundle=BundleKey(
                meaning="Where the ensemble is, as --ha-address has it: HOST:PORT,HOST:PORT,HOST:PORT/PATH, with options after a ?; files that"
                " these name are keys of haSecret, below /etc/understudy/ha/. Empty without ha zookeeper."
            ),
        ),
    ] = ""
    lock: Annotated[
        str,
        Declared(
            "The lock: file on one machine; lease, configmap or multi (both) in a cluster; zookeeper; s3; another one where --ha has others.",
            default_words="the first that --ha has: lease in a pod, else file",
            bundle=BundleKey(
                default="",
                choices=BUILT_IN["kubernetes"],
                meaning="lease, configmap, or multi (both) for migrations. Empty for lease, and with ha zookeeper for its own.",
            ),
        ),
    ] = ""
    namespace: Annotated[str, Declared("Namespace of the cluster id's objects.", default_words="the pod's own")] = ""
    ha_dir: Annotated[
        Path | None,
        Declared("Where documents and proofs of life are kept.", default_words="~/.local/state/understudy"),
    ] = None
    profile: Annotated[
        Literal["default", "fast"], Declared("Lease timing: default (15 s) or fast (5 s).", bundle=_KEY)
    ] = "default"
    timing: Annotated[
        tuple[str, ...],
        Declared(
            "One timing of the profile, as name=value in seconds; may be repeated. Names: lease (the lease duration), renew (the"
            " renew deadline), retry (the retry period), request, kill, write_timeout, grace.",
            unit=Unit("name=seconds"),
            bundle=BundleKey(
                name="timings",
                type="object",
                default={},
                meaning="Single timings of the profile in seconds: lease (the lease duration), renew (the renew deadline), retry"
                " (the retry period), request, kill, write_timeout, grace.",
            ),
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class Storage(Group):
    """Where queries and rehearsals write."""

    panel: ClassVar[str] = "Storage"

    checkpoints: Annotated[
        str,
        Declared(
            "Base of the checkpoints of queries that name no location, by query name.",
            default_words="below --ha-dir, with --ha filesystem",
        ),
    ] = ""
    scratch: Annotated[
        str,
        Declared("Where rehearsals write, if executors run elsewhere.", default_words="this machine's disk"),
    ] = ""
    ha_storage: Annotated[
        str,
        Declared(
            "Where the results of runs are kept, which outlive the documents, savepoints, and what is submitted: s3a://BUCKET/PREFIX, reached as"
            " Spark's settings say, or a directory. Without it results are in the documents only.",
            default_words="nowhere",
        ),
    ] = ""
    delete_result_on_commit: Annotated[
        bool,
        Declared(
            "Delete the result of a run from HA storage once nothing of the run is left to remove. Then the run begins again if the documents are"
            " lost.",
            bundle=_KEY,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Rehearsal(Group):
    """What a standby rehearses, and how much it may read for that. Part of the driver's specification."""

    panel: ClassVar[str] = "Rehearsals"
    prefix: ClassVar[str] = "rehearse"

    mode: Annotated[
        RehearsalMode,
        Declared("What standbys rehearse on: live, synthetic, plan or off.", name="rehearse", bundle=_KEY),
    ] = "live"
    rounds: Annotated[
        int,
        Declared("Rounds that a standby rehearses before the schedule begins.", unit=ROUNDS, at_least=1, bundle=_KEY),
    ] = 32
    user_code: Annotated[
        bool,
        Declared(
            "Rehearsals call every foreachBatch function. Its Spark writes are redirected; other effects, and threads made before, are not.",
            bundle=_KEY,
        ),
    ] = False
    every: Annotated[float, Declared("Seconds between scheduled rehearsals.", unit=SECONDS, above=0, bundle=_WHOLE)] = (
        30.0
    )
    rows: Annotated[
        int,
        Declared(
            "Rows of its sources that a standby's rehearsals read per hour; more, and they wait.",
            unit=ROWS_PER_HOUR,
            at_least=1,
            bundle=_KEY,
        ),
    ] = 10_000_000
    bytes: Annotated[
        int,
        Declared(
            "Bytes of files that a standby's rehearsals read per hour; more, and they wait.",
            unit=BYTES_PER_HOUR,
            at_least=1,
            bundle=_KEY,
        ),
    ] = 2_000_000_000
    state: Annotated[
        int, Declared("Bytes of its queries' state that a standby keeps loaded.", unit=BYTES, at_least=0, bundle=_KEY)
    ] = 4_000_000_000


@dataclass(frozen=True, slots=True)
class Standby(Group):
    """How a standby keeps itself up to date and warm."""

    panel: ClassVar[str] = "Standbys"
    prefix: ClassVar[str] = "standby"

    max_age: Annotated[
        float,
        Declared(
            "Seconds after which a standby's script runs again from the top, one standby at a time.",
            unit=SECONDS,
            above=0,
            bundle=_WHOLE,
        ),
    ] = 3600.0
    executors: Annotated[
        int,
        Declared(
            "Executor pods that a standby keeps warm to rehearse with, where executors are pods (--master k8s://…).",
            unit=PODS,
            at_least=0,
            bundle=BundleKey(meaning="Executor pods that a standby keeps warm, native mode.", mode="native"),
        ),
    ] = 1


@dataclass(frozen=True, slots=True)
class Takeover(Group):
    """How long a leader may take to stop, and its successor to start."""

    panel: ClassVar[str] = "Takeover"
    prefix: ClassVar[str] = "takeover"

    stop_patience: Annotated[
        float,
        Declared(
            "Seconds that a stopping leader gives a running foreachBatch or batch writer to finish, if that may be enough, and then"
            " the script's own handler of SIGTERM.",
            unit=SECONDS,
            name="stop_patience",
            above=0,
            bundle=_KEY,
        ),
    ] = 0.3
    timeout: Annotated[
        float,
        Declared(
            "Seconds from the grant within which the queries that a standby has declared must start; otherwise its driver counts as"
            " failed.",
            unit=SECONDS,
            above=0,
            bundle=_WHOLE,
        ),
    ] = 120.0


@dataclass(frozen=True, slots=True)
class Restart(Group):
    """What follows a failure. Raises ``SettingsError``, too, for numbers that say nothing under the strategy."""

    panel: ClassVar[str] = "Restarts"
    prefix: ClassVar[str] = "restart"

    strategy: Annotated[
        RestartStrategy,
        Declared(
            "What follows a failure of the leader's driver: exponential restarts it after a delay that doubles with each further failure,"
            " fixed-delay always after the same one, and none lets the job fail.",
            bundle=_KEY,
        ),
    ] = "exponential"
    attempts: Annotated[
        int,
        Declared(
            "Failures that are followed by a restart; after the next one the job has FAILED, until it is resumed. All count, until a driver has"
            f" run for the restart window. At most {MOST_ATTEMPTS}.",
            unit=FAILURES,
            at_least=0,
            at_most=MOST_ATTEMPTS,
            bundle=_KEY,
        ),
    ] = 10
    window: Annotated[
        float,
        Declared(
            "Seconds that a driver has to run, once its script has come up, for earlier failures to be forgotten; looked at once a minute.",
            unit=SECONDS,
            above=0,
            bundle=_WHOLE,
        ),
    ] = 600.0
    delay: Annotated[
        float,
        Declared(
            "Seconds before a driver is started again after its first failure; doubles with each further one, up to a minute, unless the"
            " strategy is fixed-delay.",
            unit=SECONDS,
            above=0,
            bundle=_KEY,
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        Group.__post_init__(self)
        for option in options_of(Restart):
            said = getattr(self, option.field)
            if self.strategy == "none" and option.field != "strategy" and said != option.default:
                raise SettingsError(
                    "says nothing under the restart strategy none, with which the first failure is the last one",
                    where=option.flag,
                    remedy="Leave it out, or choose exponential or fixed-delay",
                )


@dataclass(frozen=True, slots=True)
class SparkDefaults(Group):
    """What the driver's Spark is told where nothing else is set. Part of the driver's specification."""

    panel: ClassVar[str] = "Spark"

    tune: Annotated[
        bool,
        Declared(
            "RocksDB with a changelog and 8 shuffle partitions for new checkpoints, where nothing else is set.",
            bundle=_KEY,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Probes(Group):
    """What a replica serves."""

    panel: ClassVar[str] = "Probes"

    listen: Annotated[
        str,
        Declared(
            "Serve /livez, /readyz and /metrics at host:port.",
            default_words="nowhere; with --ha kubernetes [::]:8080, every address of IPv4 and IPv6",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class Config:
    """The tree: what one replica was told, as it was told."""

    job: Job = field(default_factory=Job)
    election: Election = field(default_factory=Election)
    storage: Storage = field(default_factory=Storage)
    restart: Restart = field(default_factory=Restart)
    takeover: Takeover = field(default_factory=Takeover)
    rehearsal: Rehearsal = field(default_factory=Rehearsal)
    standby: Standby = field(default_factory=Standby)
    spark: SparkDefaults = field(default_factory=SparkDefaults)
    probes: Probes = field(default_factory=Probes)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Config:
        """From each option's value by its name. Raises ``SettingsError``."""
        groups: dict[str, Any] = {
            name: group(**{option.field: option.read(values[option.name]) for option in options_of(group)})
            for name, group in _groups().items()
        }
        return cls(**groups)


def _groups() -> dict[str, type[Group]]:
    return get_type_hints(Config)


def options() -> list[Option]:
    """Every option, in the order of help."""
    return [option for group in _groups().values() for option in options_of(group)]
