"""A job that has FAILED, its fix deployed, and `understudy resume`: it goes on where it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from e2e.harness.bundle import SdkStack
from e2e.harness.heartbeat import CLUSTER, Heartbeat, heartbeat
from e2e.harness.kubectl import Cluster, await_value

NOBODYS = ["--output", "s3a://nobodys-bucket/heartbeat"]
PODS = ("pods", "-l", f"understudy.dev/cluster={CLUSTER}")


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> Iterator[Heartbeat]:
    """Not by Pulumi's engine: that would wait for pods that are never ready."""
    with heartbeat(cluster, by=SdkStack, restartAttempts=1) as made:
        yield made


def test_a_job_that_cannot_work_fails_and_stays_failed(job: Heartbeat) -> None:
    job.stack.up({**job.given, "arguments": NOBODYS})
    job.status("FAILED", 240)

    def all_came_again() -> bool | None:
        pods = job.cluster.get(job.namespace, *PODS)["items"]
        counts = [each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])]
        return (len(counts) == 2 and min(counts) > 1) or None

    await_value(all_came_again, 120, "pods of a failed job do not end")
    job.status("FAILED", 10)


def test_its_mend_runs_once_it_is_resumed(job: Heartbeat) -> None:
    before = uids(job)
    job.stack.up(job.given)
    await_value(lambda: uids(job) - before or None, 60, "no pod of the fix")
    assert "may run again; it had failed: " in resumed(job)

    job.status(r"commit +\d", 300)
    assert "RUNNING; nothing was changed" in resumed(job)
    await_value(lambda: len(job.beats()) > 50 or None, 120, "few beats", interval=2.0)
    beats = job.beats()
    assert beats == list(range(len(beats)))


def uids(job: Heartbeat) -> set[str]:
    return {pod["metadata"]["uid"] for pod in job.cluster.get(job.namespace, *PODS)["items"]}


def resumed(job: Heartbeat) -> str:
    """What the command says."""
    command = [sys.executable, "-m", "understudy.cli.main", "resume", "--cluster-id", CLUSTER]
    command += ["--namespace", job.namespace, "--context", job.cluster.context]
    done = subprocess.run(command, env=job.cluster.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
