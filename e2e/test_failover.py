"""Pods that really get killed: each way of dying, then every row compared with one batch query over the same files."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import Any

import pytest

from bench import procs
from bench.failover_k8s import said
from e2e import deployments, metrics
from e2e.deployed import CLUSTER, PATIENCE, Failed
from e2e.helm import Helm
from e2e.kubectl import await_value
from e2e.production import CALM, WHOLE, Production, counted

#: An API server that is away for this long (s) is to cost a pause, and nothing else.
OUTAGE = 60.0


def announced(production: Production, pod: Any, reason: str) -> list[float]:
    """When the pod announced it, in s since 1970."""
    uid = pod["metadata"]["uid"]
    events = production.get("events.events.k8s.io")["items"]
    found = [each for each in events if each["reason"] == reason and each["regarding"]["uid"] == uid]
    return [datetime.fromisoformat(each["eventTime"]).timestamp() for each in found]


@pytest.mark.parametrize("victim", ["jvm", "driver"])
def test_one_process_of_the_driver_is_killed(production: Production, victim: str) -> None:
    """Its supervisor lives, and gives the lock to the standby: nobody waits for the lease."""
    before = production.ready()
    pod, at = production.leader(), time.time()
    assert production.kill(victim).epoch == before + 1
    assert [each for each in announced(production, pod, "LeadershipReleased") if each >= at]


def test_the_whole_container_is_killed(production: Production) -> None:
    """Its first process gets SIGKILL: the kernel kills the rest, the kubelet reports it, and nobody waits for the lease."""
    before, at = production.ready(), time.time()
    assert production.kill("container").epoch == before + 1
    assert [each for each in said(production, at) if each.event == "detected" and each.facts.get("how") == "evidence"]


def test_sigterm_to_the_pod(production: Production) -> None:
    """It hears of its deletion before its SIGTERM, and gives the lock to the standby: it does not take it back while it ends."""
    before = production.ready()
    holder, pod = production.holder(), production.leader()
    with production.following(pod) as log:
        at = production.delete(pod)
        assert production.measure("sigterm", at, holder).epoch == before + 1
    assert "told to by the deletion of its pod" in log.read_text()
    assert [each for each in announced(production, pod, "LeadershipReleased") if each >= at]
    assert {"rests", "acquired"} <= {each.event for each in said(production, at) if each.log.stem != log.stem}
    assert "-XX:InitialRAMPercentage=100" in production.jvm(production.leader()).command


@pytest.mark.machines
def test_an_api_server_away_for_a_minute_costs_a_pause_and_nothing_else(production: Production) -> None:
    before = production.ready()
    holder, pod = production.holder(), production.leader()
    driver = production.driver(pod)
    production.quiet()
    with production.cluster.failing("freeze-api"):
        time.sleep(OUTAGE / 3)
        production.feed.per_second = CALM
        time.sleep(OUTAGE * 2 / 3)
        with pytest.raises(subprocess.TimeoutExpired):
            production.cluster.kubectl("get", "pods", timeout=2)
    thawed = time.time()
    production.goes_on(thawed)
    assert (production.epoch(), production.holder()) == (before, holder)
    assert procs.lives(driver)


@pytest.mark.machines
def test_a_leader_on_a_node_that_was_cut_off_comes_back_and_changes_nothing(production: Production) -> None:
    """Its processes go on. Object store and API server are out of reach, so nothing can be written; then the cable is back."""
    before = production.apart()
    holder, pod = production.holder(), production.leader()
    driver = production.driver(pod)
    with production.cluster.failing("cut", production.node(pod)) as at:
        assert production.measure("cut", at, holder).epoch > before
    production.wait_for(lambda: not procs.lives(driver), "the stale leader's driver to be gone", 60)


@pytest.mark.machines
def test_a_leader_asleep_on_a_node_that_was_cut_off_comes_back_and_is_refused(production: Production) -> None:
    """As on a machine that was suspended in the middle of a batch: it still believes, and its kill timer has not run."""
    freeze_and_thaw(production, cut=True)


def freeze_and_thaw(production: Production, *, cut: bool) -> None:
    """``cut``: its node is cut off while it is frozen, and healed before it is thawed.

    What a thread does that wakes up is not ours to say: a leader that gives up by itself has met no fence, and another is frozen.
    """
    assert any(is_refused_once_thawed(production, cut=cut) for _ in range(4)), "no thawed leader ever tried to write"


def is_refused_once_thawed(production: Production, *, cut: bool) -> bool:
    before = production.apart() if cut else production.ready()
    holder, pod = production.holder(), production.leader()
    known = production.refused(pod)
    frozen, at = production.freeze_in_flight(pod), time.time()
    with production.cluster.failing("cut", production.node(pod)) if cut else nullcontext():
        assert production.measure("asleep" if cut else "frozen", at, holder).epoch > before
    jvm = production.jvm(pod)
    told = production.refusals(jvm)
    # alone at first: its supervisor would kill it before it could try to write, and nothing says who wakes up first
    production.send(jvm, signal.SIGCONT)
    refused = True
    try:
        production.wait_for(lambda: production.refusals(jvm) > told, "the fence to refuse a write", 15)
    except Failed:
        refused = False
    finally:
        for process in frozen:
            production.send(process, signal.SIGCONT)
    production.wait_for(lambda: not procs.lives(jvm), "the stale leader's JVM to be gone", 60)
    if refused:
        production.wait_for(lambda: production.refused(pod) > known, "a write of the stale leader to be refused", 30)
        lost = "LeadershipLost"
        production.wait_for(lambda: max(announced(production, pod, lost), default=0.0) >= at, f"its Event {lost}", 30)
    return refused


def test_a_second_deployment_with_the_same_cluster_id_is_refused(production: Production) -> None:
    before = production.ready()
    holder, pods = production.holder(), {pod["metadata"]["uid"] for pod in production.pods()}
    second = deployments.deployment(production.job)
    second["metadata"]["name"] = "second"
    for labels in (second["spec"]["selector"]["matchLabels"], second["spec"]["template"]["metadata"]["labels"]):
        labels["app.kubernetes.io/instance"] = "second"
    production.cluster.apply(production.namespace, second)
    try:
        said = await_value(lambda: refusal(production), 120, "nobody was refused")
        assert "runs this cluster id, and its leader lives" in said
        assert f"{CLUSTER}/" in said
    finally:
        production.cluster.kubectl("delete", "deployment", "second", "-n", production.namespace)
    assert (production.epoch(), production.holder()) == (before, holder)
    assert {pod["metadata"]["uid"] for pod in production.pods()} == pods


def refusal(production: Production) -> str | None:
    for pod in production.get("pods", "-l", "app.kubernetes.io/instance=second")["items"]:
        for status in pod["status"].get("containerStatuses", []):
            end = status["state"].get("terminated") or status["lastState"].get("terminated")
            if end and end["exitCode"] == 5:
                events = production.get("events", "--field-selector", f"involvedObject.uid={pod['metadata']['uid']}")
                told = [each["message"] for each in events["items"] if each["reason"] == "ReplicaRefused"]
                return told[0] if told else None
    return None


def test_a_deployment_deleted_and_recreated_resumes(production: Production) -> None:
    """HA objects have no owner: they stay as they are, and whoever comes next goes on from the next epoch."""
    before, lasting = production.epoch(), lasts(production)
    production.undeploy()
    kept = documents(production)
    assert production.holder() == "", "released on the way out"
    time.sleep(5)  # what goes with its owner goes a little later
    assert documents(production) == kept
    assert lasts(production) == lasting
    production.deploy()
    production.wait_for(lambda: production.epoch() > before, "a new leader", PATIENCE)
    again = time.time()
    production.goes_on(again)
    assert lasts(production) == lasting


def documents(production: Production) -> list[Any]:
    """All that stands in them."""
    maps = [production.get("configmap", name)["data"] for name in production.job.documents]
    return [*maps, production.lease()["spec"], production.grant()]


def lasts(production: Production) -> dict[str, Any]:
    """What is the same whoever leads: which job it is, where it writes, and what the cluster id is bound to."""
    bound = production.get("configmap", f"{CLUSTER}-replicas")["data"]["cluster"]
    record = production.record()
    return {"bound": bound, **{key: record[key] for key in ("job", "script", "status", "roots")}}


def test_what_an_operator_sees(production: Production) -> None:
    production.wait_for(production.rehearsed, "a rehearsed standby", 300)
    events = production.get("events")["items"]
    reasons = {event["reason"] for event in events if event.get("reportingComponent") == "understudy.dev/supervisor"}
    assert {"LeadershipGranted", "LeadershipReleased", "TookOver"} <= reasons
    status = production.status()
    assert status["epoch"] == production.epoch()
    assert status["commit_age_s"] < 120, "the leader says from time to time when it last committed"
    assert len(status["replicas"]) == production.replicas
    assert sum(each["rehearsed"] for each in status["replicas"]) == production.replicas - 1
    metrics = production.metrics(production.leader())
    assert "understudy_leader 1.0" in metrics
    assert f"understudy_epoch {float(production.epoch())}" in metrics
    for pod in production.pods():
        assert pod["status"]["containerStatuses"][0]["ready"], pod["metadata"]["name"]
    for document in production.job.documents:
        assert production.get("configmap", document)["metadata"].get("ownerReferences") is None
    assert production.get("lease", f"{CLUSTER}-lock")["metadata"].get("ownerReferences") is None


@pytest.mark.usefixtures("operator_kinds")
def test_every_metric_of_the_board_and_of_the_alerts_is_there(production: Production, helm: Helm) -> None:
    """And would be found: behind the Service that the chart's ServiceMonitor names is every replica, and nothing else."""
    helm.install(production.cluster, production.namespace, "monitoring", "monitoring", {"clusterIds": [CLUSTER]})
    board = json.loads(production.get("configmap", "monitoring-dashboard")["data"]["understudy.json"])
    rules = production.get("prometheusrules.monitoring.coreos.com", "monitoring")
    questions = [*metrics.asked_by_board(board), *metrics.asked_by_rules(rules)]
    assert len(metrics.wanted(questions)) > 10

    def missing() -> list[metrics.Wanted]:
        return metrics.missing(questions, [production.metrics(pod) for pod in production.pods()])

    with suppress(Failed):
        production.wait_for(lambda: not missing(), "every metric", 120)
    assert missing() == []

    def scraped() -> set[str]:
        slices = production.get("endpointslices", "-l", f"kubernetes.io/service-name=monitoring-{CLUSTER}")["items"]
        return {address for each in slices for end in each["endpoints"] or [] for address in end["addresses"]}

    replicas = {pod["status"]["podIP"] for pod in production.pods()}
    with suppress(Failed):
        production.wait_for(lambda: scraped() == replicas, "replicas behind the Service", 30)
    assert scraped() == replicas


def test_every_row_is_there_once_and_epochs_only_grew(production: Production) -> None:
    assert counted(production.finish()) == WHOLE
