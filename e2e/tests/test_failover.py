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

from e2e.harness import deployment_specs
from e2e.harness.deployment_under_test import CLUSTER, PATIENCE, Failed
from e2e.harness.flights_deployment import CALM, WHOLE, FlightsDeployment, counted
from e2e.harness.helm import Helm
from e2e.harness.kubectl import await_value
from e2e.harness.replica_logs import said
from testkit import metrics, procs

#: An API server that is away for this long (s) is to cost a pause, and nothing else.
OUTAGE = 60.0


def announced(flights: FlightsDeployment, pod: Any, reason: str) -> list[float]:
    """When the pod announced it, in s since 1970."""
    uid = pod["metadata"]["uid"]
    events = flights.get("events.events.k8s.io")["items"]
    found = [each for each in events if each["reason"] == reason and each["regarding"]["uid"] == uid]
    return [datetime.fromisoformat(each["eventTime"]).timestamp() for each in found]


def announces(flights: FlightsDeployment, pod: Any, reason: str, since: float) -> None:
    """Wait for it: an Event comes a moment after what it tells of."""
    flights.wait_for(lambda: max(announced(flights, pod, reason), default=0.0) >= since, f"its Event {reason}", 30)


@pytest.mark.parametrize("victim", ["jvm", "driver"])
def test_one_process_of_the_driver_is_killed(flights: FlightsDeployment, victim: str) -> None:
    """Its supervisor lives, and gives the lock to the standby: the lease is not waited for."""
    before = flights.ready()
    pod, at = flights.leader(), time.time()
    assert flights.kill(victim).epoch == before + 1
    announces(flights, pod, "LeadershipReleased", at)


def test_the_whole_container_is_killed(flights: FlightsDeployment) -> None:
    """Its first process gets SIGKILL: the kernel kills the rest, the kubelet reports it, and the lease is not waited for."""
    before, at = flights.ready(), time.time()
    assert flights.kill("container").epoch == before + 1

    def by_evidence() -> bool:
        return any(each.event == "detected" and each.facts.get("how") == "evidence" for each in said(flights, at))

    flights.wait_for(by_evidence, "word of the evidence", 30)


def test_sigterm_to_the_pod(flights: FlightsDeployment) -> None:
    """It hears of its deletion before its SIGTERM, and gives the lock to the standby: it does not take it back while it ends."""
    before = flights.ready()
    holder, pod = flights.holder(), flights.leader()
    with flights.following(pod) as log:
        at = flights.delete(pod)
        assert flights.measure("sigterm", at, holder).epoch == before + 1
        flights.wait_for(lambda: "told to by the deletion of its pod" in log.read_text(), "why it has stopped", 30)
    announces(flights, pod, "LeadershipReleased", at)

    def by_the_other() -> set[str]:
        return {each.event for each in said(flights, at) if each.log.stem != log.stem}

    flights.wait_for(lambda: by_the_other() >= {"rehearsals-paused", "acquired"}, "what the other one says", 30)
    assert any("-XX:InitialRAMPercentage=100" in each for each in flights.jvms(flights.leader()))


@pytest.mark.machines
def test_an_api_server_away_for_a_minute_costs_a_pause_and_nothing_else(flights: FlightsDeployment) -> None:
    before = flights.ready()
    holder, pod = flights.holder(), flights.leader()
    driver = flights.driver(pod)
    flights.quiet()
    with flights.cluster.failing("freeze-api"):
        time.sleep(OUTAGE / 3)
        flights.feed.per_second = CALM
        time.sleep(OUTAGE * 2 / 3)
        with pytest.raises(subprocess.TimeoutExpired):
            flights.cluster.kubectl("get", "pods", timeout=2)
    thawed = time.time()
    flights.goes_on(thawed)
    assert (flights.epoch(), flights.holder()) == (before, holder)
    assert procs.lives(driver)


@pytest.mark.machines
def test_a_leader_on_a_node_that_was_cut_off_comes_back_and_changes_nothing(flights: FlightsDeployment) -> None:
    """Its processes go on. Object store and API server are out of reach, so nothing can be written; then the cable is back."""
    before = flights.apart()
    holder, pod = flights.holder(), flights.leader()
    driver = flights.driver(pod)
    with flights.cluster.failing("cut", flights.node(pod)) as at:
        assert flights.measure("cut", at, holder).epoch > before
    flights.wait_for(lambda: not procs.lives(driver), "the stale leader's driver to be gone", 60)


