"""What a stack is told, checked as a whole before anything is touched. Knows no Pulumi.

Values are never adjusted. Each rule that is broken is one ``SettingsError`` with the key, the value, the rule and an example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.reader import ANYTHING, ConfigReader, wrong
from infra.schedules import is_schedule
from infra.schema import PROJECT, complete
from infra.validation import check
from understudy.config.bundle import keys as option_keys
from understudy.config.option import Group
from understudy.config.tree import Rehearsal, Restart, SparkDefaults, Standby, Storage, Takeover
from understudy.protocol.names import Names, check_id

MODES = ("application", "native", "standalone")
WORKLOADS = ("Deployment", "StatefulSet", "Job", "CronJob")
LOCKS = ("", *option_keys()["lock"].choices)
SERVICES = option_keys()["ha"].choices
BUCKETS = ("existing", "aws", "s3", "gcs", "incluster")
PULLS = ("Always", "IfNotPresent", "Never")
SPREADS = ("preferred", "required")
#: In place of a schedule: runs are begun by hand only.
NO_SCHEDULE = "none"
#: Empty: the stack says nothing about it.
STATES = ("", "running", "suspended")


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
    submitted: bool
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
class HaSettings:
    """What keeps lock and documents. ``address``: as ``--ha-address`` has it. ``secret``: an existing one with the files that it names."""

    services: str
    address: str
    secret: str


@dataclass(frozen=True, slots=True)
class Run:
    """How replicas elect and run. ``lock`` is empty for the first kind that what keeps it has.

    ``state``: what the job is declared to be, empty where the stack says nothing. ``timings`` holds only what differs from the profile, in seconds. ``termination_grace``: seconds from SIGTERM to SIGKILL of a pod.
    Groups of options are those of ``understudy run``.
    """

    replicas: int
    state: str
    profile: str
    timings: Mapping[str, str]
    lock: str
    restart: Restart
    takeover: Takeover
    rehearsal: Rehearsal
    standby: Standby
    spark: SparkDefaults
    storage: Storage
    termination_grace: int
    mode: str
    cores: int
    master: str
    executors: int
    executor_cores: int
    executor_memory: str
    driver_memory: str

    @property
    def options(self) -> tuple[Group, ...]:
        """What replicas are told as it stands here."""
        return (self.restart, self.takeover, self.rehearsal, self.standby, self.spark, self.storage)


@dataclass(frozen=True, slots=True)
class Runs:
    """Of a script that ends. ``schedule``: cron's, or ``NO_SCHEDULE``; empty without a CronJob. ``deadline``: seconds, 0 for none."""

    schedule: str
    time_zone: str
    deadline: int

    @property
    def by_hand(self) -> bool:
        return self.schedule == NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Resources:
    """What a replica gets, and where it may run, in Kubernetes' quantities. ``workload``: what runs replicas, by its kind."""

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
    """``ha``: results of runs are kept there. ``secret``: an existing Secret. ``access_key`` and ``secret_key``: to make one from. Neither: workload identity."""

    kind: str
    name: str
    prefix: str
    ha: bool
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
class DataProtection:
    """What becomes of data. ``retain``: ``pulumi destroy`` keeps it; ``purge``: it does not, and production does not object."""

    production: bool
    retain: bool
    purge: bool


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """Who may reach replicas, and what they may reach. ``metrics_from``: a namespace. ``egress``: CIDRs; empty for everything."""

    policies: bool
    egress: tuple[str, ...]
    metrics_from: str


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What watches replicas: a PodMonitor, and the chart with rules and dashboards."""

    pod_monitor: bool
    labels: Mapping[str, str]
    chart: bool


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """Replicas as the cluster knows them. ``annotations`` carry a workload identity; ``flow_schema`` gives renewals priority."""

    annotations: Mapping[str, str]
    flow_schema: bool


@dataclass(frozen=True, slots=True)
class Settings:
    namespace: str
    create_namespace: bool
    context: str
    job: Job
    ha: HaSettings
    run: Run
    runs: Runs
    resources: Resources
    bucket: BucketSettings
    protection: DataProtection
    network: NetworkAccess
    monitoring: Monitoring
    account: ServiceAccount

    @property
    def on_volume(self) -> bool:
        """HA documents are on a PersistentVolume and not in the API server."""
        return self.resources.workload == "StatefulSet"

    @property
    def in_zookeeper(self) -> bool:
        """HA documents are in an ensemble of ZooKeeper."""
        return self.ha.services == "zookeeper"

    @property
    def in_api_server(self) -> bool:
        """HA documents are ConfigMaps, and the lock is a Lease or another one."""
        return not (self.on_volume or self.in_zookeeper)

    @property
    def ends(self) -> bool:
        """Replicas end with their run, which is one Job."""
        return self.resources.workload in {"Job", "CronJob"}

    @property
    def keeps(self) -> bool:
        """``pulumi destroy`` keeps HA data, bucket and namespace."""
        return self.protection.retain and not self.protection.purge


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Raises ``SettingsError`` for the first rule that ``given``, completed with the defaults, breaks."""
    reader = ConfigReader(complete(given))
    job = _job(reader)
    settings = Settings(
        namespace=reader.label(reader.needed("namespace", "a namespace", "streaming"), "namespace"),
        create_namespace=reader.value("createNamespace"),
        context=reader.text("context"),
        job=job,
        ha=_ha(reader),
        run=_run(reader),
        runs=Runs(_schedule(reader), _time_zone(reader), reader.at_least("activeDeadline", 0)),
        resources=_resources(reader),
        bucket=_bucket(reader, job.cluster),
        protection=DataProtection(reader.value("production"), reader.value("retain"), reader.value("purge")),
        network=_network(reader),
        monitoring=Monitoring(
            pod_monitor=reader.value("podMonitor"),
            labels=reader.labels("podMonitorLabels"),
            chart=reader.value("monitoringChart"),
        ),
        account=ServiceAccount(reader.labels("workloadIdentity", ANYTHING), reader.value("flowSchema")),
    )
    check(settings)
    return settings


