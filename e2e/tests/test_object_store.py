"""The S3 server that checkpoints and sinks of the other tests live on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2e.harness.kubectl import Cluster
from e2e.harness.objects import NAME, PORT, Bucket, ObjectStore, Refusal


def test_what_is_put_can_be_listed_and_got(object_store: ObjectStore) -> None:
    with object_store.open() as bucket:
        bucket.put("a/über & co.txt", b"one")
        bucket.put("a/two", b"2" * 100_000)

        assert bucket.names("a/") == ["a/two", "a/über & co.txt"]
        assert bucket.get("a/über & co.txt") == b"one"
        assert len(bucket.get("a/two")) == 100_000


def test_a_conditional_put_never_overwrites(object_store: ObjectStore) -> None:
    with object_store.open() as bucket:
        bucket.put("claim", b"first", only_new=True)

        with pytest.raises(Refusal) as refused:
            bucket.put("claim", b"second", only_new=True)

        assert refused.value.status == 412
        assert bucket.get("claim") == b"first"


def test_a_forwarded_port_serves_thousands_of_connections(cluster: Cluster, object_store: ObjectStore) -> None:
    """Wherever pods have no address for the tests, everything they see of a job comes this way."""
    store = object_store
    with cluster.forward(store.namespace, NAME, PORT) as port:
        bucket = Bucket(port, store.bucket, store.key, store.secret)
        bucket.put("once", b"1")
        assert all(bucket.get("once") == b"1" for _ in range(2500))


def test_nobody_reads_without_the_secret(object_store: ObjectStore) -> None:
    with object_store.open() as bucket:
        stranger = replace(bucket, secret="guessed")

        with pytest.raises(Refusal) as refused:
            stranger.names()

    assert refused.value.status == 403


def test_pods_of_other_namespaces_reach_it_by_name(cluster: Cluster, namespace: str, object_store: ObjectStore) -> None:
    asked = cluster.run_pod(namespace, "health", "get", f"{object_store.endpoint}/health")

    assert asked.output.splitlines()[0] == "200"
