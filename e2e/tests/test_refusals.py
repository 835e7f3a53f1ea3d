"""What is wrong with a deployment is said in one line that names the remedy, and nothing is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from e2e.harness import deployment_specs
from e2e.harness.deployment_specs import Job
from e2e.harness.kubectl import Cluster, Failed, await_value


@pytest.fixture
def job(cluster: Cluster, namespace: str, flights_image: str) -> Iterator[Job]:
    script = ("/app/flights.py", "--input", "/tmp/input", "--output", "/tmp/output")
    made = Job("refused", namespace, flights_image, script, replicas=1)
    cluster.apply(namespace, *deployment_specs.access(made), *deployment_specs.ha_objects(made))
    yield made
    cluster.kubectl("delete", "deployment,configmap,lease,role,rolebinding", "--all", "-n", namespace)
    await_value(lambda: not cluster.get(namespace, "pods")["items"] or None, 60, "pods stay")


def last_words(cluster: Cluster, job: Job) -> tuple[int, str]:
    """Exit code and log of the first container that ended."""

    def ended() -> tuple[int, str] | None:
        for pod in cluster.get(job.namespace, "pods", "-l", f"understudy.dev/cluster={job.cluster}")["items"]:
            for status in pod["status"].get("containerStatuses", []):
                end = status["state"].get("terminated") or status["lastState"].get("terminated")
                # The log of the one before this one, if there is one by now; a log that is being put away reads as empty.
                for which in (["--previous"], []) if end else ():
                    with suppress(Failed):
                        if said := cluster.kubectl("logs", pod["metadata"]["name"], "-n", job.namespace, *which):
                            return end["exitCode"], said
        return None

    return await_value(ended, 60, "no container ended")


def changed(job: Job, **spec: Any) -> dict[str, Any]:
    made = deployment_specs.deployment(job)
    made["spec"]["template"]["spec"].update(spec)
    return made


def untouched(cluster: Cluster, job: Job) -> bool:
    maps = [cluster.get(job.namespace, "configmap", name) for name in job.documents]
    return all("data" not in each for each in maps)


def test_a_pod_without_a_token(cluster: Cluster, job: Job) -> None:
    cluster.apply(job.namespace, changed(job, automountServiceAccountToken=False))
    code, said = last_words(cluster, job)
    assert code == 2
    assert "this pod has no service account token" in said
    assert "automountServiceAccountToken: true" in said
    assert untouched(cluster, job)


def test_an_api_server_that_cannot_be_reached(cluster: Cluster, job: Job) -> None:
    nowhere = replace(job, environment=({"name": "KUBERNETES_SERVICE_HOST", "value": "203.0.113.1"},))
    cluster.apply(job.namespace, deployment_specs.deployment(nowhere))
    code, said = last_words(cluster, job)
    assert code == 8
    assert "the API server does not answer" in said
    assert "NetworkPolicy" in said


def test_a_namespace_that_is_not_the_pods_own(cluster: Cluster, job: Job) -> None:
    cluster.apply(job.namespace, deployment_specs.deployment(replace(job, options=("--namespace", "elsewhere"))))
    code, said = last_words(cluster, job)
    assert code == 7
    assert "HA Role of namespace elsewhere, and check --namespace" in said
    assert untouched(cluster, job)


@pytest.mark.parametrize("verb", ["get", "patch"])
def test_a_role_that_does_not_let_it_read_or_write_documents(cluster: Cluster, job: Job, verb: str) -> None:
    role = deployment_specs.role(job)
    for rule in role["rules"]:
        if rule["resources"] == ["configmaps"]:
            rule["verbs"] = [each for each in rule["verbs"] if each != verb]
    cluster.apply(job.namespace, role, deployment_specs.deployment(job))
    code, said = last_words(cluster, job)
    assert code == 7
    assert f"may not {verb} configmaps {job.namespace}/refused-replicas" in said
    assert (
        f"Add {verb} on configmaps with resourceNames [refused-replicas] to the HA Role of namespace {job.namespace}"
        in said
    )
    assert untouched(cluster, job)


def test_a_role_without_the_lock_is_waited_for_and_said(cluster: Cluster, job: Job) -> None:
    """It may be given back at any time: the replica goes on asking, and leads by nothing else meanwhile."""
    cluster.apply(job.namespace, deployment_specs.role(job, without="leases"), deployment_specs.deployment(job))

    def told() -> bool | None:
        events = cluster.get(job.namespace, "events")["items"]
        said = [event["message"] for event in events if event["reason"] == "LockUnreachable"]
        return any(f"may not get leases {job.namespace}/refused-lock" in each for each in said) or None

    await_value(told, 60, "no replica said that the lock cannot be read")


def test_another_jobs_cluster_id(cluster: Cluster, job: Job) -> None:
    cluster.apply(job.namespace, deployment_specs.deployment(job))
    joined = await_value(
        lambda: cluster.get(job.namespace, "configmap", "refused-replicas").get("data"), 60, "no replica joined"
    )
    cluster.kubectl("delete", "deployment", "refused", "-n", job.namespace)
    await_value(lambda: not cluster.get(job.namespace, "pods")["items"] or None, 60, "pods stay")
    cluster.apply(job.namespace, deployment_specs.deployment(replace(job, options=("--job-id", "another"))))
    code, said = last_words(cluster, job)
    assert code == 5
    assert "this cluster id belongs to job 'refused', not 'another'" in said
    now = cluster.get(job.namespace, "configmap", "refused-replicas")["data"]
    assert now["cluster"] == joined["cluster"]


def test_a_configmap_that_somebody_else_has_filled(cluster: Cluster, job: Job) -> None:
    """An object holds 1 MiB at most. What is not ours stays, and we say that there is no room left."""
    theirs = "x" * 1_000_000
    full = next(each for each in deployment_specs.ha_objects(job) if each["metadata"]["name"] == "refused-replicas")
    cluster.kubectl(
        "replace", "--namespace", job.namespace, "-f", "-", stdin=json.dumps({**full, "data": {"theirs": theirs}})
    )
    cluster.apply(job.namespace, deployment_specs.deployment(job))
    code, said = last_words(cluster, job)
    assert code == 4
    assert "refused-replicas" in said
    assert "do not fit into one document" in said
    assert cluster.get(job.namespace, "configmap", "refused-replicas")["data"] == {"theirs": theirs}
