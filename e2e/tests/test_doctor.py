"""`understudy doctor` in a pod of the job's image, and from outside: a Role that lacks one verb is named by both, as whom they asked."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from e2e.harness import deployment_specs
from e2e.harness.deployment_specs import Job
from e2e.harness.kubectl import Cluster, await_value

Report = dict[str, Any]


@pytest.fixture(scope="module")
def job(cluster: Cluster, namespace: str, flights_image: str) -> Job:
    """Its objects, and no replica."""
    script = ("/app/flights.py", "--input", "/tmp/input", "--output", "/tmp/output")
    made = Job("examined", namespace, flights_image, script, replicas=1)
    cluster.apply(namespace, *deployment_specs.access(made), *deployment_specs.ha_objects(made))
    return made


def in_a_pod(cluster: Cluster, job: Job, name: str) -> tuple[int, Report]:
    """Exit code and report of a pod that is like the job's own; it stays, so that its service account is known."""
    template = deployment_specs.deployment(job)["spec"]["template"]
    spec = {**template["spec"], "restartPolicy": "Never"}
    (container,) = spec["containers"]
    del container["readinessProbe"], container["livenessProbe"]
    container["args"] = ["doctor", "--cluster-id", job.cluster, "--json"]
    metadata = {"name": name, "labels": template["metadata"]["labels"]}
    cluster.apply(job.namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def ended() -> int | None:
        statuses = cluster.get(job.namespace, "pod", name)["status"].get("containerStatuses", [])
        ends = [each["state"]["terminated"]["exitCode"] for each in statuses if "terminated" in each["state"]]
        return ends[0] + 1 if ends else None  # 0 is an end, too

    code = await_value(ended, 120, f"pod {name} did not end") - 1
    said = cluster.kubectl("logs", name, "-n", job.namespace)
    return code, json.loads(said[said.index("{") :])


def from_outside(cluster: Cluster, job: Job) -> tuple[int, Report]:
    command = [sys.executable, "-m", "understudy.cli.main", "doctor", "--cluster-id", job.cluster, "--json"]
    command += ["--namespace", job.namespace, "--context", cluster.context]
    done = subprocess.run(command, env=cluster.environment(), capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def of(report: Report, check: str) -> list[Report]:
    return [each for each in report["findings"] if each["check"] == check]


def grave(report: Report) -> list[Report]:
    return [each for each in report["findings"] if each["severity"] in {"problem", "warning"}]


def test_a_complete_role_and_a_whole_image_have_no_finding(cluster: Cluster, job: Job) -> None:
    code, report = in_a_pod(cluster, job, "sound")

    assert (code, grave(report)) == (0, [])
    account = f"service account {job.namespace}/{job.cluster}"
    assert [each["text"] for each in of(report, "rights")] == [
        f"{account} has each of the 18 rights that a replica needs"
    ]
    for check in ("java", "pyspark", "fence-jar", "api-server"):
        assert [each["severity"] for each in of(report, check)] == ["ok"], check

    code, report = from_outside(cluster, job)
    assert (code, grave(report)) == (0, [])
    assert [each["text"] for each in of(report, "rights")] == [
        f"{account} has each of the 18 rights that a replica needs"
    ]


def test_a_role_that_lacks_one_verb(cluster: Cluster, job: Job) -> None:
    role = deployment_specs.role(job)
    for rule in role["rules"]:
        if rule["resources"] == ["configmaps"]:
            rule["verbs"] = [each for each in rule["verbs"] if each != "patch"]
    cluster.apply(job.namespace, role)

    for code, report in (in_a_pod(cluster, job, "lacking"), from_outside(cluster, job)):
        assert code == 7
        texts = [each["text"] for each in grave(report)]
        account = f"service account {job.namespace}/{job.cluster}"
        assert len(texts) == 2, texts
        for name, text in zip(("examined-examined", "examined-replicas"), sorted(texts), strict=True):
            assert text.startswith(f"{account} may not patch configmaps {job.namespace}/{name}")
