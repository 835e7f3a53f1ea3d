"""The flights job reads a topic of a real broker; checkpoints and sinks stay on ``s3a://``, and every message counts once.

Where a batch of Kafka began and ended stands in its checkpoint only: the broker is told of no progress. So a new leader that
plans the interrupted batch anew, or reads on from another offset, loses or repeats rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import broker, images
from e2e.kubectl import Cluster, await_value
from e2e.production import BUSY, WHOLE, Production, counted


@pytest.fixture(scope="module")
def flights_image(cluster: Cluster) -> str:
    cluster.load(images.kafka(images.KAFKA_FLIGHTS))
    return images.KAFKA_FLIGHTS


@pytest.fixture(scope="module")
def topic(cluster: Cluster, namespace: str, results: Path) -> Iterator[broker.Topic]:
    broker.install(cluster, namespace)
    with broker.topic(cluster, namespace, "flights", results / "producer.log") as made:
        yield made


def with_a_batch_in_flight(production: Production) -> tuple[str, Any]:
    """Waits for a rehearsed standby, and then for a batch of the leader's that is planned and not committed: its holder and pod."""
    production.ready()
    production.feed.per_second = BUSY
    holder, pod = production.holder(), production.leader()
    await_value(production.courier.in_flight, 60, "no batch was in flight", interval=0.01)
    return holder, pod


def test_a_standby_rehearses_with_messages_of_the_topic(production: Production) -> None:
    production.ready()
    standbys = [each for each in production.standings() if each["holder"] != production.holder()]
    assert [(each["rehearsed"], each["how"]) for each in standbys] == [(True, "live")]


def test_the_whole_container_is_killed_with_a_batch_in_flight(production: Production) -> None:
    before = production.epoch()
    holder, pod = with_a_batch_in_flight(production)
    at = production.strike(pod, "container")
    assert production.measure("container", at, holder).epoch > before


def test_sigterm_to_the_pod_with_a_batch_in_flight(production: Production) -> None:
    before = production.epoch()
    holder, pod = with_a_batch_in_flight(production)
    at = production.delete(pod)
    assert production.measure("sigterm", at, holder).epoch > before


def test_every_row_is_there_once_and_epochs_only_grew(production: Production) -> None:
    assert counted(production.finish(400)) == WHOLE
