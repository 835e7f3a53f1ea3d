"""The replicas, their script, and their PDB.

Replicas are a Deployment; a Job or a CronJob for a script that ends; or a StatefulSet of one pod whose HA documents are on a volume.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from infra.manifests.access import account_name
from infra.manifests.base import (
    JOB_UID_LABEL,
    PROBES,
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    Manifest,
    annotated,
    labels,
    lint_exempt,
    manifest,
)
from infra.manifests.command import HA_DIRECTORY, SCRIPTS, arguments, bucket_secret, environment, secret_environment
from infra.manifests.ensemble import ensemble_mounts, ensemble_volumes
from infra.manifests.ha import ha_claim
from infra.quantities import quantity
from infra.settings import Settings
from understudy.errors import ReplicaStopped
from understudy.protocol.names import CLUSTER_LABEL, PREFIX

#: A run may lose so many pods to deaths that nothing explains, of replicas or of nodes. More, and its Job has failed: memory that does
#: not suffice would kill pods for ever.
_UNEXPLAINED = 20
#: The job has FAILED, or another try would end the same (docs/exit-codes.md).
_FINAL = [1, 2, 3, 5, 6, 7]
#: On pods: a digest of what their account is annotated with.
_IDENTITY = f"{PREFIX}identity"
#: Seconds by which a run may begin late: long enough for a controller that starts again.
_LATE_START = 120
#: A replica's own directory, without the files of a submission.
_STATE = "1Gi"
#: Fewer nodes than a constraint asks for let it count the least crowded one as empty, so no node gets a second replica.
_MORE_THAN_NODES = 1_000_000
#: For Pulumi: a Job that is there is enough, and its end is not waited for. To skip waiting altogether would skip it when the Job is
#: deleted as well, and its successor has the same name.
_NO_WAIT = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}


def workload(settings: Settings, endpoint: str) -> Manifest:
    """``endpoint``: the S3 server's URL; empty for AWS."""
    return lint_exempt(_workload(settings, _template(settings, endpoint)), _lint_exemptions(settings))


def _workload(settings: Settings, template: Manifest) -> Manifest:
    name, kind = settings.job.cluster, settings.resources.workload
    if kind == "Job":
        return annotated(manifest(settings, "batch/v1", kind, name, spec=_job(settings, template)), _NO_WAIT)
    if kind == "CronJob":
        return manifest(settings, "batch/v1", kind, name, spec=_cron_job(settings, template))
    selector = {"matchLabels": {CLUSTER_LABEL: name}}
    common = {"replicas": settings.run.replicas, "selector": selector, "template": template}
    if settings.on_volume:
        # In order (the default) a pod that never gets ready is not replaced by the revision that would repair it:
        # https://github.com/kubernetes/kubernetes/issues/67250. With one pod there is no order to keep.
        management = {"podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate"}}
        spec = {**common, "serviceName": name, **management}
        return manifest(settings, "apps/v1", kind, name, spec=spec)
    # The new pod has rehearsed before an old one goes.
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    return manifest(settings, "apps/v1", kind, name, spec={**common, "strategy": strategy})


def _template(settings: Settings, endpoint: str) -> Manifest:
    template = {"metadata": {"labels": labels(settings)}, "spec": _pod(settings, endpoint)}
    identity = settings.account.annotations
    if not identity or settings.resources.workload == "Job":  # another template would be another run
        return template
    # What a pod may do at a cloud is decided when the pod is made: another identity needs other pods.
    digest = hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()[:16]
    return annotated(template, {_IDENTITY: digest})


def _job(settings: Settings, template: Manifest) -> Manifest:
    """One run. The first replica that ends with 0 ends it for all: no pod is made any more, and none that waits for room is waited for.

    A pod that was evicted, or told to stop, is replaced and not counted. No time to live after the end: a Job that is gone would be made
    again by what declares it, as another run.
    """
    replicas, deadline = settings.run.replicas, settings.runs.deadline
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    codes = [
        {"action": action, "onExitCodes": {"operator": "In", "values": values}}
        for action, values in (("Ignore", [ReplicaStopped.exit_code]), ("FailJob", _FINAL))
    ]
    return {
        # Indexes are what a policy of success asks for, and mean nothing to replicas.
        "completionMode": "Indexed",
        "completions": replicas,
        "parallelism": replicas,
        "successPolicy": {"rules": [{"succeededCount": 1}]},
        "podFailurePolicy": {"rules": [ignored, *codes]},
        "backoffLimit": _UNEXPLAINED,
        **({"activeDeadlineSeconds": deadline} if deadline else {}),
        "template": template,
    }


def _cron_job(settings: Settings, template: Manifest) -> Manifest:
    """Each of its Jobs is a run. While one is under way, the next is left out: it would be refused. A run that ends so shortly after the time
    of the next one is followed by that one.
    """
    runs = settings.runs
    when = {"schedule": "@yearly", "suspend": True} if runs.by_hand else {"schedule": runs.schedule}
    return {
        **when,
        **({"timeZone": runs.time_zone} if runs.time_zone else {}),
        "concurrencyPolicy": "Forbid",
        # Without one, a time that passes while a run is under way is made up for as soon as that run has ended.
        "startingDeadlineSeconds": _LATE_START,
        "jobTemplate": {"metadata": {"labels": labels(settings)}, "spec": _job(settings, template)},
    }


