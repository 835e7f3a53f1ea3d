"""The README's five commands: a cluster, images, ``make up``, ``understudy status --watch``, and a leader killed by hand.

The first two are this run's own; the third deploys stacks/Pulumi.dev.yaml, by Pulumi's engine where there is one.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from e2e import evidence, images
from e2e.bundle import Stack, stack
from e2e.cluster.layout import REPOSITORY
from e2e.kubectl import Cluster, await_value
from e2e.objects import Bucket
from e2e.volumes import volumes

CLUSTER = "heartbeat"
KEYS = {"bucketAccessKey": "understudy", "bucketSecretKey": secrets.token_hex(16)}


@dataclass(frozen=True, slots=True)
class FirstLook:
    cluster: Cluster
    namespace: str
    stack: Stack
    given: dict[str, Any]

    def leader(self) -> str:
        """Its pod's name."""
        holder = self.cluster.get(self.namespace, "lease", f"{CLUSTER}-lock")["spec"].get("holderIdentity") or ""
        pods = self.cluster.get(self.namespace, "pods", "-l", f"understudy.dev/cluster={CLUSTER}")["items"]
        return next((pod["metadata"]["name"] for pod in pods if pod["metadata"]["uid"] == holder.split("_")[0]), "")

    def status(self, wanted: str, seconds: float) -> str:
        """What ``understudy status --watch`` shows once it shows ``wanted``, a regular expression."""
        command = [sys.executable, "-m", "understudy.cli.main", "status", "--cluster-id", CLUSTER, "--watch"]
        command += ["--namespace", self.namespace, "--context", self.cluster.context]
        shown = ""
        end = time.monotonic() + seconds
        with subprocess.Popen(
            command, env=self.cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as watching:
            try:
                assert watching.stdout is not None
                for line in watching.stdout:  # a page every two seconds, an empty line between two
                    shown = shown + line if line.strip() else ""
                    if re.search(wanted, shown):
                        return shown
                    if time.monotonic() > end:
                        break
            finally:
                watching.kill()
        raise AssertionError(f"{wanted} was not shown within {seconds:.0f} s: {shown}")


@pytest.fixture(scope="module")
def look(cluster: Cluster) -> Iterator[FirstLook]:
    cluster.load(images.saved("understudy:dev"))
    cluster.load(images.companions())
    namespace = f"e2e-look-{secrets.token_hex(2)}"
    directory = evidence.DIRECTORY / namespace
    config = yaml.safe_load((REPOSITORY / "stacks" / "Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"]
    here = {"namespace": namespace, "imagePullPolicy": "Never", "bucketImage": images.COMPANIONS}
    with volumes(cluster, namespace, 1) as storage_class, stack(cluster, directory / "stack") as made:
        here["storageClass"] = storage_class
        given = {**{key.removeprefix("understudy:"): value for key, value in config.items()}, **KEYS, **here}
        try:
            yield FirstLook(cluster, namespace, made, given)
        finally:
            evidence.collect(cluster, f"first-look-{namespace}", [namespace])
            cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=true", timeout=120)


def test_up_brings_everything_from_the_namespace_to_a_leader(look: FirstLook) -> None:
    began = time.monotonic()
    look.stack.up(look.given)
    deployed = time.monotonic() - began
    look.status(r"commit +\d", 180)
    print(
        f"deployed after {deployed:.1f} s, a leader's first commits were known after {time.monotonic() - began:.1f} s"
    )

    began = time.monotonic()
    assert look.stack.up(look.given) == 0
    print(f"a second up took {time.monotonic() - began:.1f} s")


def test_status_shows_a_standby_that_has_rehearsed(look: FirstLook) -> None:
    shown = look.status(r"rounds, \d+ s ago", 180)
    assert "leads" in shown


def test_a_leader_killed_by_hand_has_a_successor(look: FirstLook) -> None:
    pod = look.leader()
    epoch = re.search(r"epoch +(\d+)", look.status(r"epoch +\d+", 30))
    assert epoch is not None

    killing = [look.cluster.program, "--context", look.cluster.context, "exec", "-n", look.namespace, pod]
    subprocess.run([*killing, "--", "sh", "-c", "kill -9 -1"], env=look.cluster.environment(), check=False)

    await_value(lambda: look.leader() not in {"", pod} or None, 60, "nobody took over")
    look.status(rf"epoch +{int(epoch.group(1)) + 1}\b", 60)


def test_every_beat_is_written_once(look: FirstLook) -> None:
    (pod,) = look.cluster.get(look.namespace, "pods", "-l", "app.kubernetes.io/component=object-store")["items"]
    keys = KEYS["bucketAccessKey"], KEYS["bucketSecretKey"]
    if look.cluster.local:
        bucket = Bucket(7070, "understudy", *keys, pod["status"]["podIP"])
        beats = sorted(read(bucket))
    else:
        with look.cluster.forward(look.namespace, f"{CLUSTER}-objects", 7070) as port:
            beats = sorted(read(Bucket(port, "understudy", *keys)))
    assert len(beats) > 50
    assert beats == list(range(len(beats)))


def read(bucket: Bucket) -> list[int]:
    """The beats in every file that the sink's own log names."""
    names = bucket.names("heartbeat/beats/_spark_metadata/")
    batches = [name for name in names if name.rpartition("/")[2].removesuffix(".compact").isdigit()]
    lines = [line for name in batches for line in bucket.get(name).decode().splitlines() if line.startswith("{")]
    files = {Path(json.loads(line)["path"]).name for line in lines}
    tables = [pq.read_table(io.BytesIO(bucket.get(f"heartbeat/beats/{name}"))) for name in files]
    return [beat for table in tables for beat in table.column("beat").to_pylist()]


def test_down_keeps_what_holds_data(look: FirstLook) -> None:
    look.stack.destroy()
    pods = ["pods", "-l", f"understudy.dev/cluster={CLUSTER}"]
    await_value(lambda: not look.cluster.get(look.namespace, *pods)["items"] or None, 90, "pods live on")
    for kind, name in (
        ("configmap", f"{CLUSTER}-{CLUSTER}"),
        ("configmap", f"{CLUSTER}-replicas"),
        ("lease", f"{CLUSTER}-lock"),
    ):
        assert look.cluster.get(look.namespace, kind, name)["metadata"]["labels"]["understudy.dev/cluster"] == CLUSTER
