"""A script that ends, as a Job of the bundle: its leader dies, the same run goes on, every replica ends with it. The next Job is the
next run, a second one at once is refused, and one that FAILED fails its Job once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.bundle import Stack
from e2e.harness.deployment_under_test import CLUSTER, PATIENCE
from e2e.harness.faults import FaultInjector
from e2e.harness.kubectl import Cluster, Proxy
from e2e.harness.objects import Bucket, ObjectStore
from infra.manifests.workload import workload
from infra.settings import settings_from

#: One file, and so one row, per batch, each of which takes two seconds and more.
SCRIPT = """
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

source, sink, how = sys.argv[1:]
if how == "fails":
    raise ValueError("no such day")
spark = SparkSession.builder.getOrCreate()


@udf("string")
def slowly(line):
    time.sleep(2)
    return line


lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(source)
query = (
    lines.select(slowly("value").alias("value"))
    .writeStream.queryName("lines")
    .format("text")
    .option("path", sink)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
"""
#: Rows of the first run, and then of the second.
FIRST, SECOND = 40, 20


@dataclass(slots=True)
class Lines(FaultInjector):
    """A job that copies lines, and what it has come to. ``given``: the keys of its stack."""

    cluster: Cluster
    namespace: str
    logs: Path
    proxy: Proxy
    bucket: Bucket
    given: dict[str, Any]
    replicas: int = 2
    lines: list[str] = field(default_factory=list)

    def arrive(self, count: int) -> None:
        """So many more lines, each in a file."""
        for number in range(len(self.lines), len(self.lines) + count):
            self.lines.append(f"line {number:03}")
            self.bucket.put(f"{self.namespace}/input/{number:03}.txt", f"{self.lines[-1]}\n".encode())

    def committed(self) -> int:
        names = self.bucket.names(f"{self.namespace}/checkpoints/lines/commits/")
        return len([name for name in names if name.rpartition("/")[2].isdigit()])

    def rows(self) -> list[str]:
        """What is in every file that the sink's own log names, sorted."""
        names = self.bucket.names(f"{self.namespace}/output/_spark_metadata/")
        batches = [name for name in names if name.rpartition("/")[2].removesuffix(".compact").isdigit()]
        logged = [line for name in batches for line in self.bucket.get(name).decode().splitlines() if line[:1] == "{"]
        files = {Path(json.loads(line)["path"]).name for line in logged}
        read = [self.bucket.get(f"{self.namespace}/output/{name}").decode().splitlines() for name in files]
        return sorted(row for each in read for row in each)

    def run(self) -> str:
        """The run that the job's document is about."""
        entries = self._ask(f"configmaps/{CLUSTER}-{CLUSTER}").get("data") or {}
        return str(json.loads(entries["run"])["body"]["run"]) if "run" in entries else ""

    def uid(self, job: str = CLUSTER) -> str:
        return str(self.get("job", job)["metadata"]["uid"])

    def conditions(self, job: str = CLUSTER) -> set[str]:
        found = self.get("job", job)["status"].get("conditions", [])
        return {each["type"] for each in found if each["status"] == "True"}

    def pods_of(self, uid: str) -> list[Any]:
        return [pod for pod in self.pods() if pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == uid]

    def under_way(self, batches: int) -> Any:
        """The leader's pod, once ``batches`` are committed in all and the standby's container runs."""

        def ready() -> bool:
            pods = self.pods_of(self.run())
            states = [status["state"] for pod in pods for status in pod["status"].get("containerStatuses", [])]
            standing = sum("running" in each for each in states) == self.replicas
            return standing and self.committed() >= batches and self.leader() is not None

        self.wait_for(ready, f"a leader with {batches} batches, and its standby", 300)
        return self.leader()

    def completes(self, job: str = CLUSTER, within: float = 300) -> None:
        self.wait_for(lambda: bool(self.conditions(job) & {"Complete", "Failed"}), f"the end of Job {job}", within)
        assert "Complete" in self.conditions(job)

    def ends(self, pod: Any) -> list[dict[str, Any]]:
        found = [each["state"].get("terminated") for each in pod["status"].get("containerStatuses", [])]
        return [each for each in found if each]


@pytest.fixture(scope="module")
def lines(
    cluster: Cluster,
    namespace: str,
    object_store: ObjectStore,
    flights_image: str,
    results: Path,
) -> Iterator[Lines]:
    script = results / "lines.py"
    script.write_text(SCRIPT, encoding="utf-8")
    place = f"s3a://{object_store.bucket}/{namespace}"
    given = {
        "clusterId": CLUSTER,
        "namespace": namespace,
        "image": flights_image,
        "imagePullPolicy": "Never",
        "scriptFile": str(script),
        "arguments": [f"{place}/input", f"{place}/output", "first"],
        "workload": "Job",
        "profile": "fast",
        "cpu": "100m",
        "memory": "1400Mi",
        "driverMemory": "700m",
        "sparkSettings": {"spark.ui.enabled": "false"},
        "bucketKind": "s3",
        "bucket": object_store.bucket,
        "bucketPrefix": namespace,
        "haStorage": True,
        "bucketEndpoint": object_store.endpoint,
        "bucketAccessKey": object_store.key,
        "bucketSecretKey": object_store.secret,
    }
    with object_store.open() as bucket, cluster.proxy() as proxy:
        yield Lines(cluster, namespace, results, proxy, bucket, given)


def told(lines: Lines, how: str, **over: Any) -> dict[str, Any]:
    """The keys of its stack with other words for the script."""
    return {**lines.given, "arguments": [*lines.given["arguments"][:2], how], **over}


def test_a_run_goes_on_when_its_leader_is_killed_and_every_replica_ends_with_it(
    lines: Lines, stack_under_test: Stack
) -> None:
    lines.arrive(FIRST)
    assert stack_under_test.up(lines.given) > 0, "and the end of the run was not waited for"
    uid = lines.uid()
    victim = lines.under_way(3)
    epoch = lines.epoch()
    assert lines.run() == uid
    lines.send_signal(victim, "container")
    lines.wait_for(lambda: lines.epoch() > epoch, "another leader", PATIENCE)
    assert (lines.run(), lines.record()["status"]) == (uid, "RUNNING")

    lines.completes()
    assert lines.rows() == lines.lines
    answer = json.loads(lines.understudy("result", "--run-id", uid, "--wait", "--json"))
    assert (answer["run"], answer["status"]) == (uid, "FINISHED")
    pods = lines.pods_of(uid)
    others = [pod for pod in pods if pod["metadata"]["uid"] != victim["metadata"]["uid"]]
    assert {pod["status"]["phase"] for pod in others} == {"Succeeded"}
    assert {end["exitCode"] for pod in others for end in lines.ends(pod)} == {0}
    assert all(status["restartCount"] == 0 for pod in pods for status in pod["status"].get("containerStatuses", []))


def test_up_again_begins_no_other_run(lines: Lines, stack_under_test: Stack) -> None:
    uid = lines.uid()
    assert stack_under_test.up(lines.given) == 0
    assert stack_under_test.up(lines.given, refresh=True) == 0
    assert (lines.uid(), lines.run(), lines.record()["status"]) == (uid, uid, "FINISHED")


def test_a_changed_job_is_the_next_run_and_survives_the_deletion_of_its_leaders_pod(
    lines: Lines, stack_under_test: Stack
) -> None:
    first, token, committed = lines.uid(), lines.record()["token"], lines.committed()
    lines.arrive(SECOND)
    assert stack_under_test.up(told(lines, "second")) > 0
    second = lines.uid()
    assert second != first
    leader = lines.under_way(committed + 2)
    assert (lines.run(), lines.record()["status"]) == (second, "RUNNING")
    assert lines.record()["token"] > token
    lines.delete(leader)

    lines.completes()
    assert lines.rows() == lines.lines
    assert not lines.get("job", CLUSTER)["status"].get("failed"), "a pod that was told to stop does not count"
    for run in (first, second):
        assert json.loads(lines.understudy("result", "--run-id", run, "--json"))["status"] == "FINISHED"


def test_a_second_job_at_once_is_refused_and_the_first_goes_on(lines: Lines, stack_under_test: Stack) -> None:
    committed = lines.committed()
    lines.arrive(SECOND)
    given = told(lines, "third")
    stack_under_test.up(given)
    lines.under_way(committed + 2)
    job = workload(settings_from(given), str(given["bucketEndpoint"]))
    lines.cluster.apply(lines.namespace, {**job, "metadata": {**job["metadata"], "name": "another"}})

    lines.wait_for(lambda: "Failed" in lines.conditions("another"), "a Job that is refused", PATIENCE)
    said = [
        lines.cluster.kubectl("logs", pod["metadata"]["name"], "-n", lines.namespace)
        for pod in lines.pods_of(lines.uid("another"))
        if 5 in {end["exitCode"] for end in lines.ends(pod)}
    ]
    assert said
    assert all(f"run {lines.uid()} of this job is under way, and its leader lives" in each for each in said)
    assert (lines.run(), lines.record()["status"]) == (lines.uid(), "RUNNING")
    lines.completes()
    assert lines.rows() == lines.lines


def test_each_job_of_a_cron_job_is_a_run(lines: Lines, stack_under_test: Stack) -> None:
    token = lines.record()["token"]
    lines.arrive(1)
    stack_under_test.up(told(lines, "by hand", workload="CronJob", schedule="none"))
    lines.cluster.kubectl("create", "job", "by-hand", f"--from=cronjob/{CLUSTER}", "-n", lines.namespace)

    lines.completes("by-hand")
    assert (lines.run(), lines.record()["status"]) == (lines.uid("by-hand"), "FINISHED")
    assert lines.record()["token"] > token
    assert lines.rows() == lines.lines


def test_a_run_that_failed_fails_its_job_once(lines: Lines, stack_under_test: Stack) -> None:
    stack_under_test.up(told(lines, "fails", restartAttempts=0))
    lines.wait_for(lambda: "Failed" in lines.conditions(), "a Job that has failed", 300)
    assert (lines.run(), lines.record()["status"]) == (lines.uid(), "FAILED")
    codes = [end["exitCode"] for pod in lines.pods_of(lines.uid()) for end in lines.ends(pod)]
    assert 1 in codes
    assert set(codes) <= {1, 143}, "the others were told to stop, or had seen it"
    assert len(lines.pods_of(lines.uid())) <= lines.replicas
