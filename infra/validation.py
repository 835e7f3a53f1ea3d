"""Rules between keys. Values are never adjusted; a broken rule names the key to change."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from infra.ensemble import check_ensemble
from infra.quantities import java_bytes, quantity
from infra.reader import ENTRY, wrong
from infra.schema import PROJECT
from understudy.config.bundle import key_of
from understudy.config.timings import Timings, timings_from
from understudy.config.tree import options
from understudy.errors import SettingsError
from understudy.s3.settings import refuse_unknown

if TYPE_CHECKING:
    from infra.settings import BucketSettings, Job, NetworkAccess, Run, ServiceAccount, Settings

#: Bytes that one replica needs on top of the heap of its driver's JVM: the JVM itself, Python, and the supervisor.
_ON_TOP_OF_HEAP = 400 << 20
_MIB = 1 << 20
#: Seconds of a pod's grace period: the minimum, and what is needed on top of twice the patience.
_LEAST_GRACE, _ON_TOP_OF_PATIENCE = 10, 8
#: Hosts with ports, an IPv6 address in brackets.
_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[^\s/:,\[\]]+):[0-9]+"
_MASTER = re.compile(rf"spark://{_HOST}(?:,{_HOST})*")
#: ``understudy run`` reads this variable; in a Job or a CronJob the builders set it.
RUN_ID = "UNDERSTUDY_RUN_ID"
#: These variables lead other commands in the pod to its job, so they may be set; so may a run's id where no builder sets it.
_FOR_COMMANDS = (RUN_ID, *(f"UNDERSTUDY_{name}" for name in ("CLUSTER_ID", "JOB_ID", "HA_DIR", "HA_STORAGE")))
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def check(settings: Settings) -> None:
    """Raises ``SettingsError`` for the first rule that is broken."""
    _check_names(settings.job)
    _check_script(settings)
    _check_environment(settings.job, settings.bucket)
    _check_spark(settings.job, settings.bucket)
    check_ensemble(settings)
    _check_run(settings)
    _check_runs(settings)
    _check_monitor(settings)
    _check_policies(settings.network)
    _check_bucket(settings.bucket)
    _check_credentials(settings.bucket, settings.account)
    if settings.protection.production:
        _check_production(settings)


def _check_names(job: Job) -> None:
    names = job.names
    if names.collide:
        rule = f"{names.job_document} is the name of another HA document"
        raise wrong("jobId", job.job, rule, remedy="Name the job for what it computes")


def _check_script(settings: Settings) -> None:
    job = settings.job
    if sum(map(bool, (job.script, job.script_file, job.submitted))) != 1:
        rule = "either script (in the image), scriptFile (here), or submitted"
        raise wrong("script", job.script, rule, "/app/flights.py")
    if job.submitted:
        _check_submitted(settings)
    if not job.script_file:
        return
    path = Path(PROJECT, job.script_file)
    if not path.is_file():
        raise wrong("scriptFile", job.script_file, "a file, relative to Pulumi.yaml", "examples/flights.py")
    if not ENTRY.fullmatch(path.name):
        raise wrong("scriptFile", job.script_file, "a name of letters, digits, dots, - and _", "examples/flights.py")
    if path.stat().st_size > 900_000:
        raise wrong(
            "scriptFile",
            job.script_file,
            "below 900 kB: a ConfigMap holds 1 MiB",
            remedy="Put it into the image, or submit it (submitted)",
        )


def _check_submitted(settings: Settings) -> None:
    if not settings.bucket.ha:
        rule = "there is no HA storage to fetch it from"
        raise wrong("submitted", value=True, rule=rule, remedy="Leave it out, or set haStorage to true")
    if settings.on_volume:
        rule = "a StatefulSet's documents are on its own pod's volume"
        raise wrong("submitted", value=True, rule=rule, remedy="Use script or scriptFile")
    if settings.job.arguments:
        rule = "they are submitted with the script"
        raise wrong("arguments", list(settings.job.arguments), rule, remedy="Give them to understudy submit")


def _check_environment(job: Job, bucket: BucketSettings) -> None:
    for name in job.environment:
        if name in job.secret_environment or name in bucket.key_variables:
            rule = "is set from a Secret as well"
            raise wrong("environment", name, rule, remedy="Leave it out here, or there")
    for name in job.secret_environment:
        if name in bucket.key_variables:
            rule = "is one of the bucket's keys, and with the other one of bucketSecret they would be no pair"
            remedy = "Put both keys into one Secret, and name that in bucketSecret"
            raise wrong("secretEnvironment", name, rule, remedy=remedy)
    for key, names in (("environment", job.environment), ("secretEnvironment", job.secret_environment)):
        for name in names:
            _check_variable(key, name)


def _check_variable(key: str, name: str) -> None:
    """Replicas read their options from variables, too: one that the bundle sets on the command line wins over it without a word."""
    option = next((each for each in options() if each.variable == name), None)
    if option is None or name in _FOR_COMMANDS:
        return
    of = key_of(option)
    remedy = f"Set {of.name}" if of is not None else "Leave it out"
    raise wrong(key, name, f"is the option {option.flag} of understudy run, which the bundle sets", remedy=remedy)


def _check_spark(job: Job, bucket: BucketSettings) -> None:
    for name, key in _HAVE_KEYS.items():
        if name in job.spark:
            raise wrong("sparkSettings", name, f"is what {key} is for", remedy=f"Set {key}")
    if bucket.ha:
        try:
            refuse_unknown(job.spark, bucket.name)
        except SettingsError as error:
            raise wrong("sparkSettings", f"spark.hadoop.{error.where}", error.what, remedy=error.remedy) from None


#: Settings of Spark that rules here depend on.
_HAVE_KEYS = {
    "spark.master": "mode",
    "spark.driver.memory": "driverMemory",
    "spark.executor.memory": "executorMemory",
    "spark.executor.cores": "executorCores",
    "spark.executor.instances": "executors",
    "spark.cores.max": "executors",
}


def _check_run(settings: Settings) -> None:
    run, resources = settings.run, settings.resources
    _check_timings(run, whole=settings.in_api_server)
    _check_grace(run)
    if run.mode == "standalone" and not _MASTER.fullmatch(run.master):
        raise wrong("master", run.master, "mode standalone needs the URL of a Spark master", "spark://master:7077")
    if run.mode != "standalone" and run.master:
        raise wrong(
            "master",
            run.master,
            f"mode {run.mode} has no master to name",
            remedy="Set mode to standalone, or leave master empty",
        )
    if run.standby.executors > run.executors:
        raise wrong("standbyExecutors", run.standby.executors, f"no more than executors ({run.executors})", 1)
    if settings.on_volume:
        _check_on_volume(settings)
    if run.storage.delete_result_on_commit and not settings.bucket.ha:
        rule = "there is no HA storage to delete a result from"
        raise wrong("deleteResultOnCommit", value=True, rule=rule, remedy="Leave it out, or set haStorage to true")
    heap, limit = java_bytes(run.driver_memory) or 0, quantity(resources.memory) or 0
    needed = int(heap * 1.1) + _ON_TOP_OF_HEAP
    if limit < needed:
        rule = (
            f"below driverMemory {run.driver_memory} and what Python and the JVM need on top of it, {needed // _MIB}Mi"
        )
        raise wrong("memory", resources.memory, rule, f"{-(-needed // _MIB)}Mi")


def _check_on_volume(settings: Settings) -> None:
    """What needs other pods, or the API server."""
    run = settings.run
    if run.replicas != 1:
        raise wrong("replicas", run.replicas, "a StatefulSet's volume is one pod's; it has 1 replica", 1)
    if run.state:
        remedy = "Leave it empty, and use understudy suspend and resume in the pod"
        raise wrong("state", run.state, "a StatefulSet's documents are on its own pod's volume", remedy=remedy)
    if run.mode == "native":
        raise wrong("mode", run.mode, "a StatefulSet on a volume has no access to the API server", "application")
    if run.lock:
        remedy = "Leave it empty, or set workload to Deployment"
        raise wrong("lock", run.lock, "a StatefulSet's lock is on its volume, and not in the API server", remedy=remedy)
    if settings.account.flow_schema:
        rule = "a StatefulSet's renewals go to its volume, and not to the API server"
        raise wrong("flowSchema", value=True, rule=rule, remedy="Leave it out, or set workload to Deployment")


def _check_runs(settings: Settings) -> None:
    """What only a Job or a CronJob has, and what neither can have."""
    kind, runs = settings.resources.workload, settings.runs
    if kind == "CronJob" and not runs.schedule:
        raise wrong("schedule", "", "a CronJob needs one", '"0 * * * *"')
    for key, value in (("schedule", runs.schedule), ("timeZone", runs.time_zone)):
        if value and kind != "CronJob":
            raise wrong(
                key, value, f"a {kind} has no schedule", remedy=f"Set workload to CronJob, or leave {key} empty"
            )
    if runs.by_hand and runs.time_zone:
        raise wrong("timeZone", runs.time_zone, "there is no schedule", remedy="Leave it empty, or set a schedule")
    if not settings.ends:
        if runs.deadline:
            rule = f"a {kind} does not end"
            raise wrong(
                "activeDeadline", runs.deadline, rule, remedy="Set workload to Job or CronJob, or leave it at 0"
            )
        return
    if settings.run.state:
        remedy = "Leave it empty, and use understudy suspend and resume while a run is under way"
        raise wrong("state", settings.run.state, f"pods of a {kind} end with their run", remedy=remedy)
    if RUN_ID in settings.job.environment or RUN_ID in settings.job.secret_environment:
        raise wrong("environment", RUN_ID, "each run is its Job's UID", remedy="Leave it out")


def _check_grace(run: Run) -> None:
    """A pod that is told to stop: its batch, its script's handler, the handover, and what lingers after it."""
    patience = run.takeover.stop_patience
    needed = max(_LEAST_GRACE, math.ceil(2 * patience) + _ON_TOP_OF_PATIENCE)
    if run.termination_grace < needed:
        rule = f"stopPatience {patience:g} is given twice, and a handover takes {_ON_TOP_OF_PATIENCE} s more"
        raise wrong("terminationGracePeriod", run.termination_grace, rule, needed)


