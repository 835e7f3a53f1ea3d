"""What a stack is told, checked as a whole before anything is touched. Knows no Pulumi.

Values are never adjusted. Each rule that is broken is one ``SettingsError`` with the key, the value, the rule and an example.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.declared import PROJECT, complete
from infra.quantities import java_bytes, quantity
from understudy.errors import SettingsError
from understudy.settings import Names, Timings, check_id, timings_from
from understudy.supervisor.settings import REHEARSALS

MODES = ("application", "native", "standalone")
WORKLOADS = ("Deployment", "StatefulSet")
LOCKS = ("lease", "configmap", "multi")
BUCKETS = ("existing", "aws", "s3", "gcs", "incluster")
PULLS = ("Always", "IfNotPresent", "Never")

#: What one replica needs beside the heap of its driver's JVM: the JVM's own, Python, and the supervisor.
_BESIDE_HEAP = 400 << 20
_MIB = 1 << 20
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
#: ``understudy run`` sets these by itself, and the script's pods depend on them.
_OURS = ("UNDERSTUDY_POD_UID", "UNDERSTUDY_POD_NAME", "UNDERSTUDY_POD_IP")


@dataclass(frozen=True, slots=True)
class Job:
    """``environment`` holds values, ``secret_environment`` pairs of an existing Secret's name and one of its keys."""

    cluster: str
    job: str
    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    script: str
    script_file: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    secret_environment: Mapping[str, tuple[str, str]]
    spark: Mapping[str, str]

    @property
    def names(self) -> Names:
        return Names(self.cluster, self.job)

    @property
    def script_source(self) -> str:
        """The text of ``script_file``; empty when the script is in the image."""
        return (PROJECT / self.script_file).read_text(encoding="utf-8") if self.script_file else ""


@dataclass(frozen=True, slots=True)
class Run:
    """How replicas elect and run. ``timings`` holds only what differs from the profile, in seconds."""

    replicas: int
    profile: str
    timings: Mapping[str, str]
    lock: str
    rehearse: str
    mode: str
    cores: int
    master: str
    executors: int
    standby_executors: int
    executor_memory: str
    driver_memory: str


@dataclass(frozen=True, slots=True)
class Room:
    """Room and placement, in Kubernetes' quantities. ``workload``: Deployment or StatefulSet."""

    workload: str
    storage_class: str
    storage_size: str
    cpu: str
    memory: str
    scratch: str
    priority_class: str
    node_selector: Mapping[str, str]
    spread: str


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """``secret``: an existing Secret. ``access_key`` and ``secret_key``: to make one from. Neither: workload identity."""

    kind: str
    name: str
    prefix: str
    endpoint: str
    region: str
    secret: str
    access_key: str
    secret_key: str
    expire_days: int

    @property
    def has_keys(self) -> bool:
        return bool(self.secret or self.access_key)

    def __repr__(self) -> str:
        """Without the keys: a traceback must not print them."""
        return f"BucketSettings({self.kind}, {self.name})"


