"""What has to outlive everything else: HA documents and the lock, and on a volume the claim they are kept on.

Bare objects. Drivers write into them, so nothing here declares data. They have no owner, or the garbage collector would remove them
with it.
"""

from __future__ import annotations

from infra.manifests.base import Manifest, annotated, manifest
from infra.settings import Settings


def ha_objects(settings: Settings) -> list[Manifest]:
    """Both locks, whichever is used: a lock is changed under running replicas, the old ones of which still need theirs.

    None where documents are elsewhere.
    """
    if not settings.in_api_server:
        return []
    names = settings.job.names
    maps = [manifest(settings, "v1", "ConfigMap", name) for name in (names.job_document, names.replicas, names.lock)]
    return [*maps, manifest(settings, "coordination.k8s.io/v1", "Lease", names.lock)]


def owners(settings: Settings) -> list[Manifest]:
    """For each name of an HA object, an empty ConfigMap that says whose it is. It is no data: it goes with the stack, and is never adopted.

    Two ids make a name, so another stack may ask for the same: the job ``b-c`` of ``a`` and the job ``c`` of ``a-b``. That one fails here, before
    it adopts what this one's drivers write, and its purge would delete. Ids have no dots, so no document has such a name.
    """
    names = sorted({each["metadata"]["name"] for each in ha_objects(settings)})
    return [manifest(settings, "v1", "ConfigMap", f"{name}.owner") for name in names]


def persistent_volume_claims(settings: Settings) -> list[Manifest]:
    """Volumes: for HA documents where they are on one, and for the object store that is made along.

    ReadWriteOncePod for the former: two pods of one node must not share it either, their evidence is told apart by machine.
    """
    found = [_claim(settings, ha_claim(settings), "ReadWriteOncePod")] if settings.on_volume else []
    if settings.bucket.kind == "incluster":
        found.append(_claim(settings, included_name(settings), "ReadWriteOnce"))
    return found


def ha_claim(settings: Settings) -> str:
    return f"{settings.job.cluster}-ha"


def included_name(settings: Settings) -> str:
    """Of the object store that is made along: of the chart's release, its Service and its claim."""
    return f"{settings.job.cluster}-objects"


def _claim(settings: Settings, name: str, mode: str) -> Manifest:
    """An adopted claim is bound already, and the provider would wait for it to become pending."""
    resources = settings.resources
    spec: Manifest = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": resources.storage_size}},
        **({"storageClassName": resources.storage_class} if resources.storage_class else {}),
    }
    claim = manifest(settings, "v1", "PersistentVolumeClaim", name, spec=spec)
    return annotated(claim, {"pulumi.com/skipAwait": "true"})


def namespace(settings: Settings) -> Manifest:
    """For one that is ours to make: nothing runs in it that does not pass *restricted*."""
    level = "pod-security.kubernetes.io"
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": settings.namespace,
            "labels": {f"{level}/{mode}": "restricted" for mode in ("enforce", "warn", "audit")},
        },
    }
