"""The flights job reads a topic of a real broker; checkpoints and sinks stay on ``s3a://``, and every message counts once.

Where a batch of Kafka began and ended stands in its checkpoint only: the broker is told of no progress. So a new leader that
plans the interrupted batch again, or reads on from another offset, loses or repeats rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import broker, images
from e2e.harness.deployment_under_test import PATIENCE
from e2e.harness.flights_deployment import BUSY, WHOLE, FlightsDeployment, counted
from e2e.harness.kubectl import Cluster, await_value


@pytest.fixture(scope="module")
def flights_image(cluster: Cluster) -> str:
    cluster.load(images.kafka(images.KAFKA_FLIGHTS))
    return images.KAFKA_FLIGHTS


@pytest.fixture(scope="module")
def topic(cluster: Cluster, namespace: str, results: Path) -> Iterator[broker.Topic]:
    broker.install(cluster, namespace)
    with broker.topic(cluster, namespace, "flights", results / "producer.log") as made:
        yield made


def with_a_batch_in_flight(flights: FlightsDeployment) -> tuple[str, Any]:
    """Waits for a rehearsed standby, and then for a batch of the leader's that is planned and not committed: its holder and pod."""
    flights.ready()
    flights.feed.per_second = BUSY
    holder, pod = flights.holder(), flights.leader()
    await_value(flights.bucket_sync.in_flight, 60, "no batch was in flight", interval=0.01)
    return holder, pod


def test_a_standby_rehearses_with_messages_of_the_topic(flights: FlightsDeployment) -> None:
    flights.ready()

    def rehearsed_live() -> bool:
        standbys = [each for each in flights.standings() if each["holder"] != flights.holder()]
        return [(each["rehearsed"], each["how"]) for each in standbys] == [(True, "live")]

    # Its first round may come before the leader's first commit, on a checkpoint of its own.
    flights.wait_for(rehearsed_live, "a standby that has rehearsed the leader's batch", PATIENCE)


def test_the_whole_container_is_killed_with_a_batch_in_flight(flights: FlightsDeployment) -> None:
    before = flights.epoch()
    holder, pod = with_a_batch_in_flight(flights)
    at = flights.send_signal(pod, "container")
    assert flights.measure("container", at, holder).epoch > before


def test_sigterm_to_the_pod_with_a_batch_in_flight(flights: FlightsDeployment) -> None:
    before = flights.epoch()
    holder, pod = with_a_batch_in_flight(flights)
    at = flights.delete(pod)
    assert flights.measure("sigterm", at, holder).epoch > before


def test_every_row_is_there_once_and_epochs_only_grew(flights: FlightsDeployment) -> None:
    assert counted(flights.finish(400)) == WHOLE
