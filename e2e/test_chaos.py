"""What else befalls a job in a cluster: every test ends with a job that goes on, the last one compares every row."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from e2e import deployments, images
from e2e.deployed import CLUSTER, PATIENCE
from e2e.kubectl import await_value, looking
from e2e.production import BUSY, CALM, WHOLE, Production, counted
from e2e.test_failover import freeze_and_thaw

#: Longer than a rollout takes, in seconds, and days that are left for the tests after it.
ROLLOUT, LATER = 200.0, 120


def test_a_pod_that_is_deleted_by_force(production: Production) -> None:
    """It still gets SIGTERM; its object is gone before its processes are, so nobody can say when they are."""
    before = production.ready()
    holder, pod = production.holder(), production.leader()
    at = production.delete(pod, force=True)
    assert production.measure("force", at, holder).epoch > before


@pytest.mark.machines
def test_a_node_that_crashes(production: Production) -> None:
    before = production.apart()
    holder, pod = production.holder(), production.leader()
    with production.cluster.failing("crash", production.node(pod)) as at:
        assert production.measure("crash", at, holder).epoch > before


@pytest.mark.machines
def test_a_leader_that_is_frozen_past_its_lease_and_thawed_is_refused(production: Production) -> None:
    freeze_and_thaw(production, cut=False)


def test_all_replicas_at_once(production: Production) -> None:
    before = production.ready()
    at = min(production.strike(pod, "container") for pod in production.pods())
    production.wait_for(lambda: production.epoch() > before, "a new leader", PATIENCE)
    production.goes_on(at + 1)


def test_an_image_rolled_out_under_load_and_rolled_back(production: Production) -> None:
    production.cluster.load(images.next_flights())
    production.ready()
    for step, command in enumerate(("set", "undo")):
        epoch = production.epoch()
        production.feed.per_second = min(BUSY, max(CALM, (production.feed.left - LATER) / (2 * ROLLOUT)))
        with looking(production.generation) as led:
            if command == "set":
                production.deploy(image=images.NEXT_FLIGHTS)
            else:
                production.cluster.kubectl("rollout", "undo", f"deployment/{CLUSTER}", "-n", production.namespace)
            newest = production.rolled_out()
            production.goes_on(time.time())
        production.feed.per_second = CALM
        assert led == sorted(led), "an older generation has led again"
        assert 1 <= production.epoch() - epoch <= 2, "at most two takeovers"
        assert newest == 2 + step, "a rollback is a new revision"


def test_a_node_is_drained_and_its_budget_kept(production: Production) -> None:
    """Both replicas are on it: the second one waits until a third is ready elsewhere."""
    before = production.together()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": CLUSTER},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"understudy.dev/cluster": CLUSTER}}},
    }
    production.cluster.apply(production.namespace, budget)
    node = production.leader()["spec"]["nodeName"]
    at = time.time()
    drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
    with production.cluster.cordoned(node):  # which a drain does, and does not take back
        with looking(production.healthy) as healthy:
            production.cluster.kubectl(*drain, f"--pod-selector=understudy.dev/cluster={CLUSTER}", timeout=320)
        assert min(healthy) >= 1, "both were evicted at once"
        assert node not in {pod["spec"]["nodeName"] for pod in production.pods()}
        production.wait_for(lambda: production.epoch() > before, "a new leader", PATIENCE)
        production.goes_on(at)


@pytest.mark.parametrize("harm", ["deleted", "emptied", "corrupted"])
@pytest.mark.parametrize("which", ["replicas", "job", "lock"])
def test_a_document_is_harmed(production: Production, which: str, harm: str) -> None:
    """A living leader leads on and its epoch stays or grows; what was harmed is written again or asked for by name."""
    before = production.ready()
    kind, name = {
        "replicas": ("configmap", f"{CLUSTER}-replicas"),
        "job": ("configmap", f"{CLUSTER}-{CLUSTER}"),
        "lock": ("lease", f"{CLUSTER}-lock"),
    }[which]
    kept = production.get(kind, name)
    at = time.time()
    kubectl, namespace = production.cluster.kubectl, production.namespace
    match harm:
        case "deleted":
            kubectl("delete", kind, name, "-n", namespace)
            production.cluster.apply(
                namespace,
                *[each for each in deployments.ha_objects(production.job) if each["metadata"]["name"] == name],
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
            production.wait_for(lambda: granted(production), "its holder to write it again", 30)
        case "job":
            production.wait_for(
                lambda: bool(told(production, "DocumentNotWritten", name, at)), "its leader to miss it", 90
            )
        case _ if harm == "corrupted":
            production.delete(standby(production))
            production.wait_for(
                lambda: bool(told(production, "ReplicaRefused", name, at)), "a newcomer to ask for it", PATIENCE
            )
        case _:
            old = {pod["metadata"]["uid"] for pod in production.pods()}
            production.delete(standby(production))
            production.wait_for(lambda: written(production) - old != set(), "a newcomer to write into it", PATIENCE)
    production.goes_on(time.time())
    if which != "lock":  # only its owner may say what stood there: put it back, as an operator would
        restored = {key: kept[key] for key in ("apiVersion", "kind", "data") if key in kept}
        restored["metadata"] = {"name": name, "labels": kept["metadata"].get("labels", {})}
        kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(restored))
    await_value(lambda: production.epoch() >= before or None, 30, "the epoch went back")


def granted(production: Production) -> bool:
    """Whether the lock says who holds it, under which epoch."""
    with suppress(KeyError, TypeError, ValueError):
        return production.grant()[1] != ""
    return False


def written(production: Production) -> set[str]:
    """The pods that say in the replicas' document how they stand."""
    return {each["holder"].partition("_")[0] for each in production.standings()}