def _job(reader: ConfigReader) -> Job:
    cluster = check_id(reader.text("clusterId"), "understudy:clusterId")
    secrets = {name: reader.reference(name, to) for name, to in reader.variables("secretEnvironment").items()}
    return Job(
        cluster=cluster,
        job=check_id(reader.text("jobId") or cluster, "understudy:jobId"),
        image=reader.image("image"),
        pull_policy=reader.one_of("imagePullPolicy", PULLS),
        pull_secrets=tuple(reader.object_name(each, "imagePullSecrets") for each in reader.value("imagePullSecrets")),
        script=reader.text("script"),
        script_file=reader.text("scriptFile"),
        submitted=reader.value("submitted"),
        arguments=tuple(reader.value("arguments")),
        environment=reader.variables("environment"),
        secret_environment=secrets,
        spark={name: str(value) for name, value in reader.value("sparkSettings").items()},
    )


def _ha(reader: ConfigReader) -> HaSettings:
    return HaSettings(
        services=reader.one_of("ha", SERVICES),
        address=reader.text("haAddress"),
        secret=reader.object_name_or_none("haSecret"),
    )


def _run(reader: ConfigReader) -> Run:
    return Run(
        replicas=reader.at_least("replicas", 1),
        state=reader.one_of("state", STATES),
        profile=reader.text("profile"),
        timings={name: str(value) for name, value in reader.value("timings").items()},
        lock=reader.one_of("lock", LOCKS),
        restart=reader.options(Restart),
        takeover=reader.options(Takeover),
        rehearsal=reader.options(Rehearsal),
        standby=reader.options(Standby),
        spark=reader.options(SparkDefaults),
        storage=reader.options(Storage),
        termination_grace=reader.at_least("terminationGracePeriod", 1),
        mode=reader.one_of("mode", MODES),
        cores=reader.at_least("cores", 1),
        master=reader.text("master"),
        executors=reader.at_least("executors", 1),
        executor_cores=reader.at_least("executorCores", 1),
        executor_memory=reader.java("executorMemory"),
        driver_memory=reader.java("driverMemory"),
    )


def _schedule(reader: ConfigReader) -> str:
    text = reader.text("schedule")
    if text not in {"", NO_SCHEDULE} and not is_schedule(text):
        rule = f"five fields of cron (minute, hour, day, month, day of the week), @hourly or the like, or {NO_SCHEDULE}"
        raise wrong("schedule", text, rule, '"0 * * * *"')
    return text


def _time_zone(reader: ConfigReader) -> str:
    form = r"|[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*"
    return reader.matching("timeZone", form, "a name of the time zone database", "Europe/Berlin")


def _resources(reader: ConfigReader) -> Resources:
    return Resources(
        workload=reader.one_of("workload", WORKLOADS),
        storage_class=reader.object_name_or_none("storageClass"),
        storage_size=reader.quantity("storageSize"),
        cpu=reader.quantity("cpu"),
        memory=reader.quantity("memory"),
        scratch=reader.quantity("scratchSize"),
        priority_class=reader.object_name_or_none("priorityClass"),
        node_selector=reader.labels("nodeSelector"),
        spread=reader.one_of("spread", SPREADS),
    )


def _bucket(reader: ConfigReader, cluster: str) -> BucketSettings:
    return BucketSettings(
        kind=reader.one_of("bucketKind", BUCKETS),
        name=reader.text("bucket"),
        prefix=reader.prefix("bucketPrefix") or cluster,
        ha=reader.value("haStorage"),
        endpoint=reader.text("bucketEndpoint"),
        region=reader.matching("bucketRegion", r"[a-z0-9-]+", "a region is needed, as AWS writes it", "eu-central-1"),
        secret=reader.object_name_or_none("bucketSecret"),
        access_key=reader.text("bucketAccessKey"),
        secret_key=reader.text("bucketSecretKey"),
        expire_days=reader.at_least("expireRehearsalsDays", 1),
        image=reader.text("bucketImage"),
    )


def _network(reader: ConfigReader) -> NetworkAccess:
    return NetworkAccess(
        policies=reader.value("networkPolicies"),
        egress=tuple(reader.network(each) for each in reader.value("egress")),
        metrics_from=reader.text("metricsFrom") and reader.label(reader.text("metricsFrom"), "metricsFrom"),
    )
