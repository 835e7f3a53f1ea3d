"""A takeover on ``s3a://`` by a standby that keeps state loaded: logs and state are read at once, and what is computed is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testkit import s3
from testkit.command import confs
from tests.spark.rig import Rig
from understudy.protocol.messages import RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHECKPOINT = f"s3a://{s3.BUCKET}/checkpoint"

#: How often each word has come, from the beginning: a batch per file.
SCRIPT = f"""
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
words = spark.readStream.schema("word string").option("maxFilesPerTrigger", 1).json("in").groupBy("word").count()

def tell(batch, number):
    with open("told", "a") as file:
        print(number, sorted(map(tuple, batch.collect())), file=file)

query = words.writeStream.outputMode("complete").foreachBatch(tell)
query.option("checkpointLocation", "{CHECKPOINT}").start().awaitTermination()
"""


def feed(home: Path, number: int) -> None:
    (home / "in").mkdir(exist_ok=True)
    rows = [{"word": "each"}, {"word": f"w{number % 3}"}]
    (home / "in" / f"{number}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def committed(rig: Rig, batch: int) -> None:
    rig.until(rig.fence_log, f"/checkpoint/commits/{batch}")


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param("HDFSBackedStateStoreProvider", marks=pytest.mark.long),
        pytest.param("RocksDBStateStoreProvider", marks=[pytest.mark.long, pytest.mark.spark43]),
    ],
)
def test_state_that_a_standby_has_loaded_is_handed_over_while_the_query_reads_its_logs(
    tmp_path: Path, provider: str
) -> None:
    state = "spark.sql.streaming.stateStore"
    settings = {
        f"{state}.providerClass": f"org.apache.spark.sql.execution.streaming.state.{provider}",
        f"{state}.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.driver.extraClassPath": f"{s3.s3a_jars()}/*",
    }
    with s3.server(tmp_path / "store") as port:
        submit = confs({**settings, **s3.spark_settings(port)})
        feed(tmp_path, 0)
        with Rig(tmp_path, SCRIPT, submit=submit) as leader:
            leader.lead()
            committed(leader, 0)
            with Rig(tmp_path, SCRIPT, rehearse="live", rounds=2, submit=submit) as standby:
                while standby.wait_for(RehearsalReport).rounds < 2:
                    pass
                for number in range(1, 4):
                    feed(tmp_path, number)
                    committed(leader, number)
                leader.kill()
                feed(tmp_path, 4)
                standby.lead(epoch=2, committed={CHECKPOINT: 3})
                committed(standby, 4)
    told = dict(line.split(" ", 1) for line in (tmp_path / "told").read_text().splitlines())
    assert told["4"] == str([("each", 5), ("w0", 2), ("w1", 2), ("w2", 1)])
