"""What every object has: version, kind, name, namespace, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.settings import Settings
from understudy.protocol.names import CLUSTER_LABEL

Manifest = dict[str, Any]

#: Of probes and metrics.
PROBES = 8080
#: Kubernetes puts it on each namespace.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
#: Kubernetes puts it on each pod of a Job.
JOB_UID_LABEL = "batch.kubernetes.io/controller-uid"

RESTRICTED_POD: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def labels(settings: Settings) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "understudy",
        "app.kubernetes.io/instance": settings.job.cluster,
        CLUSTER_LABEL: settings.job.cluster,
    }


def manifest(settings: Settings, version: str, kind: str, name: str, **rest: Any) -> Manifest:
    """An object in the settings' namespace."""
    metadata = {"name": name, "namespace": settings.namespace, "labels": labels(settings)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def literal(text: str) -> str:
    """Text that Kubernetes hands on as it is: in arguments and variables it replaces ``$(NAME)``, and takes ``$$`` for ``$``."""
    return text.replace("$", "$$")


def annotated(manifest: Manifest, annotations: Mapping[str, str]) -> Manifest:
    metadata = manifest["metadata"]
    if not annotations:
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def lint_exempt(manifest: Manifest, reasons: Mapping[str, str]) -> Manifest:
    """What kube-linter (infra/kube-linter.yaml) would find in this object and is on purpose: the check's name, and why."""
    return annotated(manifest, {f"ignore-check.kube-linter.io/{check}": reason for check, reason in reasons.items()})
