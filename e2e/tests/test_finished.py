"""A job that has FINISHED: its pods stay as they are, ready and idle, and say so; a new one finds it ended and does the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import deployment_specs
from e2e.harness.deployment_specs import Job
from e2e.harness.kubectl import Cluster, await_value

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(10).write.mode("overwrite").parquet("/tmp/ten")
print("ten rows written", flush=True)
"""


@pytest.fixture(scope="module")
def job(cluster: Cluster, namespace: str, flights_image: str) -> Iterator[Job]:
    made = Job("ended", namespace, flights_image, ("/job/job.py",), replicas=2)
    cluster.apply(namespace, *deployment_specs.running(made, SCRIPT))
    yield made
    cluster.kubectl("delete", "deployment,configmap,lease,role,rolebinding", "--all", "-n", namespace)


def pods(cluster: Cluster, job: Job) -> list[dict[str, Any]]:
    return list(cluster.get(job.namespace, "pods", "-l", f"understudy.dev/cluster={job.cluster}")["items"])


def told(cluster: Cluster, job: Job, pod: dict[str, Any]) -> str:
    with cluster.proxy() as proxy:
        name = pod["metadata"]["name"]
        return proxy.get(f"/api/v1/namespaces/{job.namespace}/pods/{name}:8080/proxy/readyz")


def idle(cluster: Cluster, job: Job) -> dict[str, int]:
    """Restarts of each pod by its uid, once both are ready and say that the job has ended."""

    def both() -> dict[str, int] | None:
        found = pods(cluster, job)
        states = [status for pod in found for status in pod["status"].get("containerStatuses", [])]
        if len(states) != 2 or not all(each["ready"] for each in states):
            return None
        if any("job ended is FINISHED: the script ended" not in told(cluster, job, pod) for pod in found):
            return None
        return {pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in found}

    return await_value(both, 180, "pods of a job that has ended are not ready, or do not say so")


def test_pods_of_a_finished_job_stay_ready_and_are_not_begun_again(cluster: Cluster, job: Job) -> None:
    first = idle(cluster, job)
    assert set(first.values()) == {0}
    victim = pods(cluster, job)[0]["metadata"]
    cluster.kubectl("delete", "pod", victim["name"], "-n", job.namespace)
    second = idle(cluster, job)
    assert set(second.values()) == {0}
    assert len(first.keys() & second.keys()) == 1
