"""What else befalls a job in a cluster: every test ends with a job that goes on, the last one compares every row."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from e2e.harness import deployment_specs, images
from e2e.harness.deployment_under_test import CLUSTER, PATIENCE
from e2e.harness.flights_deployment import BUSY, CALM, WHOLE, FlightsDeployment, counted
from e2e.harness.kubectl import Failed as Refused
from e2e.harness.kubectl import await_value, looking
from e2e.harness.replica_logs import said
from e2e.tests.test_failover import freeze_and_thaw

#: Longer than a rollout takes, in seconds, and days that are left for the tests after it.
ROLLOUT, LATER = 200.0, 120


def test_a_pod_that_is_deleted_by_force(flights: FlightsDeployment) -> None:
    """It still gets SIGTERM; its object is gone before its processes are, so their end cannot be observed."""
    before = flights.ready()
    holder, pod = flights.holder(), flights.leader()
    at = flights.delete(pod, force=True)
    assert flights.measure("force", at, holder).epoch > before


@pytest.mark.machines
def test_a_node_that_crashes(flights: FlightsDeployment) -> None:
    before = flights.apart()
    holder, pod = flights.holder(), flights.leader()
    with flights.cluster.failing("crash", flights.node(pod)) as at:
        assert flights.measure("crash", at, holder).epoch > before


@pytest.mark.machines
def test_a_leader_that_is_frozen_past_its_lease_and_thawed_is_refused(flights: FlightsDeployment) -> None:
    freeze_and_thaw(flights, cut=False)


def test_all_replicas_at_once(flights: FlightsDeployment) -> None:
    before = flights.ready()
    at = min(flights.send_signal(pod, "container") for pod in flights.pods())
    flights.wait_for(lambda: flights.epoch() > before, "a new leader", PATIENCE)
    flights.goes_on(at + 1)


def test_an_image_rolled_out_under_load_and_rolled_back(flights: FlightsDeployment) -> None:
    flights.cluster.load(images.next_flights())
    flights.ready()
    for step, command in enumerate(("set", "undo")):
        epoch = flights.epoch()
        flights.feed.per_second = min(BUSY, max(CALM, (flights.feed.left - LATER) / (2 * ROLLOUT)))
        with looking(flights.generation) as led:
            if command == "set":
                flights.deploy(image=images.NEXT_FLIGHTS)
            else:
                flights.cluster.kubectl("rollout", "undo", f"deployment/{CLUSTER}", "-n", flights.namespace)
            newest = flights.rolled_out()
            flights.goes_on(time.time())
        flights.feed.per_second = CALM
        assert led == sorted(led), "an older generation has led again"
        assert 1 <= flights.epoch() - epoch <= 2, "at most two takeovers"
        assert newest == 2 + step, "a rollback is a new revision"


def test_a_node_is_drained_and_its_budget_kept(flights: FlightsDeployment) -> None:
    """Both replicas are on it: the second one waits until a third is ready elsewhere."""
    before = flights.together()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": CLUSTER},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"understudy.dev/cluster": CLUSTER}}},
    }
    flights.cluster.apply(flights.namespace, budget)
    node = flights.leader()["spec"]["nodeName"]
    at = time.time()
    drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
    with flights.cluster.cordoned(node):  # which a drain does, and does not take back
        with looking(flights.healthy) as healthy:
            flights.cluster.kubectl(*drain, f"--pod-selector=understudy.dev/cluster={CLUSTER}", timeout=320)
        assert min(healthy) >= 1, "both were evicted at once"
        assert node not in {pod["spec"]["nodeName"] for pod in flights.pods()}
        flights.wait_for(lambda: flights.epoch() > before, "a new leader", PATIENCE)
        flights.goes_on(at)


@pytest.mark.parametrize("harm", ["deleted", "emptied", "corrupted"])
@pytest.mark.parametrize("which", ["replicas", "job", "lock"])
def test_a_document_is_harmed(flights: FlightsDeployment, which: str, harm: str) -> None:
    """A living leader leads on and its epoch stays or grows; what was harmed is written again or asked for by name."""
    before = flights.ready()
    kind, name = {
        "replicas": ("configmap", f"{CLUSTER}-replicas"),
        "job": ("configmap", f"{CLUSTER}-{CLUSTER}"),
        "lock": ("lease", f"{CLUSTER}-lock"),
    }[which]
    kept = flights.get(kind, name)
    at = time.time()
    kubectl, namespace = flights.cluster.kubectl, flights.namespace
    match harm:
        case "deleted":
            kubectl("delete", kind, name, "-n", namespace)
            flights.cluster.apply(
                namespace,
                *[each for each in deployment_specs.ha_objects(flights.job) if each["metadata"]["name"] == name],
            )
        case "emptied":
            emptied = {"data": None} if kind == "configmap" else {"spec": None, "metadata": {"annotations": None}}
            kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(emptied))
        case _:
            key = "understudy.dev/grant"
            rubbish = (
                {"data": dict.fromkeys(kept.get("data") or {}, "{half")}
                if kind == "configmap"
                else {"metadata": {"annotations": {key: "{half"}}}
            )
            kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(rubbish))
    time.sleep(5)
    match which:
        case "lock":
            flights.wait_for(lambda: granted(flights), "its holder to write it again", 30)
        case "job":
            flights.wait_for(lambda: bool(told(flights, "DocumentNotWritten", name, at)), "its leader to miss it", 90)
        case _ if harm == "corrupted":
            flights.delete(standby(flights))
            flights.wait_for(
                lambda: bool(told(flights, "ReplicaRefused", name, at)), "a newcomer to ask for it", PATIENCE
            )
        case _:
            old = {pod["metadata"]["uid"] for pod in flights.pods()}
            flights.delete(standby(flights))
            flights.wait_for(lambda: written(flights) - old != set(), "a newcomer to write into it", PATIENCE)
    flights.goes_on(time.time())
    if which != "lock":  # only its owner may say what stood there: put it back, as an operator would
        restored = {key: kept[key] for key in ("apiVersion", "kind", "data") if key in kept}
        restored["metadata"] = {"name": name, "labels": kept["metadata"].get("labels", {})}
        kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(restored))
    if which == "job":  # what is missed again is told again only once it was written in between, which is once a minute
        back = flights.get(kind, name)["data"]
        flights.wait_for(lambda: flights.get(kind, name)["data"] != back, "its leader to write it again", 150)
    await_value(lambda: flights.epoch() >= before or None, 30, "the epoch went back")


def granted(flights: FlightsDeployment) -> bool:
    """Whether the lock says who holds it, under which epoch."""
    with suppress(KeyError, TypeError, ValueError):
        return flights.grant()[1] != ""
    return False


def written(flights: FlightsDeployment) -> set[str]:
    """The pods that say in the replicas' document how they stand."""
    return {each["holder"].partition("_")[0] for each in flights.standings()}


