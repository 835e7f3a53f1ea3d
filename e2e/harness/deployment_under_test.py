"""A job in its namespace, seen from outside: its pods, its documents, its processes. Imports nothing of understudy.

Who leads stands in the Lease; a process of a pod is found by the pod's UID in its environment.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from e2e.harness.kubectl import Cluster, Proxy
from testkit import observer, procs

CLUSTER = "flights"

#: What is waited for longer than this has failed, in seconds.
PATIENCE = 120.0


class Failed(AssertionError):
    pass


class DeploymentUnderTest:
    """Questions about a job, for a class that has these attributes. ``logs``: where to look when something fails."""

    __slots__ = ()

    cluster: Cluster
    namespace: str
    replicas: int
    logs: Path
    proxy: Proxy

    def get(self, *what: str) -> Any:
        return self.cluster.get(self.namespace, *what)

    def _ask(self, path: str, group: str = "api/v1") -> Any:
        return json.loads(self.proxy.get(f"/{group}/namespaces/{self.namespace}/{path}"))

    def following(self, pod: Any) -> AbstractContextManager[Path]:
        """A file to which goes what the pod says from now on."""
        name = pod["metadata"]["name"]
        return self.cluster.following(self.namespace, name, self.logs / f"{name}.log")

    def pods(self) -> list[Any]:
        return list(self._ask(f"pods?labelSelector=app.kubernetes.io%2Finstance%3D{CLUSTER}")["items"])

    def healthy(self) -> int:
        """How many pods are ready and meant to stay: what a disruption budget counts."""

        def ready(pod: Any) -> bool:
            return any(
                each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", [])
            )

        return sum(ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in self.pods())

    def lease(self) -> Any:
        return self._ask(f"leases/{CLUSTER}-lock", "apis/coordination.k8s.io/v1")

    def holder(self) -> str:
        """Who leads: pod UID and the UUID of one start of its supervisor."""
        return str(self.lease()["spec"].get("holderIdentity") or "")

    def epoch(self) -> int:
        return self.grant()[0]

    def grant(self) -> tuple[int, str]:
        """Epoch and holder of one moment; a released lock has no holder."""
        lease = self.lease()
        annotations = lease["metadata"].get("annotations") or {}
        epoch = int(json.loads(annotations["understudy.dev/grant"])["body"]["token_epoch"])
        return epoch, str(lease["spec"].get("holderIdentity") or "")

    def record(self) -> dict[str, Any]:
        """What the job's document says of it: who runs it, under which token, of which generation."""
        text = self._ask(f"configmaps/{CLUSTER}-{CLUSTER}")["data"]["job"]
        found: dict[str, Any] = json.loads(text)["body"]
        return found

    def generation(self) -> int:
        """The number of the newest generation that has led."""
        return int(self.record()["generation"]["number"])

    def leader(self) -> Any:
        """The leader's pod."""
        uid = self.holder().partition("_")[0]
        return next((pod for pod in self.pods() if pod["metadata"]["uid"] == uid), None)

    def standings(self) -> list[dict[str, Any]]:
        data = self._ask(f"configmaps/{CLUSTER}-replicas").get("data") or {}
        return [json.loads(text)["body"] for key, text in data.items() if key.startswith("replica.")]

    def rehearsed(self, rounds: int = 1) -> bool:
        """Every living pod that does not lead has rehearsed ``rounds`` times."""
        uids = {pod["metadata"]["uid"] for pod in self.pods()} - {self.holder().partition("_")[0]}
        ready = {
            each["holder"].partition("_")[0]
            for each in self.standings()
            if each["rehearsed"] and each["rounds"] >= rounds
        }
        return len(uids) == self.replicas - 1 and uids <= ready

    @staticmethod
    def node(pod: Any) -> str:
        """The number of its machine: what commands of the local cluster take."""
        return str(pod["spec"]["nodeName"]).removeprefix("node")

    def processes(self, pod: Any) -> list[procs.Process]:
        """Every process of the pod that understudy started, found by the pod's UID in its environment. Local cluster only."""
        mark = f"UNDERSTUDY_POD_UID={pod['metadata']['uid']}".encode()
        found = []
        for process in procs.processes().values():
            with suppress(OSError):
                if mark in Path("/proc", str(process.pid), "environ").read_bytes().split(b"\0"):
                    found.append(process)
        return found

    def commands(self, pod: Any) -> list[str]:
        """Every command that runs in the pod, asked in it: of a cluster on other machines too. Raises ``Failed`` if none can be seen."""
        script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done; true"
        printed = self.cluster.kubectl("exec", pod["metadata"]["name"], "-n", self.namespace, "--", "sh", "-c", script)
        found = [line for line in printed.splitlines() if line.strip()]
        if not any("understudy" in each for each in found):
            raise Failed(f"no replica's processes in {pod['metadata']['name']}: {found}")
        return found

    def jvms(self, pod: Any) -> list[str]:
        """Commands of the pod's JVMs, asked as ``commands`` does."""
        return [each for each in self.commands(pod) if "SparkSubmit" in each]

    def status(self) -> dict[str, Any]:
        """What ``understudy status`` says, asked from here."""
        found: dict[str, Any] = json.loads(self.understudy("status", "--json"))
        return found

    def understudy(self, *words: str) -> str:
        """What the command prints, asked from here. Raises ``Failed`` with its error."""
        return self.understudy_of(CLUSTER, *words)

    def understudy_of(self, job: str, *words: str) -> str:
        """As ``understudy``, of another job in the same namespace."""
        command = [sys.executable, "-m", "understudy.cli.main", *words, "--cluster-id", job]
        command += ["--namespace", self.namespace, "--context", self.cluster.context]
        done = subprocess.run(command, env=self.cluster.environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr)
        return done.stdout

    def metrics(self, pod: Any) -> str:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
        return self.proxy.get(path)

    @staticmethod
    def refusals(process: procs.Process) -> int:
        """Writes refused to the drivers of its container, by the fence's own log: for when its replica cannot answer."""
        logs = Path(f"/proc/{process.pid}/root/var/lib/understudy/{CLUSTER}/log")
        return sum(line.outcome == "refused" for line in observer.read_fence_logs(logs))

    def refused(self, pod: Any) -> int:
        """Writes of this replica's drivers that the fence refused."""
        found = re.search(r"^understudy_refused_writes_total (\d+)", self.metrics(pod), re.MULTILINE)
        if found is None:
            raise Failed("no count of refused writes")
        return int(found.group(1))

    def driver(self, pod: Any) -> procs.Process:
        return next(each for each in self.processes(pod) if each.command.strip().endswith("-m understudy.driver"))

    def jvm(self, pod: Any) -> procs.Process:
        return next(each for each in self.processes(pod) if "SparkSubmit" in each.command)

    def acquired(self) -> float:
        return datetime.fromisoformat(self.lease()["spec"]["acquireTime"]).timestamp()

    def wait_for(self, condition: Callable[[], bool], what: str, within: float) -> None:
        deadline = time.monotonic() + within
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(f"waited {within:.0f} s for {what}; see {self.logs}")
            time.sleep(1.0)
