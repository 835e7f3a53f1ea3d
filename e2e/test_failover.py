"""Pods that really get killed: each way of dying, then every row compared with one batch query over the same files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import observer
from bench.data import FLIGHTS
from e2e.evidence import DIRECTORY
from e2e.kubectl import Cluster
from e2e.objects import ObjectStore
from e2e.production import PATIENCE, Production


@pytest.fixture(scope="module")
def results() -> Path:
    """What a run leaves to look at."""
    made = DIRECTORY / "failover"
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture(scope="module")
def production(
    cluster: Cluster, namespace: str, object_store: ObjectStore, flights_image: str, results: Path
) -> Iterator[Production]:
    made = Production(cluster, object_store, flights_image, results, namespace)
    try:
        made.start()
        assert made.watch.first(lambda commit: commit.input, 240), "nobody ever led"
        yield made
    finally:
        made.stop()


def is_jvm(process: observer.Process) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in process.command and "java" in process.command.split(" ")[0]


def is_supervisor(process: observer.Process) -> bool:
    return " run --cluster-id" in f" {process.command}" and "understudy.driver" not in process.command


def ready(production: Production) -> int:
    production.wait_for(production.rehearsed, "two rehearsed standbys", 240)
    production.feed.per_second = 3.0
    return production.epoch()


def test_the_jvm_is_killed(production: Production) -> None:
    before = ready(production)
    takeover = production.kill("jvm", is_jvm)
    assert takeover.epoch > before


def test_the_whole_container_is_killed(production: Production) -> None:
    """Its first process gets SIGKILL: the kernel kills the rest, the kubelet reports it, and nobody waits for the lease."""
    before = ready(production)
    takeover = production.kill("container", lambda process: process.parent not in own_pids(production))
    assert takeover.epoch > before


def own_pids(production: Production) -> set[int]:
    return {process.pid for process in production.processes(production.leader())}


def test_sigterm_to_the_pod(production: Production) -> None:
    before = ready(production)
    holder, pod = production.holder(), production.leader()
    at = time.time()
    production.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", production.namespace, "--wait=false")
    takeover = production.measure("sigterm", at, holder)
    assert takeover.epoch > before


def test_a_deployment_deleted_and_recreated_resumes(production: Production) -> None:
    """HA objects have no owner: they stay, and whoever comes next goes on from the next epoch."""
    before = production.epoch()
    production.undeploy()
    kept = {item["metadata"]["name"] for item in production.get("configmap")["items"]}
    assert set(production.job.documents) <= kept
    holder = production.holder()
    assert holder == "", "released on the way out"
    production.deploy()
    production.wait_for(lambda: production.epoch() > before, "a new leader", PATIENCE)


def test_every_row_is_there_once_and_epochs_only_grew(production: Production, results: Path) -> None:
    compared = production.finish()
    (results / "rows.json").write_text(json.dumps([repr(each) for each in compared], indent=1), encoding="utf-8")
    assert {each.sink: (each.lost, each.repeated) for each in compared} == {"delays": (0, 0), "flights": (0, 0)}
    assert {each.flights for each in compared} == {FLIGHTS}