def standby(flights: FlightsDeployment) -> Any:
    lead = flights.leader()["metadata"]["uid"]
    return next(pod for pod in flights.pods() if pod["metadata"]["uid"] != lead)


def told(flights: FlightsDeployment, reason: str, name: str, since: float) -> list[Any]:
    """Events of this reason that name this document."""
    events = flights.get("events.events.k8s.io")["items"]
    named = [each for each in events if each["reason"] == reason and name in each["note"]]
    return [each for each in named if datetime.fromisoformat(each["eventTime"]).timestamp() >= since]


def test_the_jobs_document_is_lost_while_nobody_leads(flights: FlightsDeployment) -> None:
    """Pods that never led know from another document that there was a job: they stop, until it is put back."""
    before, name = flights.ready(), f"{CLUSTER}-{CLUSTER}"
    kept = flights.get("configmap", name)
    flights.undeploy()
    flights.cluster.kubectl("delete", "configmap", name, "-n", flights.namespace)
    bare = [each for each in deployment_specs.ha_objects(flights.job) if each["metadata"]["name"] == name]
    flights.cluster.apply(flights.namespace, *bare)
    lost = time.time()
    flights.deploy()
    flights.wait_for(
        lambda: bool(told(flights, "ReplicaRefused", name, lost)), "an Event that names the document", PATIENCE
    )
    assert flights.watch.first(lambda each: each.input and each.seen > lost, 5) is None, "a replica started it again"
    kept["metadata"] = {"name": name, "labels": kept["metadata"]["labels"]}
    flights.cluster.apply(flights.namespace, kept)
    flights.undeploy()
    flights.deploy()
    flights.goes_on(time.time())
    assert flights.epoch() > before


