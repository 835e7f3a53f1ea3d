"""The command line and the environment of a replica."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from infra.manifests.access import executors_name
from infra.manifests.base import JOB_UID_LABEL, PROBES, Manifest, literal
from infra.manifests.ensemble import ensemble_environment
from infra.settings import Run, Settings
from infra.validation import RUN_ID
from understudy.config.bundle import keys_of

#: Where a script from this machine is mounted.
SCRIPTS = "/app/script"
HA_DIRECTORY = "/var/lib/understudy"
_IDENTITY = ",".join(
    f"software.amazon.awssdk.auth.credentials.{name}"
    for name in ("WebIdentityTokenFileCredentialsProvider", "ContainerCredentialsProvider")
)


def bucket_secret(settings: Settings) -> str:
    """Name of the Secret with the bucket's keys, created here or elsewhere; empty with workload identity."""
    bucket = settings.bucket
    if bucket.access_key:
        return f"{settings.job.cluster}-bucket-{_digest(settings.namespace, bucket.access_key, bucket.secret_key)}"
    return bucket.secret


@cache
def _digest(salt: str, *keys: str) -> str:
    """Other keys make another Secret, and so another revision of each of its readers. Not a quick hash, because names are public."""
    return hashlib.scrypt("\0".join(keys).encode(), salt=salt.encode(), n=2**10, r=8, p=1, dklen=5).hex()


def url(settings: Settings, part: str) -> str:
    return f"s3a://{settings.bucket.name}/{settings.bucket.prefix}/{part}"


def arguments(settings: Settings, endpoint: str) -> list[str]:
    """``understudy run …``. ``endpoint``: the S3 server's URL; empty for AWS."""
    run, job = settings.run, settings.job
    options = ["run", "--cluster-id", job.cluster, "--job-id", job.job, "--ha-dir", HA_DIRECTORY]
    if not settings.in_zookeeper:
        options += ["--lock", "file" if settings.on_volume else run.lock or "lease"]
    options += ["--listen", f"[::]:{PROBES}"]
    options += ["--profile", run.profile]
    for name, seconds in run.timings.items():
        options += ["--timing", f"{name}={seconds}"]
    options += [*_options(run), "--checkpoints", url(settings, "checkpoints"), "--scratch", url(settings, "scratch")]
    options += ["--ha-storage", url(settings, "ha")] if settings.bucket.ha else []
    options += ["--submitted"] if job.submitted else []
    for name, value in {**_spark(settings), **s3a(settings, endpoint)}.items():
        options += ["--conf", f"{name}={value}"]
    for name, value in job.spark.items():
        options += ["--conf", literal(f"{name}={value}")]
    return [*options, "--master", _master(settings), *_script(settings)]


def _options(run: Run) -> list[str]:
    """Options of ``understudy run`` that have a key, but those that another mode of the bundle is for."""
    keys = ((group, key) for group in run.options for key in keys_of(type(group)))
    told = (each for each in keys if each[1].said.mode in {"", run.mode})
    return [word for group, key in told for word in key.option.words(getattr(group, key.option.field))]


def _script(settings: Settings) -> list[str]:
    """The script and its arguments; nothing where they are submitted."""
    job = settings.job
    if job.submitted:
        return []
    return [job.script or f"{SCRIPTS}/{Path(job.script_file).name}", *map(literal, job.arguments)]


def environment(settings: Settings) -> list[Manifest]:
    downward = {
        "UNDERSTUDY_POD_UID": "metadata.uid",
        "UNDERSTUDY_POD_NAME": "metadata.name",
        "UNDERSTUDY_POD_IP": "status.podIP",
        **({RUN_ID: f"metadata.labels['{JOB_UID_LABEL}']"} if settings.ends else {}),
    }
    found: list[Manifest] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in downward.items()
    ]
    found += ensemble_environment(settings)
    found += [{"name": name, "value": literal(value)} for name, value in settings.job.environment.items()]
    for name, (of, key) in secret_environment(settings).items():
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": of, "key": key}}})
    return found


def secret_environment(settings: Settings) -> dict[str, tuple[str, str]]:
    """Variables whose values are in Secrets: the bucket's keys and the job's own, each with the Secret's name and its key."""
    secret = bucket_secret(settings)
    return {**{key: (secret, key) for key in settings.bucket.key_variables}, **settings.job.secret_environment}


def s3a(settings: Settings, endpoint: str) -> dict[str, str]:
    """How S3A reaches the bucket. Keys come from the environment, and never stand on a command line."""
    found = {"endpoint.region": settings.bucket.region}
    if endpoint:
        found |= {
            "endpoint": endpoint.rstrip("/"),
            "path.style.access": "true",
            "connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
        }
    if not settings.bucket.has_keys:
        found["aws.credentials.provider"] = _IDENTITY
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items()}


def _master(settings: Settings) -> str:
    run = settings.run
    masters = {"application": f"local[{run.cores}]", "native": "k8s://https://kubernetes.default.svc"}
    return masters.get(run.mode, run.master)


def _spark(settings: Settings) -> dict[str, str]:
    run, job = settings.run, settings.job
    found = {"spark.driver.memory": run.driver_memory}
    if run.mode == "application":
        return found
    found |= {"spark.executor.memory": run.executor_memory, "spark.executor.cores": str(run.executor_cores)}
    # On our command line, and in native mode in the executor's pod once more.
    as_it_is = literal if run.mode == "standalone" else lambda value: literal(literal(value))
    found |= {f"spark.executorEnv.{name}": as_it_is(value) for name, value in job.environment.items()}
    if run.mode == "standalone":
        # Workers elsewhere know the pod by its address only; and what bounds an application there are its cores.
        address = "$(UNDERSTUDY_POD_IP)"
        found |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
        found["spark.cores.max"] = str(run.executors * run.executor_cores)
    if run.mode == "native":
        pods, secrets = "spark.kubernetes", secret_environment(settings)
        found |= {f"{pods}.executor.secretKeyRef.{name}": f"{of}:{key}" for name, (of, key) in secrets.items()}
        found |= {
            "spark.executor.instances": str(run.executors),
            f"{pods}.container.image": job.image,
            f"{pods}.container.image.pullPolicy": job.pull_policy,
            f"{pods}.authenticate.executor.serviceAccountName": executors_name(settings),
        }
        if job.pull_secrets:
            found[f"{pods}.container.image.pullSecrets"] = ",".join(job.pull_secrets)
    return found