def standby(production: Production) -> Any:
    lead = production.leader()["metadata"]["uid"]
    return next(pod for pod in production.pods() if pod["metadata"]["uid"] != lead)


def told(production: Production, reason: str, name: str, since: float) -> list[Any]:
    """Events of this reason that name this document."""
    events = production.get("events.events.k8s.io")["items"]
    named = [each for each in events if each["reason"] == reason and name in each["note"]]
    return [each for each in named if datetime.fromisoformat(each["eventTime"]).timestamp() >= since]


def test_the_jobs_document_is_lost_while_nobody_leads(production: Production) -> None:
    """Pods that never led know from another document that there was a job: they stop, until it is put back."""
    before, name = production.ready(), f"{CLUSTER}-{CLUSTER}"
    kept = production.get("configmap", name)
    production.undeploy()
    production.cluster.kubectl("delete", "configmap", name, "-n", production.namespace)
    bare = [each for each in deployments.ha_objects(production.job) if each["metadata"]["name"] == name]
    production.cluster.apply(production.namespace, *bare)
    lost = time.time()
    production.deploy()
    production.wait_for(
        lambda: bool(told(production, "ReplicaRefused", name, lost)), "an Event that names the document", PATIENCE
    )
    assert production.watch.first(lambda each: each.input and each.seen > lost, 5) is None, "somebody began it anew"
    kept["metadata"] = {"name": name, "labels": kept["metadata"]["labels"]}
    production.cluster.apply(production.namespace, kept)
    production.undeploy()
    production.deploy()
    production.goes_on(time.time())
    assert production.epoch() > before


def test_every_document_is_lost(production: Production) -> None:
    """Lock and documents are gone together, as with a cluster that was made anew; the claims in the bucket are not."""
    before = production.ready()
    production.undeploy()
    objects = deployments.ha_objects(production.job)
    for each in objects:
        production.cluster.kubectl("delete", each["kind"], each["metadata"]["name"], "-n", production.namespace)
    production.cluster.apply(production.namespace, *objects)
    emptied = time.time()
    production.deploy()
    production.goes_on(emptied)
    assert production.epoch() > before, "no epoch is given twice"


def test_the_lock_is_deleted_for_thirty_seconds(production: Production) -> None:
    """Again and again: its leader makes it again, as the bundle's Role lets it, and leads on."""
    before, holder, lock = production.ready(), production.holder(), f"{CLUSTER}-lock"
    until = time.time() + 30
    while time.time() < until:
        production.cluster.kubectl("delete", "lease", lock, "-n", production.namespace, "--ignore-not-found")
        time.sleep(1)
    production.goes_on(time.time())
    assert (production.epoch(), production.holder()) == (before, holder)


def test_the_lock_is_gone_for_thirty_seconds_where_nobody_may_create_it(production: Production) -> None:
    """Nobody leads until it is put back, empty; then it is taken, above every epoch there was."""
    before, name = production.ready(), f"{CLUSTER}-lock"
    production.quiet()
    role = deployments.role(production.job)
    kept = [rule for rule in role["rules"] if (rule["resources"], rule["verbs"]) != (["leases"], ["create"])]
    assert len(kept) == len(role["rules"]) - 1
    production.cluster.apply(production.namespace, {**role, "rules": kept})
    production.cluster.kubectl("delete", "lease", name, "-n", production.namespace)
    time.sleep(30)
    bare = [each for each in deployments.ha_objects(production.job) if each["metadata"]["name"] == name]
    production.cluster.apply(production.namespace, *bare)
    back = time.time()
    production.feed.per_second = CALM
    production.goes_on(back)
    assert production.epoch() > before
    production.cluster.apply(production.namespace, role)


@pytest.mark.parametrize("resource", ["leases", "configmaps"])
def test_a_permission_is_taken_away_and_given_back(production: Production, resource: str) -> None:
    """Nobody is demoted for it: a leader that cannot renew pauses, and one that cannot note its commits says so."""
    before = production.ready()
    holder, taken = production.holder(), time.time()
    if resource == "leases":
        production.quiet()
    production.cluster.apply(production.namespace, deployments.role(production.job, without=resource))
    if resource == "leases":
        time.sleep(15)
    else:
        job = f"{CLUSTER}-{CLUSTER}"
        production.wait_for(lambda: bool(told(production, "DocumentNotWritten", job, taken)), "a word of it", 90)
    production.cluster.apply(production.namespace, deployments.role(production.job))
    given = time.time()
    production.feed.per_second = CALM
    production.goes_on(given)
    assert (production.epoch(), production.holder()) == (before, holder)


def test_every_row_is_there_once_and_epochs_only_grew(production: Production) -> None:
    assert counted(production.finish()) == WHOLE
