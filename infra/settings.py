"""What a stack is told, checked as a whole before anything is touched. Knows no Pulumi.

Values are never adjusted. Each rule that is broken is one ``SettingsError`` with the key, the value, the rule and an example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.reader import ANYTHING, ConfigReader
from infra.schema import PROJECT, complete
from infra.validation import check
from understudy.protocol.names import Names, check_id
from understudy.supervisor.settings import REHEARSALS

MODES = ("application", "native", "standalone")
WORKLOADS = ("Deployment", "StatefulSet")
LOCKS = ("lease", "configmap", "multi")
BUCKETS = ("existing", "aws", "s3", "gcs", "incluster")
PULLS = ("Always", "IfNotPresent", "Never")


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
class Rehearsals:
    """``every`` and ``max_age`` in seconds; ``rows`` and ``bytes`` per hour."""

    mode: str
    rounds: int
    every: int
    rows: int
    bytes: int
    max_age: int


@dataclass(frozen=True, slots=True)
class Endings:
    """What follows a failure, and how long what is told to stop may take; all but ``restart_attempts`` in seconds."""

    restart_attempts: int
    restart_window: int
    restart_delay: float
    stop_patience: float
    takeover_timeout: int
    grace: int


@dataclass(frozen=True, slots=True)
class Run:
    """How replicas elect and run. ``timings`` holds only what differs from the profile, in seconds."""

    replicas: int
    profile: str
    timings: Mapping[str, str]
    lock: str
    rehearsals: Rehearsals
    endings: Endings
    tune: bool
    mode: str
    cores: int
    master: str
    executors: int
    executor_cores: int
    standby_executors: int
    executor_memory: str
    driver_memory: str


@dataclass(frozen=True, slots=True)
class Resources:
    """What a replica gets, and where it may run, in Kubernetes' quantities. ``workload``: Deployment or StatefulSet."""

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
    image: str

    @property
    def has_keys(self) -> bool:
        return bool(self.secret or self.access_key)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Where S3A looks for keys, and what the Secret calls them; none with workload identity."""
        return ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if self.has_keys else ()

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
    pod_monitor_labels: Mapping[str, str]
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
    resources: Resources
    bucket: BucketSettings
    safety: Safety

    @property
    def on_volume(self) -> bool:
        """HA documents are on a PersistentVolume and not in the API server."""
        return self.resources.workload == "StatefulSet"

    @property
    def keeps(self) -> bool:
        """``pulumi destroy`` keeps HA data, bucket and namespace."""
        return self.safety.retain and not self.safety.purge


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Raises ``SettingsError`` for the first rule that ``given``, completed with the defaults, breaks."""
    it = ConfigReader(complete(given))
    cluster = check_id(it.text("clusterId"), "understudy:clusterId")
    profile = it.text("profile")
    job = Job(
        cluster=cluster,
        job=check_id(it.text("jobId") or cluster, "understudy:jobId"),
        image=it.image("image"),
        pull_policy=it.one_of("imagePullPolicy", PULLS),
        pull_secrets=tuple(it.object_name(each, "imagePullSecrets") for each in it.value("imagePullSecrets")),
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
        rehearsals=Rehearsals(
            mode=it.one_of("rehearse", REHEARSALS),
            rounds=it.at_least("rehearseRounds", 1),
            every=it.at_least("rehearseEvery", 1),
            rows=it.at_least("rehearseRows", 1),
            bytes=it.at_least("rehearseBytes", 1),
            max_age=it.at_least("standbyMaxAge", 1),
        ),
        endings=Endings(
            restart_attempts=it.at_least("restartAttempts", 0),
            restart_window=it.at_least("restartWindow", 1),
            restart_delay=it.seconds("restartDelay"),
            stop_patience=it.seconds("stopPatience"),
            takeover_timeout=it.at_least("takeoverTimeout", 1),
            grace=it.at_least("terminationGracePeriod", 1),
        ),
        tune=it.value("tune"),
        mode=it.one_of("mode", MODES),
        cores=it.at_least("cores", 1),
        master=it.text("master"),
        executors=it.at_least("executors", 1),
        executor_cores=it.at_least("executorCores", 1),
        standby_executors=it.at_least("standbyExecutors", 0),
        executor_memory=it.java("executorMemory"),
        driver_memory=it.java("driverMemory"),
    )
    resources = Resources(
        workload=it.one_of("workload", WORKLOADS),
        storage_class=it.object_name_or_none("storageClass"),
        storage_size=it.quantity("storageSize"),
        cpu=it.quantity("cpu"),
        memory=it.quantity("memory"),
        scratch=it.quantity("scratchSize"),
        priority_class=it.object_name_or_none("priorityClass"),
        node_selector=it.labels("nodeSelector"),
        spread=it.one_of("spread", ("preferred", "required")),
    )
    bucket = BucketSettings(
        kind=it.one_of("bucketKind", BUCKETS),
        name=it.text("bucket"),
        prefix=it.prefix("bucketPrefix") or cluster,
        endpoint=it.text("bucketEndpoint"),
        region=it.matching("bucketRegion", r"[a-z0-9-]+", "a region is needed, as AWS writes it", "eu-central-1"),
        secret=it.object_name_or_none("bucketSecret"),
        access_key=it.text("bucketAccessKey"),
        secret_key=it.text("bucketSecretKey"),
        expire_days=it.at_least("expireRehearsalsDays", 1),
        image=it.text("bucketImage"),
    )
    safety = Safety(
        production=it.value("production"),
        retain=it.value("retain"),
        purge=it.value("purge"),
        network_policies=it.value("networkPolicies"),
        egress=tuple(it.network(each) for each in it.value("egress")),
        metrics_from=it.text("metricsFrom") and it.label(it.text("metricsFrom"), "metricsFrom"),
        pod_monitor=it.value("podMonitor"),
        pod_monitor_labels=it.labels("podMonitorLabels"),
        monitoring_chart=it.value("monitoringChart"),
        flow_schema=it.value("flowSchema"),
        identity=it.labels("workloadIdentity", ANYTHING),
    )
    namespace = it.label(it.needed("namespace", "a namespace", "streaming"), "namespace")
    settings = Settings(namespace, it.value("createNamespace"), it.text("context"), job, run, resources, bucket, safety)
    check(settings)
    return settings
