"""A stack that is for production: what holds data is protected as well as retained, and only a purge takes it away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import objects
from e2e.bundle import Bundled, Stack, stack
from e2e.deployed import CLUSTER
from e2e.kubectl import Cluster

HA = (("configmap", f"{CLUSTER}-{CLUSTER}"), ("configmap", f"{CLUSTER}-replicas"), ("lease", f"{CLUSTER}-lock"))


@dataclass(slots=True)
class Protected(Bundled):
    @property
    def given(self) -> dict[str, Any]:
        return {**Bundled.given.fget(self), "production": True}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def deployed(cluster: Cluster, results: Path) -> Iterator[Stack]:
    with stack(cluster, results / "stack") as made:
        yield made


@pytest.fixture(scope="module")
def job(
    cluster: Cluster,
    namespace: str,
    object_store: objects.ObjectStore,
    flights_image: str,
    results: Path,
    deployed: Stack,
) -> Iterator[Protected]:
    made = Protected(cluster, object_store, flights_image, results, namespace, stack=deployed)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def uids(job: Protected) -> list[str]:
    return [job.get(kind, name)["metadata"]["uid"] for kind, name in HA]


def test_destroy_leaves_what_is_protected_in_the_cluster_and_in_the_state(job: Protected, deployed: Stack) -> None:
    job.goes_on(0)
    before = uids(job)

    deployed.destroy()

    job.wait_for(lambda: not job.pods(), "pods that are gone", 90)
    assert uids(job) == before
    assert all(name in deployed.state() for _, name in HA)
    assert job.get("roles")["items"] == []


def test_up_goes_on_with_it(job: Protected, deployed: Stack) -> None:
    before, last = uids(job), max(commit.seen for commit in job.watch.commits)
    deployed.up(job.given)
    job.goes_on(last)
    assert uids(job) == before


def test_purge_takes_it_away(job: Protected, deployed: Stack) -> None:
    deployed.purge(job.given)
    job.wait_for(lambda: not job.pods(), "pods that are gone", 90)
    for kind in ("configmaps", "leases"):
        assert {each["metadata"]["name"] for each in job.get(kind)["items"]} <= {"kube-root-ca.crt"}, kind
