"""Rehearsals of queries on Kafka, looked at from the broker: no offset, group, topic or message is other than before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark import kafka
from tests.spark.rig import Rig
from understudy.protocol.messages import RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SCRIPT = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", sys.argv[2])
source = (
    spark.readStream.format("kafka").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "orders")
    .option("startingOffsets", "earliest").option("kafka.group.id", "shop").option("minPartitions", 2)
)
orders = source.load().selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
def counted(frame, number):
    frame.groupBy("value").count().write.mode("overwrite").json("counted")
orders.writeStream.queryName("counted").foreachBatch(counted).start()
(
    orders.writeStream.queryName("forwarded").format("kafka").option("kafka.bootstrap.servers", sys.argv[1])
    .option("topic", "forwarded").start()
)
spark.streams.awaitAnyTermination()
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kafka.Broker]:
    with kafka.broker(tmp_path) as running:
        running.make("orders")
        running.send("orders", ["a", "b", "c"])
        running.commit("accounting", "orders", 1)
        yield running


def on_kafka(home: Path, broker: kafka.Broker, *, joins: bool = False) -> Rig:
    """``joins``: the script has its driver ask for offsets as a member of the consumer group."""
    arguments = (broker.address, str(joins).lower())
    return Rig(home, SCRIPT, *arguments, rehearse="live", every=0.2, submit=("--jars", kafka.connector()))


def rehearsed(rig: Rig, rounds: int) -> str:
    while not ((standing := rig.wait_for(RehearsalReport)).rehearsed and standing.rounds >= rounds):
        assert not standing.reason, standing
    return standing.how


def test_the_leaders_last_batch_is_read_again_and_the_broker_sees_a_reader_and_nothing_else(
    tmp_path: Path, broker: kafka.Broker
) -> None:
    broker.make("forwarded")
    with on_kafka(tmp_path, broker) as leader:
        leader.lead()
        for query in ("counted", "forwarded"):
            leader.until(tmp_path / "checkpoints" / query / "commits" / "0", "{")
    broker.send("orders", ["d", "e"])
    before = broker.look()
    assert before == {
        "offsets": {"orders-0": (0, 5), "forwarded-0": (0, 3)},
        "committed": {"accounting": [("orders", 0, 1)]},
    }
    with on_kafka(tmp_path, broker) as standby:
        assert rehearsed(standby, 5) == "live"
        assert broker.look() == before
        standby.lead(epoch=2)
        standby.until(tmp_path / "checkpoints" / "forwarded" / "commits" / "1", "{")
    assert sorted(broker.messages("forwarded")) == ["a", "b", "c", "d", "e"]
    assert broker.look()["committed"] == before["committed"]


@pytest.mark.parametrize("joins", [False, True])
def test_before_there_is_a_checkpoint_a_throwaway_one_reads_and_makes_no_topic_and_joins_no_group(
    tmp_path: Path, broker: kafka.Broker, joins: bool
) -> None:
    before = broker.look()
    with on_kafka(tmp_path, broker, joins=joins) as standby:
        assert rehearsed(standby, 5) == "throwaway"
    assert broker.look() == before
    assert before["offsets"] == {"orders-0": (0, 3)}


def test_a_batch_of_very_many_messages_is_not_read_again_just_to_warm_up(tmp_path: Path, broker: kafka.Broker) -> None:
    broker.make("forwarded")
    broker.send("orders", ["a"] * 100_000)
    with on_kafka(tmp_path, broker) as leader:
        leader.lead()
        for query in ("counted", "forwarded"):
            leader.until(tmp_path / "checkpoints" / query / "commits" / "0", "{")
    with on_kafka(tmp_path, broker) as standby:
        assert rehearsed(standby, 2) == "synthetic"
