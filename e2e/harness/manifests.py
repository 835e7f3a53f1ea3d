"""Small Kubernetes objects for tests, as plain dictionaries. Every pod passes Pod Security *restricted*."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PROBE = "localhost/probe:e2e"

RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "fsGroup": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def namespace(name: str) -> dict[str, Any]:
    labels = {"understudy.dev/e2e": "true", "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(
    name: str,
    arguments: Sequence[str],
    *,
    node: str = "",
    restart: str = "Always",
    account: str = "",
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One container of the image ``probe``, on ``node`` if that is named, with a token only if ``account`` is."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 1,
            "enableServiceLinks": False,
            "automountServiceAccountToken": bool(account),
            **({"serviceAccountName": account} if account else {}),
            **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}),
            "securityContext": RESTRICTED_POD,
            "containers": [
                {
                    "name": "probe",
                    "image": PROBE,
                    "imagePullPolicy": "IfNotPresent",
                    "args": list(arguments),
                    "securityContext": RESTRICTED_CONTAINER,
                }
            ],
        },
    }


def alone(name: str, *, local: bool, **spec: Any) -> dict[str, Any]:
    """A Deployment of one pod, which forgets everything: ``spec`` is the pod's own.

    In the local cluster it lives on node 1, so that tests cut and crash the others.
    """
    pod_spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": "node1"} if local else {},
        "securityContext": RESTRICTED_POD,
        **spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec},
        },
    }


def service(name: str, port: int, app: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": [{"port": port, "targetPort": port}]},
    }


def account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def secret(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(values)}