def _lint_exemptions(settings: Settings) -> dict[str, str]:
    """From kube-linter's checks."""
    secrets = {of for of, _ in secret_environment(settings).values()}
    made_here = {bucket_secret(settings)} if settings.bucket.access_key else set()
    found = {}
    if secrets:
        found["read-secret-from-env-var"] = "Hadoop's S3A, and what the job asks for, read them from the environment."
    if secrets - made_here:
        found["env-value-from"] = "Secrets are made by others, so that their values stand nowhere here."
    if settings.run.mode == "standalone":
        found["non-isolated-pod"] = "A Spark master's executors are anywhere, and all of them call their driver."
    elif not settings.network.policies:
        found["non-isolated-pod"] = "The stack wants no policies (understudy:networkPolicies)."
    if settings.ends:
        found["restart-policy"] = "Its pods are replaced and not started again: each end of one counts for its Job."
    return found


def budget(settings: Settings) -> Manifest | None:
    """One replica at a time: a drain takes the leader when a standby is there, and never all of them.

    A Job cannot be asked how many pods it wants, so there it is counted how many have to stay. A single replica has no budget.
    """
    allowed = {"minAvailable": settings.run.replicas - 1} if settings.ends else {"maxUnavailable": 1}
    if settings.ends and settings.run.replicas == 1:
        return None
    spec = {
        **allowed,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": {CLUSTER_LABEL: settings.job.cluster}},
    }
    return manifest(settings, "policy/v1", "PodDisruptionBudget", settings.job.cluster, spec=spec)


def script_map(settings: Settings) -> Manifest | None:
    """A script from this machine. It is named for its text, so that another one is another revision of the workload."""
    if not settings.job.script_file:
        return None
    data = {Path(settings.job.script_file).name: settings.job.script_source}
    return manifest(settings, "v1", "ConfigMap", _script_name(settings), data=data, immutable=True)


def _script_name(settings: Settings) -> str:
    digest = hashlib.sha256(settings.job.script_source.encode()).hexdigest()[:10]
    return f"{settings.job.cluster}-script-{digest}"


def any_pod(settings: Settings) -> Manifest:
    """What each pod of the job's image has: as whom it runs, where, and from which registry."""
    job, resources = settings.job, settings.resources
    return {
        "serviceAccountName": account_name(settings),
        "automountServiceAccountToken": not settings.on_volume,
        "enableServiceLinks": False,
        "securityContext": dict(RESTRICTED_POD),
        **({"nodeSelector": dict(resources.node_selector)} if resources.node_selector else {}),
        **({"imagePullSecrets": [{"name": name} for name in job.pull_secrets]} if job.pull_secrets else {}),
    }


def _pod(settings: Settings, endpoint: str) -> Manifest:
    resources = settings.resources
    return {
        **any_pod(settings),
        "restartPolicy": "Never" if settings.ends else "Always",
        "terminationGracePeriodSeconds": settings.run.termination_grace,
        **({"priorityClassName": resources.priority_class} if resources.priority_class else {}),
        **({} if settings.on_volume else _apart(settings)),
        "containers": [_container(settings, endpoint)],
        "volumes": _volumes(settings),
    }


def _container(settings: Settings, endpoint: str) -> Manifest:
    job, resources = settings.job, settings.resources
    mounts: list[Manifest] = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "state", "mountPath": HA_DIRECTORY}]
    if job.script_file:
        mounts.append({"name": "script", "mountPath": SCRIPTS, "readOnly": True})
    mounts += ensemble_mounts(settings)
    return {
        "name": "driver",
        "image": job.image,
        "imagePullPolicy": job.pull_policy,
        "args": arguments(settings, endpoint),
        "env": environment(settings),
        "ports": [{"name": "probes", "containerPort": PROBES}],
        # Ready: rehearsed, or as ready as it will be. Alive: the supervisor's loop turns.
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 2, "timeoutSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "probes"},
            "periodSeconds": 5,
            "timeoutSeconds": 2,
            "failureThreshold": 6,
        },
        # No CPU limit: a standby that takes over needs all it can get for a second or two.
        "resources": {
            "requests": {"cpu": resources.cpu, "memory": resources.memory},
            "limits": {"memory": resources.memory},
        },
        "securityContext": dict(RESTRICTED_CONTAINER),
        "volumeMounts": mounts,
    }


def _volumes(settings: Settings) -> list[Manifest]:
    state: Manifest = {"name": "state", "emptyDir": {"sizeLimit": _state_size(settings)}}
    if settings.on_volume:
        state = {"name": "state", "persistentVolumeClaim": {"claimName": ha_claim(settings)}}
    found = [{"name": "tmp", "emptyDir": {"sizeLimit": settings.resources.scratch}}, state]
    if settings.job.script_file:
        found.append({"name": "script", "configMap": {"name": _script_name(settings)}})
    return [*found, *ensemble_volumes(settings)]


def _state_size(settings: Settings) -> str:
    """Of what a replica writes for itself, and of all files of a submission: the kubelet evicts a pod that needs more, each time again."""
    scratch = settings.resources.scratch
    return scratch if settings.job.submitted and (quantity(scratch) or 0) > (quantity(_STATE) or 0) else _STATE


def _apart(settings: Settings) -> Manifest:
    """Replicas of one revision on different nodes, and zones: what takes the leader down must not take its standby.

    Of one revision only, or a rollout would find no node for its first pod where there are as many nodes as replicas.
    """
    mine = {"matchLabels": {CLUSTER_LABEL: settings.job.cluster}}
    needed = settings.resources.spread == "required"

    def spread(key: str, *, strict: bool) -> Manifest:
        return {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if strict else "ScheduleAnyway",
            "labelSelector": mine,
            "matchLabelKeys": [JOB_UID_LABEL if settings.ends else "pod-template-hash"],
            # Without it one node would do, with every replica on it. Not the number of replicas, or another one would roll all pods.
            **({"minDomains": _MORE_THAN_NODES} if strict else {}),
        }

    host = "kubernetes.io/hostname"
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": host, "labelSelector": mine}}
    return {
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [
            spread(host, strict=needed),
            spread("topology.kubernetes.io/zone", strict=False),
        ],
    }
