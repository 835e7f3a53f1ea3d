"""The job of stacks/Pulumi.dev.yaml, deployed: it brings its own input, and numbers what it writes."""

from __future__ import annotations

import base64
import io
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from e2e.cluster.layout import REPOSITORY
from e2e.harness import evidence, images
from e2e.harness.bundle import EngineStack, Stack, stack
from e2e.harness.kubectl import Cluster
from e2e.harness.objects import Bucket
from e2e.harness.volumes import volumes

CLUSTER = "heartbeat"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    cluster: Cluster
    namespace: str
    stack: Stack
    given: dict[str, Any]

    def leader(self) -> str:
        """Its pod's name."""
        holder = self.cluster.get(self.namespace, "lease", f"{CLUSTER}-lock")["spec"].get("holderIdentity") or ""
        pods = self.cluster.get(self.namespace, "pods", "-l", f"understudy.dev/cluster={CLUSTER}")["items"]
        return next((pod["metadata"]["name"] for pod in pods if pod["metadata"]["uid"] == holder.split("_")[0]), "")

    def kill(self, pod: str) -> None:
        """Every process of its container, as an operator would by hand."""
        command = [self.cluster.program, "--context", self.cluster.context, "exec", "-n", self.namespace, pod]
        subprocess.run([*command, "--", "sh", "-c", "kill -9 -1"], env=self.cluster.environment(), check=False)

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

    def beats(self) -> list[int]:
        """What is in every file that the sink's own log names, sorted."""
        made = self.cluster.get(self.namespace, "secrets")["items"]
        (stored,) = (each["data"] for each in made if each["metadata"]["name"].startswith(f"{CLUSTER}-bucket"))
        key, secret = (
            base64.b64decode(stored[f"AWS_{name}"]).decode() for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        )
        with self.cluster.forward(self.namespace, f"{CLUSTER}-objects", 7070) as port:
            return _read(Bucket(port, "understudy", key, secret))


@contextmanager
def heartbeat(
    cluster: Cluster, *, own_volume: bool = False, by: Callable[[Cluster, Path], Stack] = EngineStack, **over: Any
) -> Iterator[Heartbeat]:
    """The dev stack with these keys over its own, in a namespace that it makes; nothing is up yet.

    ``own_volume``: it needs one. ``by``: see ``stack``.
    """
    cluster.load(images.saved(images.UNDERSTUDY))
    cluster.load(images.companions())
    namespace = f"e2e-heartbeat-{secrets.token_hex(2)}"
    directory = evidence.DIRECTORY / namespace
    config = yaml.safe_load((REPOSITORY / "stacks" / "Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"]
    here = {"namespace": namespace, "imagePullPolicy": "Never", "bucketImage": images.COMPANIONS}
    keys = {"bucketAccessKey": "understudy", "bucketSecretKey": secrets.token_hex(16)}
    with (
        volumes(cluster, namespace, 1, int(own_volume)) as storage_class,
        stack(cluster, directory / "stack", by) as made,
    ):
        given = {key.removeprefix("understudy:"): value for key, value in config.items()}
        try:
            yield Heartbeat(cluster, namespace, made, {**given, **here, **keys, "storageClass": storage_class, **over})
        finally:
            evidence.collect(cluster, namespace, [namespace], others=False)
            cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=true", timeout=120)


def _read(bucket: Bucket) -> list[int]:
    names = bucket.names("heartbeat/beats/_spark_metadata/")
    batches = [name for name in names if name.rpartition("/")[2].removesuffix(".compact").isdigit()]
    lines = [line for name in batches for line in bucket.get(name).decode().splitlines() if line.startswith("{")]
    files = {Path(json.loads(line)["path"]).name for line in lines}
    tables = [pq.read_table(io.BytesIO(bucket.get(f"heartbeat/beats/{name}"))) for name in files]
    return sorted(beat for table in tables for beat in table.column("beat").to_pylist())