def test_every_document_is_lost(flights: FlightsDeployment) -> None:
    """Lock and documents are gone together, as with a cluster that was created again; the claims in the bucket are not."""
    before = flights.ready()
    flights.undeploy()
    objects = deployment_specs.ha_objects(flights.job)
    for each in objects:
        flights.cluster.kubectl("delete", each["kind"], each["metadata"]["name"], "-n", flights.namespace)
    flights.cluster.apply(flights.namespace, *objects)
    emptied = time.time()
    flights.deploy()
    flights.goes_on(emptied)
    assert flights.epoch() > before, "no epoch is given twice"


def test_the_lock_is_deleted_for_thirty_seconds(flights: FlightsDeployment) -> None:
    """Again and again: its leader makes it again, as the bundle's Role lets it, and leads on."""
    before, holder, lock = flights.ready(), flights.holder(), f"{CLUSTER}-lock"
    until = time.time() + 30
    while time.time() < until:
        flights.cluster.kubectl("delete", "lease", lock, "-n", flights.namespace, "--ignore-not-found")
        time.sleep(1)
    flights.goes_on(time.time())
    assert (flights.epoch(), flights.holder()) == (before, holder)


def test_the_lock_is_gone_for_thirty_seconds_where_nobody_may_create_it(flights: FlightsDeployment) -> None:
    """No replica leads until it is put back, empty; then it is taken, above every epoch there was."""
    before, name = flights.ready(), f"{CLUSTER}-lock"
    flights.quiet()
    role = deployment_specs.role(flights.job)
    kept = [rule for rule in role["rules"] if (rule["resources"], rule["verbs"]) != (["leases"], ["create"])]
    assert len(kept) == len(role["rules"]) - 1
    flights.cluster.apply(flights.namespace, {**role, "rules": kept})
    flights.cluster.kubectl("delete", "lease", name, "-n", flights.namespace)
    taken = time.time()
    time.sleep(30)
    assert "acquired" not in {each.event for each in said(flights, taken)}, "a replica led without a lock"
    with pytest.raises(Refused, match="not found"):
        flights.cluster.kubectl("get", "lease", name, "-n", flights.namespace)
    bare = [each for each in deployment_specs.ha_objects(flights.job) if each["metadata"]["name"] == name]
    flights.cluster.apply(flights.namespace, *bare)
    back = time.time()
    flights.feed.per_second = CALM
    flights.goes_on(back)
    assert flights.epoch() > before
    flights.cluster.apply(flights.namespace, role)


@pytest.mark.parametrize("resource", ["leases", "configmaps"])
def test_a_permission_is_taken_away_and_given_back(flights: FlightsDeployment, resource: str) -> None:
    """No leader is demoted for it: a leader that cannot renew pauses, and one that cannot note its commits says so."""
    before = flights.ready()
    holder, taken = flights.holder(), time.time()
    if resource == "leases":
        flights.quiet()
    flights.cluster.apply(flights.namespace, deployment_specs.role(flights.job, without=resource))
    if resource == "leases":
        flights.wait_for(lambda: "parked" in {each.event for each in said(flights, taken)}, "a leader that pauses", 60)
    else:
        job = f"{CLUSTER}-{CLUSTER}"
        flights.wait_for(lambda: bool(told(flights, "DocumentNotWritten", job, taken)), "a word of it", 90)
    flights.cluster.apply(flights.namespace, deployment_specs.role(flights.job))
    given = time.time()
    flights.feed.per_second = CALM
    flights.goes_on(given)
    assert (flights.epoch(), flights.holder()) == (before, holder)


def test_every_row_is_there_once_and_epochs_only_grew(flights: FlightsDeployment) -> None:
    assert counted(flights.finish()) == WHOLE
