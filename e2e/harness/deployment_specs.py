"""The objects of one highly available job: the bundle's own, with what tests need besides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from infra.manifests import access as builders
from infra.manifests.ha import ha_objects as bare_objects
from infra.manifests.workload import workload
from infra.settings import Settings, settings_from

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """One job in one namespace. ``command`` is the script and its arguments, ``options`` those of ``understudy run``.

    ``plain``: the script alone under spark-submit, as users deploy it today. ``native``: executors are pods. ``avoid``: a node
    that pods keep away from.
    """

    cluster: str
    namespace: str
    image: str
    command: tuple[str, ...]
    replicas: int = 3
    profile: str = "fast"
    options: tuple[str, ...] = ()
    submit: tuple[str, ...] = ()
    environment: tuple[Json, ...] = ()
    memory: str = "1400Mi"
    plain: bool = False
    native: bool = False
    avoid: str = ""
    labels: Json = field(default_factory=dict)

    @property
    def documents(self) -> tuple[str, ...]:
        names = self.settings.job.names
        return names.job_document, names.replicas

    @property
    def given(self) -> Json:
        """The keys of the bundle that say what this job is; where its bucket is, is another matter."""
        script, *arguments = self.command
        return {
            "clusterId": self.cluster,
            "namespace": self.namespace,
            "image": self.image,
            "imagePullPolicy": "Never",
            "script": script,
            "arguments": arguments,
            "replicas": self.replicas,
            "profile": self.profile,
            "mode": "native" if self.native else "application",
            "cpu": "100m",
            "memory": self.memory,
            "driverMemory": "700m",
        }

    @property
    def settings(self) -> Settings:
        """The command line is the test's own, so of the bucket only a name is needed."""
        return settings_from({**self.given, "bucket": "understudy"})


def ha_objects(job: Job) -> list[Json]:
    return bare_objects(job.settings)


def access(job: Job) -> list[Json]:
    return builders.access(job.settings)


def role(job: Job, *, without: str = "") -> Json:
    """A replica's; ``without`` one resource, which was forgotten or taken away."""
    made = next(each for each in access(job) if each["kind"] == "Role" and "-ha-" in each["metadata"]["name"])
    return {**made, "rules": [rule for rule in made["rules"] if without not in rule["resources"]]}


def deployment(job: Job) -> Json:
    made = workload(job.settings, endpoint="")
    template = made["spec"]["template"]
    template["metadata"]["labels"] |= job.labels
    pod = template["spec"]
    (container,) = pod["containers"]
    run = ["run", "--cluster-id", job.cluster, "--ha-dir", "/var/lib/understudy", "--profile", job.profile]
    container["args"] = [*run, *job.options, *job.submit, *job.command]
    container["env"] += job.environment
    if job.avoid:
        pod["affinity"] = _away_from(job.avoid)
    if job.plain:
        del container["args"], container["ports"], container["readinessProbe"], container["livenessProbe"]
        container["command"] = ["/usr/bin/tini", "--", "/opt/spark/bin/spark-submit", *job.submit, *job.command]
    return made


def running(job: Job, script: str) -> list[Json]:
    """The deployment of ``job`` with its script ``/job/job.py``, which is in a ConfigMap ``scripts`` and not in the image."""
    scripts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}, "data": {"job.py": script}}
    made = deployment(job)
    pod = made["spec"]["template"]["spec"]
    pod["volumes"] = [*pod.get("volumes", []), {"name": "job", "configMap": {"name": "scripts"}}]
    (container,) = pod["containers"]
    container["volumeMounts"] = [*container.get("volumeMounts", []), {"name": "job", "mountPath": "/job"}]
    return [*access(job), *ha_objects(job), scripts, made]


def _away_from(node: str) -> Json:
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
