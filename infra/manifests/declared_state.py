"""The Job that brings the job to the state its stack declares: suspended before replicas change, running while they do."""

from __future__ import annotations

import hashlib
import json

from infra.manifests.base import (
    RESTRICTED_CONTAINER,
    Manifest,
    annotated,
    labels,
    lint_exempt,
    manifest,
)
from infra.manifests.ensemble import ensemble_environment, ensemble_mounts, ensemble_volumes
from infra.manifests.workload import any_pod
from infra.settings import Settings
from understudy.protocol.names import CLUSTER_LABEL, ENSURES_LABEL

#: Seconds for the batch under way, or for queries to run again: pods of a job that has FAILED are started again within five minutes.
#: ``pulumi up`` waits ten for a Job.
_TIMEOUT = 480
#: What another try may help against: a document or an API server that does not answer, and a pod that was killed or evicted.
_TRIED_AGAIN = [4, 8, 137, 143]
#: A Job that has failed is made again by the next ``pulumi up``, though nothing of it has changed.
_AGAIN = {"pulumi.com/replaceUnready": "true"}
_TRIES = 3
_EXEMPT = {
    "restart-policy": "A refusal is an answer, and is not tried again.",
    "no-liveness-probe": "It asks once, and ends.",
    "no-readiness-probe": "It asks once, and ends; it serves nothing.",
}


def declared_state(settings: Settings, *, applied: bool = False) -> Manifest | None:
    """``None`` where the stack leaves the state to ``understudy suspend`` and ``resume``.

    A Job cannot be changed. It is named for what it does, so that another state, another image or another place of the job is another Job, and a
    node selector is not: one more run would undo what was asked for by hand.

    ``applied``: by a tool that cannot leave a changed Job as it is. There it is named for all that it is, or the tool would fail.
    """
    if not settings.run.state:
        return None
    spec = {
        "backoffLimit": _TRIES,
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": _TRIED_AGAIN}}]
        },
        "template": {"metadata": {"labels": _labels(settings)}, "spec": _pod(settings)},
    }
    named_for = spec if applied else _task(settings)
    digest = hashlib.sha256(json.dumps(named_for, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{settings.job.cluster}-{settings.run.state}-{digest}"
    exempt = dict(_EXEMPT)
    if not settings.network.policies:
        exempt["non-isolated-pod"] = "The stack wants no policies (understudy:networkPolicies)."
    return annotated(lint_exempt(manifest(settings, "batch/v1", "Job", name, spec=spec), exempt), _AGAIN)


def _task(settings: Settings) -> list[str]:
    """What it does, to which job, and where that is."""
    job, ha = settings.job, settings.ha
    return [settings.run.state, job.image, job.cluster, job.job, ha.services, ha.address]


def _labels(settings: Settings) -> dict[str, str]:
    """Not that of replicas, which a disruption budget and evidence go by."""
    found = labels(settings)
    return {**{name: value for name, value in found.items() if name != CLUSTER_LABEL}, **ensures(settings)}


def ensures(settings: Settings) -> dict[str, str]:
    return {ENSURES_LABEL: settings.job.cluster}


def _pod(settings: Settings) -> Manifest:
    job = settings.job
    words = ["ensure", settings.run.state, "--cluster-id", job.cluster, "--job-id", job.job]
    container = {
        "name": "ensure",
        "image": job.image,
        "imagePullPolicy": job.pull_policy,
        "args": [*words, "--timeout", str(_TIMEOUT)],
        **({"env": where} if (where := ensemble_environment(settings)) else {}),
        # What came of it: `pulumi up` prints the message of a pod that failed.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": dict(RESTRICTED_CONTAINER),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *ensemble_mounts(settings)],
    }
    return {
        **any_pod(settings),
        "automountServiceAccountToken": settings.in_api_server,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}, *ensemble_volumes(settings)],
    }