def _check_monitor(settings: Settings) -> None:
    network = settings.network
    if settings.monitoring.pod_monitor and not network.metrics_from and network.policies:
        rule = "network policies keep Prometheus out, unless they know its namespace"
        raise wrong("metricsFrom", "", rule, "metricsFrom: monitoring")


def _check_policies(network: NetworkAccess) -> None:
    if network.egress and not network.policies:
        rule = "nothing is kept in without network policies"
        raise wrong("egress", list(network.egress), rule, remedy="Set networkPolicies, or leave egress empty")


def _check_timings(run: Run, *, whole: bool) -> None:
    """Checks timings by the rule that replicas check them with."""
    try:
        timings: Timings = timings_from(run.profile, run.timings)
    except SettingsError as error:
        key = "profile" if error.where == "--profile" else "timings"
        raise SettingsError(f"{error.where}: {error.what}", where=f"understudy:{key}", remedy=error.remedy) from None
    if whole and timings.lease != int(timings.lease):
        raise wrong("timings", timings.lease, "a Kubernetes lock holds a lease of whole seconds", "lease: 20")


def _check_bucket(bucket: BucketSettings) -> None:
    if bucket.kind == "gcs":
        rule = "checkpoints on gs:// cannot be fenced: the fence needs exclusive creates, which s3a:// has"
        raise wrong("bucketKind", "gcs", rule, remedy="Use existing, with a bucket of S3")
    if not _BUCKET.fullmatch(bucket.name):
        raise wrong("bucket", bucket.name, "a bucket's name: 3 to 63 of a-z, 0-9, dots and hyphens", "flights-ha")
    if bucket.endpoint and not re.fullmatch(r"https?://[^\s/]+/?", bucket.endpoint):
        raise wrong("bucketEndpoint", bucket.endpoint, "a URL without a path", "https://s3.example.com")
    if bucket.kind == "s3" and not bucket.endpoint:
        raise wrong("bucketEndpoint", "", "bucketKind s3 needs the server's URL", "https://s3.example.com")
    if bucket.image and bucket.kind != "incluster":
        raise wrong(
            "bucketImage",
            bucket.image,
            f"bucketKind {bucket.kind} runs no server",
            remedy="Leave it empty, or use bucketKind incluster",
        )
    if bucket.image and ":" not in bucket.image.rpartition("/")[2]:
        raise wrong("bucketImage", bucket.image, "an image with a tag", "ghcr.io/versity/versitygw:v1.8.0")
    if bucket.kind in {"aws", "incluster"} and bucket.endpoint:
        raise wrong(
            "bucketEndpoint",
            bucket.endpoint,
            f"bucketKind {bucket.kind} knows its own",
            remedy="Leave it empty, or use bucketKind s3",
        )