@dataclass(frozen=True, slots=True)
class Safety:
    production: bool
    retain: bool
    purge: bool
    network_policies: bool
    egress: tuple[str, ...]
    metrics_from: str
    pod_monitor: bool
    monitoring_chart: bool
    flow_schema: bool
    identity: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    namespace: str
    create_namespace: bool
    context: str
    job: Job
    run: Run
    room: Room
    bucket: BucketSettings
    safety: Safety

    @property
    def on_volume(self) -> bool:
        """HA documents are on a PersistentVolume and not in the API server."""
        return self.room.workload == "StatefulSet"

    @property
    def keeps(self) -> bool:
        """``pulumi destroy`` keeps HA data, bucket and namespace."""
        return self.safety.retain and not self.safety.purge


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Raises ``SettingsError`` for the first rule that ``given``, completed with the defaults, breaks."""
    it = _Asked(complete(given))
    cluster = check_id(it.text("clusterId"), "understudy:clusterId")
    profile = it.text("profile")
    job = Job(
        cluster=cluster,
        job=check_id(it.text("jobId") or cluster, "understudy:jobId"),
        image=it.needed("image", "an image", "registry.example.com/flights:1.4.2"),
        pull_policy=it.one_of("imagePullPolicy", PULLS),
        pull_secrets=tuple(it.label(each, "imagePullSecrets") for each in it.value("imagePullSecrets")),
        script=it.text("script"),
        script_file=it.text("scriptFile"),
        arguments=tuple(it.value("arguments")),
        environment=it.variables("environment"),
        secret_environment={name: it.reference(name, to) for name, to in it.variables("secretEnvironment").items()},
        spark={name: str(value) for name, value in it.value("sparkSettings").items()},
    )
    run = Run(
        replicas=it.at_least("replicas", 1),
        profile=profile,
        timings={name: str(value) for name, value in it.value("timings").items()},
        lock=it.one_of("lock", LOCKS),
        rehearse=it.one_of("rehearse", REHEARSALS),
        mode=it.one_of("mode", MODES),
        cores=it.at_least("cores", 1),
        master=it.text("master"),
        executors=it.at_least("executors", 1),
        standby_executors=it.at_least("standbyExecutors", 0),
        executor_memory=it.java("executorMemory"),
        driver_memory=it.java("driverMemory"),
    )
    room = Room(
        workload=it.one_of("workload", WORKLOADS),
        storage_class=it.text("storageClass"),
        storage_size=it.quantity("storageSize"),
        cpu=it.quantity("cpu"),
        memory=it.quantity("memory"),
        scratch=it.quantity("scratchSize"),
        priority_class=it.text("priorityClass"),
        node_selector={name: str(value) for name, value in it.value("nodeSelector").items()},
        spread=it.one_of("spread", ("preferred", "required")),
    )
    bucket = BucketSettings(
        kind=it.one_of("bucketKind", BUCKETS),
        name=it.text("bucket"),
        prefix=it.text("bucketPrefix").strip("/") or cluster,
        endpoint=it.text("bucketEndpoint"),
        region=it.needed("bucketRegion", "a region", "eu-central-1"),
        secret=it.text("bucketSecret"),
        access_key=it.text("bucketAccessKey"),
        secret_key=it.text("bucketSecretKey"),
        expire_days=it.at_least("expireRehearsalsDays", 1),
    )
    safety = Safety(
        production=it.value("production"),
        retain=it.value("retain"),
        purge=it.value("purge"),
        network_policies=it.value("networkPolicies"),
        egress=tuple(it.network(each) for each in it.value("egress")),
        metrics_from=it.text("metricsFrom"),
        pod_monitor=it.value("podMonitor"),
        monitoring_chart=it.value("monitoringChart"),
        flow_schema=it.value("flowSchema"),
        identity={name: str(value) for name, value in it.value("workloadIdentity").items()},
    )
    namespace = it.label(it.needed("namespace", "a namespace", "streaming"), "namespace")
    settings = Settings(namespace, it.value("createNamespace"), it.text("context"), job, run, room, bucket, safety)
    _check_script(job)
    _check_run(settings)
    _check_bucket(bucket, safety)
    if safety.production:
        _check_production(settings)
    return settings


@dataclass(frozen=True, slots=True)
class _Asked:
    """The completed configuration, asked key by key."""

    values: Mapping[str, Any]

    def value(self, key: str) -> Any:
        return self.values[key]

    def text(self, key: str) -> str:
        return str(self.values[key]).strip()

    def needed(self, key: str, what: str, example: str) -> str:
        if not self.text(key):
            raise _wrong(key, "", f"{what} is needed", example)
        return self.text(key)

    def one_of(self, key: str, choices: tuple[str, ...]) -> str:
        if self.text(key) not in choices:
            raise _wrong(key, self.text(key), f"one of {', '.join(choices)}", choices[0])
        return self.text(key)

    def at_least(self, key: str, least: int) -> int:
        if self.value(key) < least:
            raise _wrong(key, self.value(key), f"at least {least}", max(least, 2))
        return int(self.value(key))

    def label(self, text: str, key: str) -> str:
        if not _LABEL.match(text):
            raise _wrong(key, text, "a DNS label: lower-case letters, digits and inner hyphens, up to 63", "streaming")
        return text

    def quantity(self, key: str) -> str:
        if quantity(self.text(key)) is None:
            raise _wrong(key, self.text(key), "a quantity of Kubernetes, above 0", "2Gi")
        return self.text(key)

    def java(self, key: str) -> str:
        if java_bytes(self.text(key)) is None:
            raise _wrong(key, self.text(key), "memory as Spark writes it", "1g")
        return self.text(key)

    def variables(self, key: str) -> dict[str, str]:
        for name in self.value(key):
            if not _VARIABLE.match(name) or name in _OURS:
                raise _wrong(key, name, f"names of variables, and none of {', '.join(_OURS)}", "LOG_LEVEL")
        return {name: str(value) for name, value in self.value(key).items()}

    def reference(self, name: str, to: str) -> tuple[str, str]:
        secret, slash, key = to.partition("/")
        if not (slash and _LABEL.match(secret) and key):
            raise _wrong("secretEnvironment", f"{name}: {to}", "SECRET/KEY for each name", "API_KEY: flights-api/key")
        return secret, key

    def network(self, text: str) -> str:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise _wrong("egress", text, f"a CIDR ({error})", "10.0.0.0/8") from None
        return text


def _wrong(key: str, value: object, rule: str, example: object) -> SettingsError:
    shown = f"{value!r} is refused; " if value != "" else ""
    return SettingsError(f"{shown}{rule}", where=f"understudy:{key}", remedy=f"For example {example}")


def _check_script(job: Job) -> None:
    if bool(job.script) == bool(job.script_file):
        raise _wrong("script", job.script, "either script (in the image) or scriptFile (here)", "/app/flights.py")
    if not job.script_file:
        return
    path = Path(PROJECT, job.script_file)
    if not path.is_file():
        raise _wrong("scriptFile", job.script_file, "a file, relative to Pulumi.yaml", "examples/flights.py")
    if path.stat().st_size > 900_000:
        raise _wrong("scriptFile", job.script_file, "below 900 kB: a ConfigMap holds 1 MiB. Put it into the image", "")


def _check_run(settings: Settings) -> None:
    run, room = settings.run, settings.room
    _check_timings(run, whole=not settings.on_volume)
    if run.mode == "standalone" and not re.match(r"^spark://[^\s/:]+:\d+(,[^\s/:]+:\d+)*$", run.master):
        raise _wrong("master", run.master, "mode standalone needs the URL of a Spark master", "spark://master:7077")
    if run.mode != "standalone" and run.master:
        raise _wrong("master", run.master, f"mode {run.mode} has no master to name; set mode to standalone", "")
    if run.standby_executors > run.executors:
        raise _wrong("standbyExecutors", run.standby_executors, f"no more than executors ({run.executors})", 1)
    if settings.on_volume and run.replicas != 1:
        raise _wrong("replicas", run.replicas, "a StatefulSet's volume is one pod's; it has 1 replica", 1)
    if settings.on_volume and run.mode == "native":
        raise _wrong("mode", run.mode, "a StatefulSet on a volume has no access to the API server", "application")
    heap, limit = java_bytes(run.driver_memory) or 0, quantity(room.memory) or 0
    needed = int(heap * 1.1) + _BESIDE_HEAP
    if limit < needed:
        rule = f"below driverMemory {run.driver_memory} and what Python and the JVM need beside it, {needed // _MIB}Mi"
        raise _wrong("memory", room.memory, rule, f"{-(-needed // _MIB)}Mi")


def _check_timings(run: Run, *, whole: bool) -> None:
    """By the very rule that replicas check them with."""
    try:
        timings: Timings = timings_from(run.profile, run.timings)
    except SettingsError as error:
        key = "profile" if error.where == "--profile" else "timings"
        raise SettingsError(f"{error.where}: {error.what}", where=f"understudy:{key}", remedy=error.remedy) from None
    if whole and timings.lease != int(timings.lease):
        raise _wrong("timings", timings.lease, "a Kubernetes lock holds a lease of whole seconds", "lease: 20")


def _check_bucket(bucket: BucketSettings, safety: Safety) -> None:
    if bucket.kind == "gcs":
        rule = "checkpoints on gs:// cannot be fenced: the fence needs exclusive creates, which s3a:// has"
        raise _wrong("bucketKind", "gcs", rule, "existing, with an S3 bucket")
    if not _BUCKET.match(bucket.name):
        raise _wrong("bucket", bucket.name, "a bucket's name: 3 to 63 of a-z, 0-9, dots and hyphens", "flights-ha")
    if bucket.endpoint and not re.match(r"^https?://[^\s/]+/?$", bucket.endpoint):
        raise _wrong("bucketEndpoint", bucket.endpoint, "a URL without a path", "https://s3.example.com")
    if bucket.kind == "s3" and not bucket.endpoint:
        raise _wrong("bucketEndpoint", "", "bucketKind s3 needs the server's URL", "https://s3.example.com")
    if bucket.kind in {"aws", "incluster"} and bucket.endpoint:
        raise _wrong("bucketEndpoint", bucket.endpoint, f"bucketKind {bucket.kind} knows its own", "bucketKind: s3")
    if bool(bucket.access_key) != bool(bucket.secret_key):
        key = "bucketSecretKey" if bucket.access_key else "bucketAccessKey"
        raise _wrong(
            key, "", "bucketAccessKey and bucketSecretKey belong together", f"pulumi config set --secret {key}"
        )
    if bucket.secret and bucket.access_key:
        raise _wrong("bucketSecret", bucket.secret, "either an existing Secret or keys to make one from", "not both")
    if not bucket.has_keys and (bucket.endpoint or bucket.kind == "incluster"):
        rule = "no credentials: a server of your own knows no workload identity"
        raise _wrong("bucketSecret", "", rule, "bucketSecret: flights-bucket")
    if bucket.has_keys and safety.identity:
        raise _wrong("workloadIdentity", dict(safety.identity), "either keys or a workload identity", "not both")


def _check_production(settings: Settings) -> None:
    safety, image = settings.safety, settings.job.image
    if not safety.retain and not safety.purge:
        raise _wrong("retain", "false", "in production HA data goes with purge only", "purge: true, for one destroy")
    if settings.bucket.kind == "incluster":
        raise _wrong("bucketKind", "incluster", "the chart's object store is for development", "existing")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    if "@sha256:" not in image and tag in {"", "latest"}:
        raise _wrong("image", image, "in production an image has a tag of its own or a digest", "flights:1.4.2")
    if settings.run.replicas < 2 and not settings.on_volume:
        raise _wrong("replicas", settings.run.replicas, "in production there is a standby", 2)
