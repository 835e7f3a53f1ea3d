"""The flights job as a user would deploy it, in a namespace of its own, with checkpoints and sinks on ``s3a://``.

Watching and killing import nothing of understudy: who leads stands in the Lease, what was committed in the bucket, and a
process of a pod is found by the pod's UID in its environment.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import observer
from bench.data import DAYS, Feed, load
from bench.verify import Comparison, verify_apart
from e2e import deployments
from e2e.kubectl import Cluster
from e2e.objects import ObjectStore

CLUSTER = "flights"
QUERIES = ("delays", "flights")

#: A takeover that takes longer than this has failed, in seconds.
PATIENCE = 120.0


class Failed(AssertionError):
    pass


@dataclass(frozen=True, slots=True)
class Takeover:
    """``seconds``: from just before the kill to the first new ``commits/N`` with input rows under another holder."""

    kind: str
    seconds: float
    epoch: int


@dataclass(slots=True)
class Production:
    cluster: Cluster
    store: ObjectStore
    image: str
    logs: Path
    namespace: str
    replicas: int = 3
    store_pid: int = field(init=False)
    feed: Feed = field(init=False)
    watch: observer.CommitWatch = field(init=False)

    def __post_init__(self) -> None:
        self.store_pid = next(
            process.pid for process in observer.processes().values() if process.command.endswith("posix /data")
        )
        self.feed = Feed(self.input, load(), limit=DAYS)
        self.watch = observer.CommitWatch(self.output / "checkpoints", QUERIES, poll_s=0.01)

    @property
    def directory(self) -> Path:
        """This run's objects as files of this machine, seen through the store's own process: nodes share our kernel."""
        return Path(f"/proc/{self.store_pid}/root/data/{self.store.bucket}/{self.namespace}")

    @property
    def input(self) -> Path:
        return self.directory / "input"

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def url(self, name: str) -> str:
        return f"s3a://{self.store.bucket}/{self.namespace}/{name}"

    @property
    def job(self) -> deployments.Job:
        script = ("/app/flights.py", "--input", self.url("input"), "--output", self.url("output"), "--max-files", "8")
        s3a = {
            "endpoint": self.store.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": self.store.key,
            "secret.key": self.store.secret,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        submit = ["--master", "local[2]", "--driver-memory", "700m", "--conf", "spark.ui.enabled=false"]
        for name, value in s3a.items():
            submit += ["--conf", f"spark.hadoop.fs.s3a.{name}={value}"]
        return deployments.Job(
            CLUSTER, self.namespace, self.image, script, replicas=self.replicas, submit=tuple(submit), profile="fast"
        )

    # Up and down.

    def start(self, days: int = 8) -> None:
        self.input.mkdir(parents=True)
        self.feed.feed_now(days)
        self.cluster.apply(self.namespace, *deployments.access(self.job), *deployments.ha_objects(self.job))
        self.deploy()
        self.feed.per_second = 0.5
        self.feed.start()
        self.watch.start()

    def deploy(self) -> None:
        self.cluster.apply(self.namespace, deployments.deployment(self.job))

    def undeploy(self) -> None:
        self.cluster.kubectl("delete", "deployment", CLUSTER, "-n", self.namespace, "--wait=true")
        self.wait_for(lambda: not self.pods(), "pods that are gone", 60)

    def stop(self) -> None:
        self.feed.stop()
        self.watch.stop()

    # Seeing.

    def get(self, *what: str) -> Any:
        return self.cluster.get(self.namespace, *what)

    def pods(self) -> list[Any]:
        return list(self.get("pods", "-l", f"app={CLUSTER}")["items"])

    def lease(self) -> Any:
        return self.get("lease", f"{CLUSTER}-lock")

    def holder(self) -> str:
        """Who leads: pod UID and the UUID of one start of its supervisor."""
        return str(self.lease()["spec"].get("holderIdentity") or "")

    def epoch(self) -> int:
        grant = json.loads(self.lease()["metadata"]["annotations"]["understudy.dev/grant"])
        return int(grant["body"]["token_epoch"])

    def leader(self) -> Any:
        """The leader's pod."""
        uid = self.holder().partition("_")[0]
        return next((pod for pod in self.pods() if pod["metadata"]["uid"] == uid), None)

    def standings(self) -> list[dict[str, Any]]:
        data = self.get("configmap", f"{CLUSTER}-replicas").get("data") or {}
        return [json.loads(text)["body"] for key, text in data.items() if key.startswith("replica.")]

    def rehearsed(self, rounds: int = 4) -> bool:
        """Every living pod that does not lead has rehearsed ``rounds`` times."""
        uids = {pod["metadata"]["uid"] for pod in self.pods()} - {self.holder().partition("_")[0]}
        ready = {
            each["holder"].partition("_")[0]
            for each in self.standings()
            if each["rehearsed"] and each["rounds"] >= rounds
        }
        return len(uids) == self.replicas - 1 and uids <= ready

    def processes(self, pod: Any) -> list[observer.Process]:
        """Every process of the pod that understudy started, found by the pod's UID in its environment."""
        mark = f"UNDERSTUDY_POD_UID={pod['metadata']['uid']}".encode()
        found = []
        for process in observer.processes().values():
            with suppress(OSError):
                if mark in Path("/proc", str(process.pid), "environ").read_bytes().split(b"\0"):
                    found.append(process)
        return found

    # Killing.

    def kill(self, kind: str, wanted: Callable[[observer.Process], bool]) -> Takeover:
        """SIGKILL to the leader's processes that are ``wanted``; the takeover that follows."""
        pod, holder = self.leader(), self.holder()
        victims = [process for process in self.processes(pod) if wanted(process)]
        if not victims:
            raise Failed(f"{kind}: no such process in {pod['metadata']['name']}")
        at = time.time()
        for process in victims:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        return self.measure(kind, at, holder)

    def measure(self, kind: str, at: float, holder: str, *, patience: float = PATIENCE) -> Takeover:
        """Wait until somebody else than ``holder`` holds the lock, and then for a commit with rows that came after ``at``."""
        deadline = time.monotonic() + patience
        while (now := self.holder()) in ("", holder):
            if time.monotonic() > deadline:
                raise Failed(f"{kind}: {now or 'nobody'} still holds the lock after {patience:.0f} s")
            time.sleep(0.1)
        taken = self._acquired()
        # A commit that the old leader made between the signal and its end is not the new one's.
        commit = self.watch.first(lambda each: each.input and each.seen > max(at, taken), patience)
        if commit is None:
            raise Failed(f"{kind}: nobody committed within {patience:.0f} s")
        return Takeover(kind, commit.seen - at, self.epoch())

    def _acquired(self) -> float:
        return datetime.fromisoformat(self.lease()["spec"]["acquireTime"]).timestamp()

    # The end.

    def finish(self, within: float = 240) -> Sequence[Comparison]:
        """Feed the rest of the year and the closing file; every sink against one batch query over the same files."""
        self.feed.per_second = 0
        self.feed.feed_now(DAYS)
        self.feed.close()
        self.wait_for(self._closed, "the last windows", within)
        return verify_apart(self.input, self.output, self.logs / "verify.log")

    def _closed(self) -> bool:
        target = self.feed.closing_watermark_ms()
        for query in QUERIES:
            checkpoint = self.output / "checkpoints" / query
            last = observer.last_entry(checkpoint / "commits")
            mark = observer.batch_watermark_ms(checkpoint, last) if last >= 0 else None
            if mark is None or mark < target or observer.in_flight(checkpoint) is not None:
                return False
            if observer.files_read(checkpoint) < self.feed.files:
                return False
        return True

    def wait_for(self, condition: Callable[[], bool], what: str, within: float) -> None:
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(f"waited {within:.0f} s for {what}; see {self.logs}")
            time.sleep(0.25)
