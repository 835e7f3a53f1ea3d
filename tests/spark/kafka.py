"""A Kafka broker for tests: one KRaft node that is its own controller, from the jars of ``tools/setup.sh kafka``.

Its clients here are librdkafka's, which know nothing of Spark: what they see is what a stranger sees.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from testkit.ports import ports
from testkit.s3 import Missing, NotStarted
from understudy.environment import find_java

JARS = Path(__file__).resolve().parents[2] / "build" / "kafka"
#: 16 bytes in base64, which KRaft wants; these spell "understudy-kafka".
_CLUSTER_ID = "dW5kZXJzdHVkeS1rYWZrYQ"


def connector() -> str:
    """For ``--jars``: what Spark needs to read Kafka."""
    if not (found := sorted((JARS / "connector").glob("*.jar"))):
        raise Missing("the jars of Kafka are not there: run tools/setup.sh kafka")
    return ",".join(map(str, found))


#: A broker on this machine answers sooner, in seconds.
_PATIENCE = 60


@dataclass(frozen=True, slots=True)
class Broker:
    address: str

    def make(self, topic: str, partitions: int = 1) -> None:
        admin = self._admin()  # held: with its last reference its requests end
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_PATIENCE)

    def send(self, topic: str, messages: Iterable[str]) -> None:
        """All of them in order into the first partition; returns when the broker has them."""
        producer = Producer({"bootstrap.servers": self.address, "acks": "all"})
        for message in messages:
            producer.produce(topic, message, partition=0)
        assert producer.flush(_PATIENCE) == 0, "the broker did not take all of them"

    def messages(self, topic: str) -> list[str]:
        """All that is in its first partition, and not of a transaction that was given up. Joins no group."""
        with closing(self._consumer("unused")) as consumer:
            partition = TopicPartition(topic, 0, 0)
            _, end = consumer.get_watermark_offsets(partition, _PATIENCE)
            consumer.assign([partition])
            found: list[str] = []
            while consumer.position([partition])[0].offset < end:
                for message in consumer.consume(1000, timeout=0.2):
                    value = message.value()
                    assert message.error() is None
                    assert value is not None
                    found.append(value.decode())
            return found

    def commit(self, group: str, topic: str, offset: int) -> None:
        """What a consumer of another application has read so far."""
        with closing(self._consumer(group)) as consumer:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)

    def look(self) -> dict[str, Any]:
        """Everything a standby could change: topics, the ends of their partitions, groups and what they have committed."""
        admin = self._admin()
        with closing(self._consumer("unused")) as consumer:
            partitions = [
                TopicPartition(topic, number)
                for topic, found in admin.list_topics(timeout=_PATIENCE).topics.items()
                for number in found.partitions
                if topic != "__consumer_offsets"
            ]
            offsets = {f"{at.topic}-{at.partition}": consumer.get_watermark_offsets(at, _PATIENCE) for at in partitions}
        groups = sorted(each.group_id for each in admin.list_consumer_groups().result(_PATIENCE).valid)
        committed = {
            group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(_PATIENCE)
            for group in groups
        }
        return {
            "offsets": offsets,
            "committed": {
                group: [(at.topic, at.partition, at.offset) for at in found.topic_partitions]
                for group, found in committed.items()
            },
        }

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address})

    def _consumer(self, group: str) -> Consumer:
        quiet = {"enable.auto.commit": False, "allow.auto.create.topics": False}
        return Consumer({"bootstrap.servers": self.address, "group.id": group, **quiet})


@contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    """A running one that forgets everything when the context is left."""
    with ports(2) as given, _running(directory, *(f"127.0.0.1:{port}" for port in given)) as made:
        yield made


@contextmanager
def _running(directory: Path, client: str, controller: str) -> Iterator[Broker]:
    home = directory / "kafka"
    home.mkdir(parents=True)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listeners": f"CONTROLLER://{controller},CLIENTS://{client}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT",
        "log.dirs": str(home / "log"),
        "auto.create.topics.enable": "true",  # as brokers come: a question for a missing topic makes it
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    properties = home / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    _java("256m", "kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER_ID, "--config", str(properties)).wait()
    with (home / "broker.log").open("wb") as log:
        process = _java("512m", "kafka.Kafka", str(properties), log=log)
        try:
            _await(client, process, home / "broker.log")
            yield Broker(client)
        finally:
            process.kill()
            process.wait()


def _java(heap: str, program: str, *arguments: str, log: Any = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    command = [
        str(find_java().home / "bin" / "java"),
        f"-Xmx{heap}",
        "-cp",
        f"{JARS / 'broker'}/*",
        program,
        *arguments,
    ]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _PATIENCE
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    while True:
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            if process.poll() is not None or time.monotonic() > end:
                raise NotStarted(f"the broker did not start: {log.read_text()[-2000:]}") from None
        else:
            return
