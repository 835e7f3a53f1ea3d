"""A driver whose directories belong to another job, or are not what its job left there, says so once and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.pages import token
from tests.spark.fence_env import seize
from tests.spark.rig import Rig
from understudy.protocol.messages import ClaimRefused, Ended, Revoked
from understudy.protocol.token import Token

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
try:
    spark.range(3).write.mode("append").parquet("streamed")
except Exception as error:
    print("told", error, flush=True)
rows = spark.readStream.schema("id LONG").json("in")
rows.writeStream.option("checkpointLocation", "checkpoint").format("noop").start().awaitTermination()
"""


def test_a_batch_into_another_jobs_sink_and_a_checkpoint_that_is_gone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "streamed" / "_spark_metadata").mkdir(parents=True)
    seize(tmp_path / "streamed", token(9), cluster="other", job="k")
    checkpoint = tmp_path / "checkpoint"
    with Rig(tmp_path, SCRIPT) as leader:
        leader.lead(epoch=3, recorded={checkpoint.as_uri().replace("file://", "file:"): int(Token(2, 1))})
        refused = leader.wait_for(ClaimRefused)
        assert (refused.reason, Path(refused.root.removeprefix("file:"))) == ("missing-claim", checkpoint)
        assert not (checkpoint / "_understudy").exists()
        assert "Jobs may share a directory only if each appends in batches" in leader.text()
        assert list((tmp_path / "streamed").glob("part-*")) == []
        leader.say(Revoked("over"))  # after 200 ms of a page that is revoked the JVM ends them both
        ended = leader.wait_for(Ended)
        assert (ended.code, ended.fatal) == (5, True), "the next driver would meet the same"
        assert "job k of cluster other" in ended.error
        assert "only jobs that append in batches may share a directory" in ended.error


def test_a_script_that_logs_the_refusal_and_ends_well_has_not_written_its_rows_and_is_refused(tmp_path: Path) -> None:
    (tmp_path / "streamed" / "_spark_metadata").mkdir(parents=True)
    seize(tmp_path / "streamed", token(9), cluster="other", job="k")
    with Rig(tmp_path, SCRIPT.split("rows =", maxsplit=1)[0]) as leader:
        leader.lead(epoch=3)
        ended = leader.wait_for(Ended)
        assert "told" in leader.text()
        assert (ended.code, ended.fatal) == (5, True), "or the job were FINISHED"
