"""Native and standalone mode as the bundle deploys them: a standby that has rehearsed, a dead leader, and every beat once."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import images, manifests
from e2e.harness.heartbeat import Heartbeat, heartbeat
from e2e.harness.kubectl import Cluster, await_value

#: Two drivers and their executors share a small machine.
SMALL: dict[str, Any] = {"executors": 1, "executorMemory": "512m"}


@pytest.fixture(scope="module")
def master(cluster: Cluster) -> Iterator[str]:
    """URL of a Spark master with one worker, which has room for the executors of two drivers."""
    cluster.load(images.saved(images.UNDERSTUDY))
    name = f"e2e-spark-{secrets.token_hex(2)}"
    url = f"spark://master.{name}.svc:7077"
    cluster.apply("default", manifests.namespace(name))
    master = daemon("master.Master", "--host", "$(IP)", "--port", "7077")
    worker = daemon(
        "worker.Worker", "--host", "$(IP)", "--cores", "4", "--memory", "3g", "--work-dir", "/tmp/work", url
    )
    try:
        cluster.apply(
            name,
            manifests.alone("master", local=cluster.local, **master),
            manifests.service("master", 7077, "master"),
            manifests.alone("worker", local=cluster.local, **worker),
        )
        for each in ("master", "worker"):
            cluster.kubectl("rollout", "status", "-n", name, f"deployment/{each}", "--timeout=90s", timeout=100)
        yield url
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def daemon(name: str, *arguments: str) -> dict[str, Any]:
    """A pod's spec: one of Spark's own daemons, from the image that replicas have."""
    container = {
        "name": "spark",
        "image": "understudy:dev",
        "imagePullPolicy": "Never",
        "command": ["/opt/spark/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments],
        "env": [
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "SPARK_DAEMON_MEMORY", "value": "256m"},
        ],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": manifests.RESTRICTED_CONTAINER,
    }
    return {"containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}]}


@pytest.fixture(scope="module", params=["native", "standalone"])
def job(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Heartbeat]:
    more: dict[str, Any] = {"master": request.getfixturevalue("master")} if request.param == "standalone" else {}
    with heartbeat(cluster, mode=request.param, **SMALL, **more) as made:
        made.stack.up(made.given)
        yield made


def test_a_standby_rehearses_while_another_leads(job: Heartbeat) -> None:
    shown = job.status(r"rounds, \d+ s ago", 300)
    assert "leads" in shown


def test_a_dead_leader_has_a_successor(job: Heartbeat) -> None:
    pod, before = job.leader(), len(job.beats())
    assert pod
    job.kill(pod)
    await_value(lambda: job.leader() not in {"", pod} or None, 60, "no replica took over")
    await_value(lambda: len(job.beats()) > before + 30 or None, 120, "no replica goes on", interval=2.0)


def test_every_beat_is_written_once(job: Heartbeat) -> None:
    beats = job.beats()
    assert len(beats) > 50
    assert beats == list(range(len(beats)))
