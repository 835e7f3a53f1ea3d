"""What has to outlive everything else: HA documents and the lock, and on a volume the claim they are kept on.

Bare objects. Drivers write into them, so nothing here declares data; and nobody owns them, or the garbage collector would remove
them with their owner.
"""

from __future__ import annotations

from infra.manifests.base import Manifest, made
from infra.settings import Settings


def ha_objects(settings: Settings) -> list[Manifest]:
    if settings.on_volume:
        return [_claim(settings)]
    names = settings.job.names
    maps = [names.job_document, names.replicas]
    if settings.run.lock != "lease":
        maps.append(names.lock)
    found = [made(settings, "v1", "ConfigMap", name) for name in maps]
    if settings.run.lock != "configmap":
        found.append(made(settings, "coordination.k8s.io/v1", "Lease", names.lock))
    return found


def _claim(settings: Settings) -> Manifest:
    """ReadWriteOncePod: two pods of one node must not share it either, their evidence is told apart by machine."""
    room = settings.room
    spec: Manifest = {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": room.storage_size}},
        **({"storageClassName": room.storage_class} if room.storage_class else {}),
    }
    return made(settings, "v1", "PersistentVolumeClaim", f"{settings.job.cluster}-ha", spec=spec)


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