@pytest.mark.machines
def test_a_leader_asleep_on_a_node_that_was_cut_off_comes_back_and_is_refused(flights: FlightsDeployment) -> None:
    """As on a machine that was suspended in the middle of a batch: it still believes, and its kill timer has not run."""
    freeze_and_thaw(flights, cut=True)


def freeze_and_thaw(flights: FlightsDeployment, *, cut: bool) -> None:
    """``cut``: its node is cut off while it is frozen, and healed before it is thawed.

    What a thread does that wakes up is not ours to say: a leader that gives up by itself has met no fence, and another is frozen.
    """
    assert any(is_refused_once_thawed(flights, cut=cut) for _ in range(4)), "no thawed leader ever tried to write"


def is_refused_once_thawed(flights: FlightsDeployment, *, cut: bool) -> bool:
    before = flights.apart() if cut else flights.ready()
    holder, pod = flights.holder(), flights.leader()
    known = flights.refused(pod)
    frozen, at = flights.freeze_in_flight(pod), time.time()
    with flights.cluster.failing("cut", flights.node(pod)) if cut else nullcontext():
        assert flights.measure("asleep" if cut else "frozen", at, holder).epoch > before
    jvm = flights.jvm(pod)
    told = flights.refusals(jvm)
    # alone at first: its supervisor would kill it before it could try to write, and nothing says who wakes up first
    flights.send(jvm, signal.SIGCONT)
    refused = True
    try:
        flights.wait_for(lambda: flights.refusals(jvm) > told, "the fence to refuse a write", 15)
    except Failed:
        refused = False
    finally:
        for process in frozen:
            flights.send(process, signal.SIGCONT)
    flights.wait_for(lambda: not procs.lives(jvm), "the stale leader's JVM to be gone", 60)
    if refused:
        flights.wait_for(lambda: flights.refused(pod) > known, "a write of the stale leader to be refused", 30)
        announces(flights, pod, "LeadershipLost", at)
    return refused


def test_a_second_deployment_with_the_same_cluster_id_is_refused(flights: FlightsDeployment) -> None:
    before = flights.ready()
    holder, pods = flights.holder(), {pod["metadata"]["uid"] for pod in flights.pods()}
    second = deployment_specs.deployment(flights.job)
    second["metadata"]["name"] = "second"
    for labels in (second["spec"]["selector"]["matchLabels"], second["spec"]["template"]["metadata"]["labels"]):
        labels["app.kubernetes.io/instance"] = "second"
    flights.cluster.apply(flights.namespace, second)
    try:
        said = await_value(lambda: refusal(flights), 120, "no replica was refused")
        assert "runs this cluster id, and its leader lives" in said
        assert f"{CLUSTER}/" in said
    finally:
        flights.cluster.kubectl("delete", "deployment", "second", "-n", flights.namespace)
    assert (flights.epoch(), flights.holder()) == (before, holder)
    assert {pod["metadata"]["uid"] for pod in flights.pods()} == pods


def refusal(flights: FlightsDeployment) -> str | None:
    for pod in flights.get("pods", "-l", "app.kubernetes.io/instance=second")["items"]:
        for status in pod["status"].get("containerStatuses", []):
            end = status["state"].get("terminated") or status["lastState"].get("terminated")
            if end and end["exitCode"] == 5:
                events = flights.get("events", "--field-selector", f"involvedObject.uid={pod['metadata']['uid']}")
                told = [each["message"] for each in events["items"] if each["reason"] == "ReplicaRefused"]
                return told[0] if told else None
    return None


def test_a_deployment_deleted_and_recreated_resumes(flights: FlightsDeployment) -> None:
    """HA objects have no owner: they stay as they are, and the next leader goes on from the next epoch."""
    before, lasting = flights.epoch(), lasts(flights)
    flights.undeploy()
    kept = documents(flights)
    assert flights.holder() == "", "released on the way out"
    time.sleep(5)  # what goes with its owner goes a little later
    assert documents(flights) == kept
    assert lasts(flights) == lasting
    flights.deploy()
    flights.wait_for(lambda: flights.epoch() > before, "a new leader", PATIENCE)
    again = time.time()
    flights.goes_on(again)
    assert lasts(flights) == lasting


def test_the_lead_is_handed_to_the_replica_that_is_named(flights: FlightsDeployment) -> None:
    before, pod = flights.ready(), flights.leader()
    other = next(each for each in flights.pods() if each["metadata"]["uid"] != pod["metadata"]["uid"])
    at = time.time()
    said = flights.understudy("hand-over", "--to", other["metadata"]["name"])
    assert other["metadata"]["uid"] in said
    assert (flights.epoch(), flights.leader()["metadata"]["uid"]) == (before + 1, other["metadata"]["uid"])
    flights.goes_on(at)
    assert pod["metadata"]["uid"] in {each["metadata"]["uid"] for each in flights.pods()}, "it goes on as a standby"