def _check_credentials(bucket: BucketSettings, account: ServiceAccount) -> None:
    if bool(bucket.access_key) != bool(bucket.secret_key):
        key = "bucketSecretKey" if bucket.access_key else "bucketAccessKey"
        raise wrong(
            key, "", "bucketAccessKey and bucketSecretKey belong together", remedy=f"pulumi config set --secret {key}"
        )
    if bucket.secret and bucket.access_key:
        raise wrong(
            "bucketSecret",
            bucket.secret,
            "either an existing Secret or keys to make one from",
            remedy="Leave one of them out",
        )
    if not bucket.has_keys and (bucket.endpoint or bucket.kind == "incluster"):
        rule = "no credentials: a server of your own knows no workload identity"
        raise wrong("bucketSecret", "", rule, "bucketSecret: flights-bucket")
    if bucket.has_keys and account.annotations:
        raise wrong(
            "workloadIdentity",
            dict(account.annotations),
            "either keys or a workload identity",
            remedy="Leave one of them out",
        )


def _check_production(settings: Settings) -> None:
    protection, image = settings.protection, settings.job.image
    if not protection.retain and not protection.purge:
        raise wrong(
            "retain", "false", "in production HA data goes with purge only", remedy="Set purge, for one last destroy"
        )
    if settings.bucket.kind == "incluster":
        raise wrong("bucketKind", "incluster", "the chart's object store is for development", "existing")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    if "@sha256:" not in image and tag in {"", "latest"}:
        raise wrong("image", image, "in production an image has a digest or a tag other than latest", "flights:1.4.2")
    if settings.run.replicas < 2 and not settings.on_volume:
        raise wrong("replicas", settings.run.replicas, "in production there is a standby", 2)
