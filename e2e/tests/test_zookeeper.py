"""A job of the bundle whose lock and documents are in charts/zookeeper: pods that die, a server that dies, and what outlives the stack."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.bundle import Stack
from e2e.harness.deployment_under_test import CLUSTER, PATIENCE
from e2e.harness.ensemble import Ensemble, InZooKeeper, ensemble
from e2e.harness.flights_deployment import BUSY, CALM, WHOLE, counted
from e2e.harness.helm import Helm
from e2e.harness.kubectl import Cluster, Failed
from e2e.harness.objects import ObjectStore

DOCUMENTS = {f"{CLUSTER}-{name}" for name in ("lock", CLUSTER, "replicas")}


@pytest.fixture(scope="module")
def servers(cluster: Cluster, namespace: str, helm: Helm) -> Iterator[Ensemble]:
    with ensemble(cluster, namespace, helm) as made:
        yield made


@pytest.fixture(scope="module")
def flights(
    cluster: Cluster,
    namespace: str,
    object_store: ObjectStore,
    flights_image: str,
    results: Path,
    stack_under_test: Stack,
    servers: Ensemble,
) -> Iterator[InZooKeeper]:
    """With the default leases: those of ``fast`` are shorter than three servers on two busy cores may take to elect."""
    over = {**servers.given, "profile": "default", "rehearseRounds": 4}
    with InZooKeeper(
        cluster,
        object_store,
        flights_image,
        results,
        namespace,
        stack=stack_under_test,
        over=over,
        ensemble=servers,
    ).running() as made:
        assert made.watch.first(lambda commit: commit.input, 240), "no replica ever led"
        yield made


def test_a_leader_leads_and_its_documents_are_in_the_ensemble_and_nowhere_else(
    flights: InZooKeeper, servers: Ensemble
) -> None:
    flights.ready()
    assert servers.documents().keys() == DOCUMENTS
    assert flights.leader()["metadata"]["name"] in {each["host"] for each in flights.standings()}
    assert flights.get("leases")["items"] == []
    maps = {each["metadata"]["name"] for each in flights.get("configmaps")["items"]}
    assert not {name for name in maps if name.startswith(CLUSTER)}


def test_its_pods_may_neither_read_nor_write_a_document_of_the_api_server(flights: InZooKeeper) -> None:
    account = f"--as=system:serviceaccount:{flights.namespace}:{CLUSTER}"
    for verb, resource in (("get", "configmaps"), ("patch", "configmaps"), ("get", "leases"), ("create", "leases")):
        with pytest.raises(Failed) as refused:
            flights.cluster.kubectl("auth", "can-i", verb, resource, account, "-n", flights.namespace)
        assert refused.value.printed.strip() == "no", (verb, resource)
    assert flights.cluster.kubectl("auth", "can-i", "watch", "pods", account, "-n", flights.namespace).strip() == "yes"


def test_commands_in_a_pod_find_them_without_an_option(flights: InZooKeeper) -> None:
    status = flights.status()
    assert (status["status"], status["epoch"]) == ("RUNNING", flights.epoch())
    assert len(status["replicas"]) == flights.replicas
    found = json.loads(flights.understudy("doctor", "--json"))
    assert found["exit_code"] == 0, found
    assert flights.leader()["status"]["podIP"] in flights.understudy("leader")


def test_up_again_changes_nothing(flights: InZooKeeper, stack_under_test: Stack) -> None:
    assert stack_under_test.up(flights.given) == 0
    assert stack_under_test.up(flights.given, refresh=True) == 0
    assert flights.ensemble is not None
    assert flights.ensemble.user not in stack_under_test.state()


def test_a_killed_leader_is_followed_on_the_kubelets_word(flights: InZooKeeper) -> None:
    before = flights.ready()
    pod = flights.leader()["metadata"]["uid"]
    assert flights.kill("container").epoch == before + 1
    assert flights.leader()["metadata"]["uid"] != pod


def test_a_leader_whose_pod_is_deleted_without_grace_is_followed(flights: InZooKeeper) -> None:
    before = flights.ready()
    pod, holder = flights.leader(), flights.holder()
    at = flights.delete(pod, force=True)
    assert flights.measure("pod", at, holder).epoch == before + 1
    assert flights.leader()["metadata"]["uid"] != pod["metadata"]["uid"]


def test_a_killed_server_costs_the_job_no_leader(flights: InZooKeeper, servers: Ensemble) -> None:
    """Not even the one that leads the others, to which every write goes."""
    before = flights.grant()
    flights.feed.per_second = BUSY
    victim = servers.leading()
    assert victim
    at = time.time()
    servers.kill(victim)
    flights.goes_on(at)
    servers.await_ready()
    assert servers.leading() not in {"", victim}
    flights.feed.per_second = CALM
    flights.goes_on(time.time())
    assert flights.grant() == before
    assert flights.record()["status"] == "RUNNING"


def test_a_declared_state_is_brought_about_there_and_outlives_the_stack(
    flights: InZooKeeper, servers: Ensemble, stack_under_test: Stack
) -> None:
    before, record = flights.epoch(), flights.record()
    assert stack_under_test.up({**flights.given, "state": "suspended"}) > 0
    assert flights.record()["status"] == "SUSPENDED"

    stack_under_test.destroy()
    flights.wait_for(lambda: not flights.pods(), "pods that are gone", PATIENCE)
    for kind in ("deployments", "jobs", "roles", "rolebindings"):
        assert flights.get(kind)["items"] == [], kind
    assert servers.documents().keys() == DOCUMENTS
    kept = ("job", "script", "roots")
    left = flights.record()
    assert (left["status"], [left[key] for key in kept]) == ("SUSPENDED", [record[key] for key in kept])
    assert flights.holder() == "", "released on the way out"

    since = time.time()
    assert stack_under_test.up({**flights.given, "state": "running"}) > 0
    assert flights.record()["status"] == "RUNNING"
    flights.goes_on(since)
    assert flights.epoch() > before


def test_every_row_is_there_once_and_epochs_only_grew(flights: InZooKeeper) -> None:
    assert counted(flights.finish(400)) == WHOLE
