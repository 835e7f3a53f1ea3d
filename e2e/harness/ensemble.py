"""charts/zookeeper in a namespace, and a job of the bundle that keeps its lock and documents there. Imports nothing of understudy."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from e2e.harness import images, manifests
from e2e.harness.bundle import Bundled
from e2e.harness.deployment_under_test import CLUSTER
from e2e.harness.helm import Helm
from e2e.harness.kubectl import Cluster
from e2e.harness.volumes import volumes

T = TypeVar("T")

#: Of the release, of the Secret with a user, and of the path that documents are below.
RELEASE, SECRET, PATH = "zookeeper", "flights-zookeeper", "/understudy"
SERVERS = tuple(f"{RELEASE}-{number}" for number in range(3))
#: Seconds for three JVMs that start at once on two busy cores, and for one answer while a server is away.
_START, _ANSWER = 240.0, 60.0


@dataclass(slots=True)
class Ensemble:
    """Three servers, each of which has a name. ``user``: ``USER:PASSWORD``, to whom documents belong."""

    cluster: Cluster
    namespace: str
    user: str
    _client: Any = None
    _way: ExitStack = field(default_factory=ExitStack)

    @property
    def given(self) -> dict[str, Any]:
        """The keys of a stack whose documents are here."""
        hosts = ",".join(f"{server}.{RELEASE}-servers.{self.namespace}.svc:2181" for server in SERVERS)
        address = f"{hosts}{PATH}?digest=/etc/understudy/ha/user"
        return {"ha": "zookeeper", "haAddress": address, "haSecret": SECRET}

    def await_ready(self) -> None:
        for server in SERVERS:
            self.cluster.await_ready(self.namespace, f"pod/{server}", _START)

    def leading(self) -> str:
        """The server that leads the others; empty while none does."""
        script = "exec 3<>/dev/tcp/127.0.0.1/2181; printf srvr >&3; cat <&3"
        for server in SERVERS:
            said = self.cluster.kubectl("exec", "-n", self.namespace, server, "--", "bash", "-c", script)
            if "Mode: leader" in said:
                return server
        return ""

    def kill(self, server: str) -> None:
        """At once, with its container; the StatefulSet makes another one of its name."""
        self.cluster.kubectl("delete", "pod", server, "-n", self.namespace, "--grace-period=0", "--force")

    def documents(self) -> dict[str, dict[str, Any]]:
        """Everything below the path."""

        def read(client: Any) -> dict[str, dict[str, Any]]:
            return {name: json.loads(client.get(f"{PATH}/{name}")[0]) for name in client.get_children(PATH)}

        return self._ask(read)

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask(lambda client: json.loads(client.get(f"{PATH}/{name}")[0]))
        return found

    def make_path(self) -> None:
        self._ask(lambda client: client.ensure_path(PATH))

    def close(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client.close()
            self._client = None
        self._way.close()

    def _ask(self, ask: Callable[[Any], T]) -> T:
        """Of a server that answers: pods that were killed come back under other addresses."""
        deadline = time.monotonic() + _ANSWER
        while True:
            try:
                if self._client is None:
                    self._connect()
                return ask(self._client)
            except (KazooException, KazooTimeoutError):
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def _connect(self) -> None:
        if self.cluster.local:
            pods = self.cluster.get(self.namespace, "pods", "-l", f"app.kubernetes.io/instance={RELEASE}")["items"]
            hosts = ",".join(f"{ip}:2181" for pod in pods if (ip := pod["status"].get("podIP")))
        else:
            hosts = f"127.0.0.1:{self._way.enter_context(self.cluster.forward(self.namespace, RELEASE, 2181))}"
        self._client = KazooClient(hosts=hosts, timeout=10.0, auth_data=[("digest", self.user)])
        self._client.start(timeout=10.0)


@contextmanager
def ensemble(cluster: Cluster, namespace: str, helm: Helm) -> Iterator[Ensemble]:
    """Installed, with the path and a Secret with a user. In the local cluster on node 1, which has the image and the volumes."""
    cluster.load(images.companions(), nodes=[1])
    name, _, tag = images.COMPANIONS.partition(":")
    made = Ensemble(cluster, namespace, f"flights:{secrets.token_hex(8)}")
    cluster.apply(namespace, manifests.secret(SECRET, {"user": f"{made.user}\n"}))
    with volumes(cluster, namespace, len(SERVERS)) as storage_class:
        values = {
            "image": {"repository": name, "tag": tag, "pullPolicy": "Never"},
            "nodeSelector": {"kubernetes.io/hostname": "node1"} if cluster.local else {},
            "resources": {"requests": {"cpu": "20m", "memory": "200Mi"}},
            "heap": "96m",
            "persistence": {"storageClass": storage_class, "size": "200Mi"},
        }
        helm.install(cluster, namespace, RELEASE, "zookeeper", values)
        try:
            made.await_ready()
            made.make_path()
            yield made
        finally:
            made.close()


@dataclass(slots=True)
class InZooKeeper(Bundled):
    """The flights job as a stack of the bundle, with its lock and documents in ``ensemble``."""

    ensemble: Ensemble | None = None

    def _document(self, name: str) -> dict[str, Any]:
        assert self.ensemble is not None
        return self.ensemble.document(f"{CLUSTER}-{name}")

    def _body(self, document: str, entry: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._document(document)["entries"][entry])["body"]
        return found

    def grant(self) -> tuple[int, str]:
        lock = self._document("lock")
        epoch = int(json.loads(lock["entries"]["grant"])["body"]["token_epoch"])
        return epoch, str(lock["leader"]["holder"])

    def holder(self) -> str:
        return self.grant()[1]

    def acquired(self) -> float:
        return datetime.fromisoformat(self._document("lock")["leader"]["acquired"]).timestamp()

    def record(self) -> dict[str, Any]:
        return self._body(CLUSTER, "job")

    def standings(self) -> list[dict[str, Any]]:
        entries = self._document("replicas")["entries"]
        return [json.loads(text)["body"] for key, text in entries.items() if key.startswith("replica.")]

    def understudy(self, *words: str) -> str:
        """In a pod, which knows where its documents are."""
        pod = self.pods()[0]["metadata"]["name"]
        command = ["exec", "-n", self.namespace, pod, "--", "understudy", *words, "--cluster-id", CLUSTER]
        return self.cluster.kubectl(*command, timeout=120)
