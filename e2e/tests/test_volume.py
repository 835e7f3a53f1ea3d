"""HA documents on a volume: one pod, no word to the API server, and it goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness.heartbeat import CLUSTER, Heartbeat, heartbeat
from e2e.harness.kubectl import Cluster, await_value

POD = f"{CLUSTER}-0"


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> Iterator[Heartbeat]:
    with heartbeat(cluster, own_volume=True, workload="StatefulSet", replicas=1) as made:
        made.stack.up(made.given)
        yield made


def more(job: Heartbeat, than: int) -> None:
    """Wait until there are a good deal more beats."""
    await_value(lambda: len(job.beats()) > than + 30 or None, 180, f"no more than {than} beats", interval=2.0)


def uid(job: Heartbeat) -> str:
    return str(job.cluster.get(job.namespace, "pod", POD)["metadata"]["uid"])


def test_its_pod_has_no_token_and_writes_no_document_of_the_api_server(job: Heartbeat) -> None:
    more(job, 0)
    pod = job.cluster.get(job.namespace, "pod", POD)
    mounts = [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
    assert "/var/run/secrets/kubernetes.io/serviceaccount" not in mounts
    maps = {each["metadata"]["name"] for each in job.cluster.get(job.namespace, "configmaps")["items"]}
    assert not {name for name in maps if name.startswith(CLUSTER) and "script" not in name}
    assert job.cluster.get(job.namespace, "leases")["items"] == []


def test_its_status_is_asked_inside(job: Heartbeat) -> None:
    asked = ["understudy", "status", "--cluster-id", CLUSTER, "--ha-dir", "/var/lib/understudy"]
    shown = job.cluster.kubectl("exec", "-n", job.namespace, f"statefulset/{CLUSTER}", "--", *asked)
    assert "RUNNING" in shown
    assert "leads" in shown


def test_a_deleted_pod_goes_on_where_it_was(job: Heartbeat) -> None:
    before, written = uid(job), len(job.beats())
    job.cluster.kubectl("delete", "pod", POD, "-n", job.namespace, "--wait=true", timeout=90)
    more(job, written)
    assert uid(job) != before
    beats = job.beats()
    assert beats == list(range(len(beats)))


def test_its_volume_outlives_the_stack(job: Heartbeat) -> None:
    claim = job.cluster.get(job.namespace, "persistentvolumeclaim", f"{CLUSTER}-ha")
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    job.stack.destroy()
    left = job.cluster.get(job.namespace, "persistentvolumeclaim", f"{CLUSTER}-ha")
    assert left["metadata"]["uid"] == claim["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]