def test_a_suspended_job_stays_so_through_a_deleted_deployment_until_it_is_resumed(flights: FlightsDeployment) -> None:
    before = flights.ready()
    assert flights.jvms(flights.leader())
    assert "the job is SUSPENDED" in flights.understudy("suspend")
    flights.wait_for(lambda: flights.healthy() == flights.replicas, "idle replicas that are ready", 60)
    assert not any(flights.jvms(pod) for pod in flights.pods())
    flights.undeploy()
    flights.deploy()
    flights.wait_for(lambda: flights.healthy() == flights.replicas, "idle replicas that are ready", PATIENCE)
    time.sleep(10)
    assert (flights.status()["status"], flights.epoch()) == ("SUSPENDED", before)
    at = time.time()
    assert "it was SUSPENDED" in flights.understudy("resume")
    flights.goes_on(at)
    assert flights.epoch() > before


def documents(flights: FlightsDeployment) -> list[Any]:
    """All that stands in them."""
    maps = [flights.get("configmap", name)["data"] for name in flights.job.documents]
    return [*maps, flights.lease()["spec"], flights.grant()]


def lasts(flights: FlightsDeployment) -> dict[str, Any]:
    """What is the same under every leader: which job it is, where it writes, and what the cluster id is bound to."""
    bound = flights.get("configmap", f"{CLUSTER}-replicas")["data"]["cluster"]
    record = flights.record()
    return {"bound": bound, **{key: record[key] for key in ("job", "script", "status", "roots")}}


def test_what_an_operator_sees(flights: FlightsDeployment) -> None:
    flights.wait_for(flights.rehearsed, "a rehearsed standby", 300)
    events = flights.get("events")["items"]
    reasons = {event["reason"] for event in events if event.get("reportingComponent") == "understudy.dev/supervisor"}
    assert {"LeadershipGranted", "LeadershipReleased", "TookOver"} <= reasons
    status = flights.status()
    assert status["epoch"] == flights.epoch()
    assert status["commit_age_s"] < 120, "the leader says from time to time when it last committed"
    assert len(status["replicas"]) == flights.replicas
    assert sum(each["rehearsed"] for each in status["replicas"]) == flights.replicas - 1
    metrics = flights.metrics(flights.leader())
    assert "understudy_leader 1.0" in metrics
    assert f"understudy_epoch {float(flights.epoch())}" in metrics
    # A replica says that it has rehearsed up to a probe's period before its kubelet has asked it.
    flights.wait_for(lambda: flights.healthy() == flights.replicas, "replicas that are all ready", PATIENCE)
    for document in flights.job.documents:
        assert flights.get("configmap", document)["metadata"].get("ownerReferences") is None
    assert flights.get("lease", f"{CLUSTER}-lock")["metadata"].get("ownerReferences") is None


@pytest.mark.usefixtures("operator_kinds")
def test_every_metric_of_the_board_and_of_the_alerts_is_there(flights: FlightsDeployment, helm: Helm) -> None:
    """And would be found: behind the Service that the chart's ServiceMonitor names is every replica, and nothing else."""
    helm.install(flights.cluster, flights.namespace, "monitoring", "monitoring", {"clusterIds": [CLUSTER]})
    board = json.loads(flights.get("configmap", "monitoring-dashboard")["data"]["understudy.json"])
    rules = flights.get("prometheusrules.monitoring.coreos.com", "monitoring")
    questions = [*metrics.asked_by_board(board), *metrics.asked_by_rules(rules)]
    assert len(metrics.wanted(questions)) > 10

    def missing() -> list[metrics.Wanted]:
        return metrics.missing(questions, [flights.metrics(pod) for pod in flights.pods()])

    with suppress(Failed):
        flights.wait_for(lambda: not missing(), "every metric", 120)
    assert missing() == []

    def scraped() -> set[str]:
        slices = flights.get("endpointslices", "-l", f"kubernetes.io/service-name=monitoring-{CLUSTER}")["items"]
        return {address for each in slices for end in each["endpoints"] or [] for address in end["addresses"]}

    replicas = {pod["status"]["podIP"] for pod in flights.pods()}
    with suppress(Failed):
        flights.wait_for(lambda: scraped() == replicas, "replicas behind the Service", 30)
    assert scraped() == replicas


def test_every_row_is_there_once_and_epochs_only_grew(flights: FlightsDeployment) -> None:
    assert counted(flights.finish()) == WHOLE
