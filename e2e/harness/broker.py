"""A Kafka broker in the cluster: one node that is its own controller, as a pod on port 9092 of the Service ``kafka``.

It forgets everything with its pod. In the local cluster it lives on node 1, as the object store does, so that tests cut and
crash the others.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.harness import images, manifests
from e2e.harness.kubectl import Cluster

NAME, PORT = "kafka", 9092

#: For tools in the broker's own pod, which need not find their way out of it and back through the Service.
_INSIDE = "127.0.0.1:9094"
_CONTROLLER = "127.0.0.1:9093"

#: 16 bytes in base64, which KRaft wants; these spell "understudy-kafka".
_CLUSTER_ID = "dW5kZXJzdHVkeS1rYWZrYQ"


class Ended(Exception):
    """The producer has ended. No ``OSError``: sending the same file again would repeat rows."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One partition, so messages are read as they were sent.

    Of two, a reader that is behind takes as large a share of either; as airports and days differ, that share ends on days that
    differ as well, and the later one's watermark makes the other's flights late.
    """

    url: str
    producer: subprocess.Popen[bytes]

    def send(self, file: bytes) -> None:
        """Every line of a CSV file but the first, which names its columns, becomes a message."""
        assert self.producer.stdin is not None
        try:
            self.producer.stdin.write(file.partition(b"\n")[2])
            self.producer.stdin.flush()
        except OSError as gone:
            raise Ended(f"{self.url}: its producer has ended with {self.producer.poll()}") from gone


def install(cluster: Cluster, namespace: str) -> None:
    """Into a namespace that exists; returns when it answers."""
    cluster.load(images.kafka(images.BROKER), nodes=[1])
    cluster.apply(
        namespace, _settings(namespace), _deployment(local=cluster.local), manifests.service(NAME, PORT, NAME)
    )
    cluster.kubectl("rollout", "status", "--namespace", namespace, f"deployment/{NAME}", "--timeout=180s", timeout=190)


@contextmanager
def topic(cluster: Cluster, namespace: str, name: str, log: Path) -> Iterator[Topic]:
    """A new one, and Kafka's console producer in the broker's pod, which is told all its messages by one long call.

    A call for each file would start a JVM for each. What the producer says goes to ``log``.
    """
    inside = ["exec", "--namespace", namespace, f"deployment/{NAME}", "--container", NAME]
    create = ["--create", "--topic", name, "--partitions", "1"]
    tool = _java("128m", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", _INSIDE, *create)
    cluster.kubectl(*inside, "--", *tool, timeout=120)
    # Its own patience is 1.5 s and three times, after which it drops messages and goes on; with more, it still keeps their order
    # and sends none twice (idempotence, Kafka's default).
    patience = ["--request-timeout-ms", "30000", "--message-send-max-retries", "1000000", "--timeout", "20"]
    tool = _java("128m", "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", _INSIDE, "--topic", name)
    command = [cluster.program, "--context", cluster.context, *inside, "--stdin", "--", *tool, *patience]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command, env=cluster.environment(), stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT
        ) as producer,
    ):
        try:
            yield Topic(f"kafka://{_address(namespace)}/{name}", producer)
        finally:
            producer.terminate()
            assert producer.stdin is not None
            with suppress(OSError):  # what was not flushed is not read
                producer.stdin.close()


def _address(namespace: str) -> str:
    return f"{NAME}.{namespace}.svc:{PORT}"


def _java(heap: str, program: str, *arguments: str) -> list[str]:
    return ["java", f"-Xmx{heap}", "-cp", "/opt/kafka/*", program, *arguments]


def _settings(namespace: str) -> dict[str, Any]:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{_CONTROLLER}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INSIDE",
        "listeners": f"CONTROLLER://{_CONTROLLER},INSIDE://{_INSIDE},CLIENTS://:{PORT}",
        "advertised.listeners": f"INSIDE://{_INSIDE},CLIENTS://{_address(namespace)}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,CLIENTS:PLAINTEXT",
        "log.dirs": "/data/log",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
    }
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"server.properties": text}}


def _deployment(*, local: bool) -> dict[str, Any]:
    settings = "/etc/kafka/server.properties"
    container = {
        "image": images.BROKER,
        "imagePullPolicy": "Never",
        "securityContext": manifests.RESTRICTED_CONTAINER,
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "settings", "mountPath": "/etc/kafka"},
        ],
    }
    format_disk = ["format", "--cluster-id", _CLUSTER_ID, "--config", settings, "--ignore-formatted"]
    formats = {"name": "format", "command": _java("128m", "kafka.tools.StorageTool", *format_disk), **container}
    server = {
        "name": NAME,
        "command": ["/usr/bin/tini", "--", *_java("256m", "kafka.Kafka", settings)],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        **container,
    }
    volumes = [
        {"name": "data", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "settings", "configMap": {"name": NAME}},
    ]
    return manifests.alone(NAME, local=local, volumes=volumes, initContainers=[formats], containers=[server])
