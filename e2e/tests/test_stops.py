"""A job that is asked to stop, in a real cluster: it goes on with newer code, is drained to the last row, or is canceled."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.harness import deployment_specs, images
from e2e.harness.deployment_specs import Job
from e2e.harness.deployment_under_test import PATIENCE
from e2e.harness.flights_deployment import QUERIES, WHOLE, FlightsDeployment, counted
from e2e.harness.kubectl import Cluster, await_value
from testkit import observer
from testkit.comparison import verify_apart
from testkit.feeds import DAYS

ENDLESS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.readStream.format("rate").load().writeStream.format("noop").start().awaitTermination()
"""


def test_a_suspended_job_goes_on_with_a_new_image(flights: FlightsDeployment, cluster: Cluster) -> None:
    before, generation = flights.ready(), flights.generation()
    assert "between two batches: boundary 1" in flights.understudy("suspend")
    cluster.load(images.next_flights())
    flights.deploy(image=images.NEXT_FLIGHTS)
    command = ("rollout", "status", f"deployment/{flights.job.cluster}", "-n", flights.namespace, "--timeout=200s")
    cluster.kubectl(*command, timeout=220)
    assert flights.status()["status"] == "SUSPENDED", "replicas of the new image are ready, and idle"
    at = time.time()
    assert "it was SUSPENDED" in flights.understudy("resume")
    flights.goes_on(at)
    assert flights.epoch() > before
    flights.wait_for(lambda: flights.generation() > generation, "the new image leads", PATIENCE)


def test_a_drained_job_has_written_every_row_and_its_pods_stay_ready(flights: FlightsDeployment) -> None:
    flights.ready()
    flights.feed.per_second = 0
    flights.feed.feed_now(DAYS)

    def read() -> bool:
        for query in QUERIES:
            for log in ("sources", "offsets"):
                flights.bucket_sync.fetch(f"output/checkpoints/{query}/{log}/")
        return all(observer.files_read(flights.checkpoints / each) >= flights.feed.files for each in QUERIES)

    flights.wait_for(read, "everything that was fed", 240)
    assert flights.jvms(flights.leader())
    said = flights.understudy("drain")
    assert "the job is FINISHED" in said
    sinks = flights.logs / "sinks"
    flights.bucket_sync.fetch_sinks(sinks)
    compared = verify_apart(flights.bucket_sync.input, sinks, flights.logs / "verify.log")
    assert counted(compared) == WHOLE, "without a row from the future"
    flights.wait_for(lambda: flights.healthy() == flights.replicas, "idle replicas that are ready", 60)
    assert not any(flights.jvms(pod) for pod in flights.pods())


@pytest.fixture
def endless(cluster: Cluster, namespace: str, flights_image: str) -> Iterator[Job]:
    made = Job("endless", namespace, flights_image, ("/job/job.py",), replicas=2)
    cluster.apply(namespace, *deployment_specs.running(made, ENDLESS))
    yield made
    cluster.kubectl("delete", "deployment", "endless", "-n", namespace)
    cluster.kubectl("delete", "configmap", "scripts", "-n", namespace)


def test_a_canceled_job_has_no_driver_and_does_not_begin_again(
    flights: FlightsDeployment, cluster: Cluster, endless: Job
) -> None:
    def pods() -> dict[str, bool]:
        found = cluster.get(endless.namespace, "pods", "-l", f"understudy.dev/cluster={endless.cluster}")["items"]
        states = {pod["metadata"]["name"]: pod["status"].get("containerStatuses", []) for pod in found}
        return {name: bool(each) and all(one["ready"] for one in each) for name, each in states.items()}

    def told() -> set[str]:
        with cluster.proxy() as proxy:
            place = f"/api/v1/namespaces/{endless.namespace}/pods"
            return {proxy.get(f"{place}/{name}:8080/proxy/readyz") for name, ready in pods().items() if ready}

    def ended() -> bool | None:
        found = told()
        return (len(pods()) == 2 and len(found) == 1 and "job endless is CANCELED" in next(iter(found))) or None

    await_value(lambda: (len(pods()) == 2 and all(pods().values())) or None, 240, "no two replicas that are ready")
    assert "the job is CANCELED" in flights.understudy_of(endless.cluster, "cancel")
    await_value(ended, 60, "pods of a canceled job are not ready, or do not say so")
    cluster.kubectl("delete", "pod", next(iter(pods())), "-n", endless.namespace)
    await_value(ended, 180, "a new pod of a canceled job is not ready, or does not say so")
