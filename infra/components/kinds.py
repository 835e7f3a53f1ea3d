"""From a plain manifest to a registered resource of the right class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes import apiextensions, apps, batch, coordination, core, flowcontrol, networking, policy, rbac

from infra.manifests.base import Manifest

_KINDS: Mapping[tuple[str, str], type[pulumi.CustomResource]] = {
    ("v1", "ConfigMap"): core.v1.ConfigMap,
    ("v1", "Namespace"): core.v1.Namespace,
    ("v1", "PersistentVolumeClaim"): core.v1.PersistentVolumeClaim,
    ("v1", "Secret"): core.v1.Secret,
    ("v1", "ServiceAccount"): core.v1.ServiceAccount,
    ("apps/v1", "Deployment"): apps.v1.Deployment,
    ("apps/v1", "StatefulSet"): apps.v1.StatefulSet,
    ("batch/v1", "CronJob"): batch.v1.CronJob,
    ("batch/v1", "Job"): batch.v1.Job,
    ("coordination.k8s.io/v1", "Lease"): coordination.v1.Lease,
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"): flowcontrol.v1.FlowSchema,
    ("networking.k8s.io/v1", "NetworkPolicy"): networking.v1.NetworkPolicy,
    ("policy/v1", "PodDisruptionBudget"): policy.v1.PodDisruptionBudget,
    ("rbac.authorization.k8s.io/v1", "Role"): rbac.v1.Role,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): rbac.v1.RoleBinding,
}


def declare(manifest: Manifest, options: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Named for its kind and name, so that a URN tells what it is and no two collide."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    name = f"{manifest['metadata']['name']}-{kind.lower()}"
    rest: dict[str, Any] = {key: value for key, value in manifest.items() if key not in {"apiVersion", "kind"}}
    known = _KINDS.get((version, kind))
    if known is None:
        other: pulumi.CustomResource = apiextensions.CustomResource(
            name, api_version=version, kind=kind, opts=options, **rest
        )
        return other
    made: pulumi.CustomResource = known(
        name, **{_FIELDS.get(key, key): value for key, value in rest.items()}, opts=options
    )
    return made


#: What the SDK calls the top-level fields that we use; below them it takes Kubernetes' own names.
_FIELDS: Mapping[str, str] = {
    "automountServiceAccountToken": "automount_service_account_token",
    "roleRef": "role_ref",
    "stringData": "string_data",
}
