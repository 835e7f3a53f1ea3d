"""The objects of one highly available job: what ``pulumi up`` makes, as plain dictionaries for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from e2e import manifests

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
    def lock(self) -> str:
        return f"{self.cluster}-lock"

    @property
    def documents(self) -> tuple[str, ...]:
        return (f"{self.cluster}-{self.cluster}", f"{self.cluster}-replicas")


def ha_objects(job: Job) -> list[Json]:
    """ConfigMaps and the Lease, bare and without an owner: deleting the Deployment keeps them."""
    maps = [_object("v1", "ConfigMap", job, name) for name in job.documents]
    return [*maps, _object("coordination.k8s.io/v1", "Lease", job, job.lock)]


def access(job: Job) -> list[Json]:
    """A service account that may do what a replica does, and nothing else: no create, no delete, no wildcard."""
    account = _object("v1", "ServiceAccount", job, job.cluster)
    return [account, role(job), _binding(job, f"{job.cluster}-ha"), *(_executors(job) if job.native else ())]


def role(job: Job, *, without: str = "") -> Json:
    """A replica's; ``without`` one resource, as somebody forgot it or took it away."""
    verbs = ["get", "list", "watch", "patch"]
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": list(job.documents), "verbs": verbs},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [job.lock], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    ]
    return _role(job, f"{job.cluster}-ha", [rule for rule in rules if without not in rule["resources"]])


def _executors(job: Job) -> list[Json]:
    """The second Role, for native mode only: Spark names its executors' pods as it likes, so these cannot be named here."""
    verbs = ["create", "get", "list", "watch", "patch", "delete", "deletecollection"]
    name, rules = f"{job.cluster}-executors", [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    return [_role(job, name, rules), _binding(job, name)]


def _role(job: Job, name: str, rules: list[Json]) -> Json:
    return {**_object("rbac.authorization.k8s.io/v1", "Role", job, name), "rules": rules}


def _binding(job: Job, role: str) -> Json:
    """Of the same name, to the job's one service account."""
    return {
        **_object("rbac.authorization.k8s.io/v1", "RoleBinding", job, role),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": job.cluster, "namespace": job.namespace}],
    }


def deployment(job: Job) -> Json:
    labels = {"app": job.cluster, "understudy.dev/cluster": job.cluster, **job.labels}
    made = _object("apps/v1", "Deployment", job, job.cluster)
    made["spec"] = {
        "replicas": job.replicas,
        "selector": {"matchLabels": {"app": job.cluster}},
        "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": labels}, "spec": _pod(job, labels)},
    }
    return made


_PROBES: Json = {
    "ports": [{"name": "probes", "containerPort": 8080}],
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 1},
    "livenessProbe": {"httpGet": {"path": "/livez", "port": "probes"}, "periodSeconds": 5, "failureThreshold": 6},
}


def _pod(job: Job, labels: Json) -> Json:
    run = [
        "run",
        "--cluster-id",
        job.cluster,
        "--ha-dir",
        "/var/lib/understudy",
        "--profile",
        job.profile,
        *job.options,
    ]
    program: Json = {"args": [*run, *job.submit, *job.command], **_PROBES}
    if job.plain:
        program = {"command": ["/usr/bin/tini", "--", "/opt/spark/bin/spark-submit", *job.submit, *job.command]}
    return {
        **(_away_from(job.avoid) if job.avoid else {}),
        "serviceAccountName": job.cluster,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": labels["app"]}},
            }
        ],
        "containers": [
            {
                "name": "driver",
                "image": job.image,
                "imagePullPolicy": "Never",
                **program,
                "env": [
                    _downward("UNDERSTUDY_POD_UID", "metadata.uid"),
                    _downward("UNDERSTUDY_POD_NAME", "metadata.name"),
                    _downward("UNDERSTUDY_POD_IP", "status.podIP"),
                    *job.environment,
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": job.memory}},
                "securityContext": manifests.RESTRICTED_CONTAINER,
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "state", "mountPath": "/var/lib/understudy"},
                ],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "state", "emptyDir": {}}],
    }


def _away_from(node: str) -> Json:
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _downward(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _object(version: str, kind: str, job: Job, name: str) -> Json:
    labels = {"understudy.dev/cluster": job.cluster}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": job.namespace, "labels": labels},
    }
