"""PersistentVolumes for claims of tests. The local cluster has no provisioner: there each is a directory of node 1."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.cluster.layout import Layout
from e2e.harness.kubectl import Cluster

_BELOW_VAR = ("lib", "e2e-volumes")
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


@contextmanager
def volumes(cluster: Cluster, namespace: str, count: int, alone: int = 0) -> Iterator[str]:
    """Room for ``count`` claims of up to 1 Gi, and for ``alone`` more that are one pod's (ReadWriteOncePod).

    Yields the storage class that they have to name, empty for the cluster's own.
    """
    if not cluster.local:
        classes = cluster.get(namespace, "storageclasses")["items"]
        assert any((each["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true" for each in classes), (
            "claims would wait for ever: this cluster has no default StorageClass"
        )
        yield ""
        return
    modes = ["ReadWriteOnce"] * count + ["ReadWriteOncePod"] * alone
    names = [f"{namespace}-{number}" for number in range(len(modes))]
    home = Layout.default().disk("node1").joinpath(*_BELOW_VAR)
    for name in names:
        (home / name).mkdir(parents=True)
        os.chown(home / name, 10001, 10001)
    cluster.apply("default", *[_volume(name, namespace, mode) for name, mode in zip(names, modes, strict=True)])
    try:
        yield namespace
    finally:
        if not os.environ.get("E2E_KEEP"):
            # they go once the claims of the namespace have, and are not waited for
            cluster.kubectl("delete", "persistentvolume", *names, "--wait=false")
            for name in names:
                shutil.rmtree(home / name, ignore_errors=True)


def _volume(name: str, storage_class: str, mode: str) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"understudy.dev/e2e": "true"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "local": {"path": "/".join(["/var", *_BELOW_VAR, name])},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
