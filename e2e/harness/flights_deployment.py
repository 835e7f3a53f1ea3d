"""The flights job as a user would deploy it, in a namespace of its own, with checkpoints and sinks on ``s3a://``.

What was committed is seen in the bucket, by looking there all the time.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from e2e.harness import deployment_specs
from e2e.harness.broker import Topic
from e2e.harness.bucket_sync import BucketSync
from e2e.harness.deployment_under_test import CLUSTER, PATIENCE, Failed
from e2e.harness.faults import FaultInjector
from e2e.harness.kubectl import Cluster, Proxy
from e2e.harness.objects import ObjectStore
from testkit import observer, procs
from testkit.comparison import Comparison, verify_apart
from testkit.feeds import DAYS, FLIGHTS, Feed, load

QUERIES = ("delays", "flights")

#: The Deployment's number for a ReplicaSet.
_REVISION = "deployment.kubernetes.io/revision"

#: Days per second while nothing happens, and around a kill, when rows must be waiting for the next leader.
CALM, BUSY = 0.1, 1.0

#: Executors that fit on a small machine, several at a time. They are pulled from nowhere: the image is on every node.
_SMALL_EXECUTORS = (
    *("--executor-memory", "512m", "--executor-cores", "1"),
    *("--conf", "spark.kubernetes.executor.request.cores=100m"),
    *("--conf", "spark.kubernetes.container.image.pullPolicy=Never"),
    *("--conf", "spark.executor.memoryOverhead=300m"),
)


#: Flights lost, repeated and there, by sink, when the whole year is.
WHOLE = dict.fromkeys(QUERIES, (0, 0, FLIGHTS))


@dataclass(frozen=True, slots=True)
class Takeover:
    """``seconds``: from just before the kill to the first new ``commits/N`` with input rows under another holder.

    The bucket is looked into all the time; a look takes ``look_s`` seconds, by which ``seconds`` may be too long.
    """

    kind: str
    seconds: float
    epoch: int
    look_s: float


@dataclass(slots=True)
class FlightsDeployment(FaultInjector):
    cluster: Cluster
    store: ObjectStore
    image: str
    logs: Path
    namespace: str
    replicas: int = 2
    options: tuple[str, ...] = ()
    #: Rehearsals write where the job writes, so that its code is warm too; empty: to the pod's own disk.
    scratch: bool = True
    #: How many days there are to feed; the default is the whole year, which is what ``finish`` compares.
    days: int = DAYS
    plain: bool = False
    native: bool = False
    profile: str = "fast"
    #: What the job reads in place of a directory of the bucket.
    topic: Topic | None = None
    feed: Feed = field(init=False)
    watch: observer.CommitWatch = field(init=False)
    bucket_sync: BucketSync = field(init=False)
    proxy: Proxy = field(init=False)
    takeovers: list[Takeover] = field(default_factory=list)
    #: Epoch and holder of the lock, each time that a commit was waited for and came.
    led: list[tuple[int, str]] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        bucket = self._open.enter_context(self.store.open())
        self.proxy = self._open.enter_context(self.cluster.proxy())
        self.bucket_sync = BucketSync(bucket, self.namespace, self.logs / "data", QUERIES, self.topic)
        self.bucket_sync.input.mkdir(parents=True)
        self.feed = Feed(self.bucket_sync.input, load(), limit=self.days)
        self.watch = observer.CommitWatch(self.checkpoints, QUERIES, poll_s=0.01)

    @property
    def checkpoints(self) -> Path:
        return self.bucket_sync.output / "checkpoints"

    def url(self, name: str) -> str:
        return f"s3a://{self.store.bucket}/{self.namespace}/{name}"

    @property
    def job(self) -> deployment_specs.Job:
        source = self.topic.url if self.topic else self.url("input")
        script = ("/app/flights.py", "--input", source, "--output", self.url("output"), "--max-files", "8")
        s3a = {
            "endpoint": self.store.endpoint,
            "endpoint.region": "us-east-1",
            "access.key": self.store.key,
            "secret.key": self.store.secret,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            # as Hadoop advises for jobs that write: no look for parents and markers around every create and delete
            "performance.flags": "create,delete,mkdir",
        }
        submit = ["--master", "local[2]"]
        if self.native:
            submit = ["--master", "k8s://https://kubernetes.default.svc", "--num-executors", "2", *_SMALL_EXECUTORS]
        submit += ["--driver-memory", "700m", "--conf", "spark.ui.enabled=false"]
        for name, value in s3a.items():
            submit += ["--conf", f"spark.hadoop.fs.s3a.{name}={value}"]
        return deployment_specs.Job(
            CLUSTER,
            self.namespace,
            self.image,
            script,
            replicas=self.replicas,
            submit=tuple(submit),
            options=(*(("--scratch", self.url("scratch")) if self.scratch else ()), *self.options),
            profile=self.profile,
            plain=self.plain,
            native=self.native,
            # where the object store is, and who loses it has lost more than a node
            avoid="node1" if self.cluster.local else "",
        )

    # Up and down.

    def start(self, days: int = 8) -> None:
        self.feed.feed_now(days)
        self.bucket_sync.start()
        self.provision()
        self.feed.per_second = CALM
        self.feed.start()
        self.watch.start()

    def provision(self) -> None:
        """Everything that has to exist, and the replicas."""
        self.cluster.apply(self.namespace, *deployment_specs.access(self.job), *deployment_specs.ha_objects(self.job))
        self.deploy()

    def deploy(self, **changes: Any) -> None:
        self.cluster.apply(self.namespace, deployment_specs.deployment(replace(self.job, **changes)))

    def undeploy(self) -> None:
        self.cluster.kubectl("delete", "deployment", CLUSTER, "-n", self.namespace, "--wait=true")
        self.wait_for(lambda: not self.pods(), "pods that are gone", 60)

    def rolled_out(self) -> int:
        """The number of the newest generation, once all pods are of it and one of them leads."""
        command = ("rollout", "status", f"deployment/{CLUSTER}", "-n", self.namespace, "--timeout=400s")
        self.cluster.kubectl(*command, timeout=420)
        newest = max(int(each["metadata"]["annotations"][_REVISION]) for each in self.get("replicasets")["items"])
        self.wait_for(lambda: self.generation() == newest, f"generation {newest}", PATIENCE)
        return newest

    @contextmanager
    def running(self) -> Iterator[Self]:
        try:
            self.start()
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self.feed.stop()
        self.watch.stop()
        self.bucket_sync.stop()
        self._open.close()

    def ready(self) -> int:
        """Wait until the standby has rehearsed; the epoch that leads."""
        self.wait_for(self.rehearsed, "a rehearsed standby", 300)
        self.feed.per_second = CALM
        return self.epoch()

    def apart(self) -> int:
        """As ``ready``, and the standby is on another node: a pod deleted just before counted on its own when it was placed."""

        def beside() -> list[Any]:
            lead = self.leader()
            others = [pod for pod in self.pods() if pod["metadata"]["uid"] != lead["metadata"]["uid"]]
            return [pod for pod in others if pod["spec"].get("nodeName") == lead["spec"]["nodeName"]]

        self.ready()
        # spreading is a wish: right after an outage the leader's node may be the only one that is ready
        with self.cluster.cordoned(self.leader()["spec"]["nodeName"]):
            self._replace(beside, "a standby on another node")
        return self.ready()

    def together(self) -> int:
        """As ``ready``, and the standby is on the leader's node."""

        def elsewhere() -> list[Any]:
            lead = self.leader()["spec"]["nodeName"]
            return [pod for pod in self.pods() if pod["spec"].get("nodeName") != lead]

        self.ready()
        lead = self.leader()["spec"]["nodeName"]
        others = [node["metadata"]["name"] for node in self.get("nodes")["items"] if node["metadata"]["name"] != lead]
        with self.cluster.cordoned(*others):
            self._replace(elsewhere, "a standby on the leader's node")
        return self.ready()

    def _replace(self, misplaced: Callable[[], list[Any]], wanted: str) -> None:
        for standby in misplaced():
            self.delete(standby)
        self.wait_for(lambda: not misplaced(), wanted, PATIENCE)

    def quiet(self) -> None:
        """No more input, and no batch that runs."""
        # With a foreachBatch running, a leader that cannot renew is killed: nothing else can hold the user's code.
        self.feed.per_second = 0
        time.sleep(3)
        self.wait_for(lambda: not self.bucket_sync.in_flight(), "the last batch to end", PATIENCE)

    def goes_on(self, since: float) -> None:
        """A replica commits rows after ``since``."""
        if self.watch.first(lambda commit: commit.input and commit.seen > since, PATIENCE) is None:
            raise Failed("no replica went on")
        self._note()

    def _note(self) -> int:
        """The epoch of the replica that has just committed; ``finish`` wants all of them."""
        epoch, holder = self.grant()
        if holder:
            self.led.append((epoch, holder))
        return epoch

    # Killing.

    def kill(self, kind: str) -> Takeover:
        """SIGKILL to what ``VICTIMS`` says of the leader; the takeover that follows."""
        pod, holder = self.leader(), self.holder()
        at = self.send_signal(pod, kind)
        return self.measure(kind, at, holder)

    def freeze_in_flight(self, pod: Any) -> list[procs.Process]:
        """SIGSTOP to every process of the leader while a task of it is writing an object. Local cluster only.

        Its next step is to ask the fence. A query that is frozen before its tasks began gives up by itself when it is thawed, and
        one with code of the user's running halts: neither would ever meet the fence.
        """
        processes, jvm = self.processes(pod), self.jvm(pod)
        buffers = Path(f"/proc/{jvm.pid}/root/tmp/hadoop-understudy/s3a")
        self.feed.per_second = BUSY
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if any(buffers.glob("s3ablock-*")):
                for process in (jvm, *processes):
                    self.send(process, signal.SIGSTOP)
                if any(buffers.glob("s3ablock-*")) and procs.user_code_running(jvm) == 0:
                    return processes
                for process in processes:
                    self.send(process, signal.SIGCONT)
                time.sleep(0.1)
            time.sleep(0.001)
        raise Failed("no task was ever seen writing")

    def measure(self, kind: str, at: float, holder: str, *, patience: float = PATIENCE) -> Takeover:
        """Wait until another replica than ``holder`` holds the lock, and then for a commit with rows that came after ``at``."""
        deadline = time.monotonic() + patience
        self.feed.per_second = BUSY
        while (now := self.holder()) in ("", holder):
            if time.monotonic() > deadline:
                raise Failed(f"{kind}: {now or 'no replica'} still holds the lock after {patience:.0f} s")
            time.sleep(1.0)  # when it was taken stands in the lock, when its holder committed in the bucket
        taken = self.acquired()
        # A commit that the old leader made before its end is not the new one's, and a look may bring it late.
        commit = self.watch.first(
            lambda each: each.input and each.seen > max(at, taken) + self.bucket_sync.lag_s, patience
        )
        if commit is None:
            raise Failed(f"{kind}: no replica committed within {patience:.0f} s")
        takeover = Takeover(kind, commit.seen - at, self._note(), self.bucket_sync.look_s)
        self.takeovers.append(takeover)
        self.feed.per_second = CALM
        return takeover

    # The end.

    def finish(self, within: float = 240) -> Sequence[Comparison]:
        """Feed the rest of the year and the closing file; every sink against one batch query over the same files.

        Rows, takeovers and epochs are kept next to the logs, for the reader of a failure. Raises ``Failed`` if an epoch was
        seen that does not fit the others.
        """
        self.feed.per_second = 0
        self.feed.feed_now(DAYS)
        self.feed.close()
        self.wait_for(self._closed, "the last windows", within)
        sinks = self.logs / "sinks"
        self.bucket_sync.fetch_sinks(sinks)
        compared = verify_apart(self.bucket_sync.input, sinks, self.logs / "verify.log")
        for name, found in (("rows", compared), ("takeovers", self.takeovers), ("epochs", self.led)):
            (self.logs / f"{name}.json").write_text(
                json.dumps([repr(each) for each in found], indent=1), encoding="utf-8"
            )
        if not in_order(self.led, self.takeovers):
            raise Failed(f"epochs are not in order; see {self.logs}/epochs.json and takeovers.json")
        return compared

    def _closed(self) -> bool:
        target = self.feed.closing_watermark_ms()
        for query in QUERIES:
            checkpoint = self.checkpoints / query
            last = observer.last_entry(checkpoint / "commits")
            mark = observer.batch_watermark_ms(checkpoint, last) if last >= 0 else None
            if mark is None or mark < target or observer.in_flight(checkpoint) is not None:
                return False
            for log in ("sources", "offsets"):
                self.bucket_sync.fetch(f"output/checkpoints/{query}/{log}/")
            if not self._has_read_all(checkpoint):
                return False
        return True

    def _has_read_all(self, checkpoint: Path) -> bool:
        if self.topic:
            return observer.messages_read(checkpoint) >= self.feed.rows + 1  # which ends the windows
        return observer.files_read(checkpoint) >= self.feed.files


def in_order(led: Sequence[tuple[int, str]], takeovers: Sequence[Takeover]) -> bool:
    """Whether no epoch was lower than one before it, none had two holders, and each takeover had one of its own."""
    epochs, taken = [epoch for epoch, _ in led], [each.epoch for each in takeovers]
    return epochs == sorted(epochs) and len(set(led)) == len(set(epochs)) and taken == sorted(set(taken))


def counted(compared: Sequence[Comparison]) -> dict[str, tuple[int, int, int]]:
    """To be asserted equal to ``WHOLE``."""
    return {each.sink: (each.lost, each.repeated, each.flights) for each in compared}
