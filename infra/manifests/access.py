"""Who may do what: one service account for replicas, a Role that names every object, and a second one where executors are pods."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from infra.manifests.base import Manifest, lint_exempt, manifest
from infra.manifests.ha import ha_objects
from infra.settings import Settings

_RBAC = "rbac.authorization.k8s.io"
_USE = ["get", "list", "watch", "patch"]


def account_name(settings: Settings) -> str:
    return settings.job.cluster


def executors_name(settings: Settings) -> str:
    """The executors' account in native mode: it may do nothing, and carries the workload identity."""
    return f"{settings.job.cluster}-executors"


def access(settings: Settings) -> list[Manifest]:
    found = [_account(settings, account_name(settings))]
    if not settings.on_volume:
        rules = ha_rules(settings)
        # Other rules are another Role, and the old one goes after the last pod that needs it: a change that the new pods refuse
        # would take the lock from the leader that runs.
        digest = hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:10]
        found += _granted(settings, f"{settings.job.cluster}-ha-{digest}", rules)
    if settings.run.mode == "native":
        found.append(_account(settings, executors_name(settings)))
        role, binding = _granted(settings, executors_name(settings), _EXECUTOR_RULES)
        found += [role, lint_exempt(binding, _CREATES)]
    return found


def ha_rules(settings: Settings) -> list[Manifest]:
    """No delete, no wildcard, and no create but of Leases: the objects are there before their first user, are emptied, never removed.

    Where documents are in ZooKeeper, there is no right on ConfigMaps and Leases at all; evidence of a death stays the kubelet's.

    A deleted Lease can come back by create alone, and its living holder creates it again within a second. RBAC cannot
    name what is created. A Lease carries nothing that others read, so that is granted for it; for ConfigMaps it is not.
    """
    named: dict[str, list[str]] = {}
    for each in ha_objects(settings):
        named.setdefault(each["kind"], []).append(each["metadata"]["name"])
    rules = [
        {"apiGroups": [group], "resources": [resource], "resourceNames": sorted(named[kind]), "verbs": _USE}
        for kind, group, resource in (
            ("ConfigMap", "", "configmaps"),
            ("Lease", "coordination.k8s.io", "leases"),
        )
        if kind in named
    ]
    if "Lease" in named:
        rules.append({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]})
    return [
        *rules,
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},  # evidence
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get"]},  # the revision that a pod runs
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    ]


#: Spark chooses the names of its executors' pods, so they cannot be named here. Give such a job a separate namespace.
_EXECUTOR_RULES: Sequence[Manifest] = (
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["create", "get", "list", "watch", "patch", "delete", "deletecollection"],
    },
)
_CREATES = {"access-to-create-pods": "In native mode executors are pods, and the driver makes them."}


def _account(settings: Settings, name: str) -> Manifest:
    account = manifest(settings, "v1", "ServiceAccount", name, automountServiceAccountToken=False)
    if settings.account.annotations:
        account["metadata"]["annotations"] = dict(settings.account.annotations)
    return account


def _granted(settings: Settings, name: str, rules: Sequence[Manifest]) -> list[Manifest]:
    """A Role, and a binding of the same name to the replicas' account."""
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": account_name(settings), "namespace": settings.namespace}
    return [
        manifest(settings, f"{_RBAC}/v1", "Role", name, rules=list(rules)),
        manifest(settings, f"{_RBAC}/v1", "RoleBinding", name, roleRef=reference, subjects=[subject]),
    ]
