"""What a round sees of the leader's checkpoint, and where its writes go: looked at from outside, while a round stands still."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.rehearsal_stage import Stage, contents, counted, jvm, numbers, play, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.spark43]


class View:
    """The file system of a round, as Spark meets it."""

    def __init__(self, spark: SparkSession, stage: Stage, batch: int) -> None:
        self.batch = batch
        self.stage = stage
        self._jvm = jvm(spark)
        metadata = next(stage.scratch.glob("round-*/checkpoint/metadata"))
        self.root = f"rehearse:/r/{json.loads(metadata.read_text())['id']}/checkpoint"
        conf = self._jvm.org.apache.hadoop.conf.Configuration()
        conf.set("fs.rehearse.impl", "dev.understudy.rehearsal.OverlayFileSystem")
        self.fs = self.path("").getFileSystem(conf)

    def path(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{relative}".rstrip("/"))

    def names(self, relative: str) -> set[str]:
        return {status.getPath().getName() for status in self.fs.listStatus(self.path(relative))}

    def read(self, relative: str) -> str:
        with_stream = self.fs.open(self.path(relative))
        try:
            return bytes(with_stream.readAllBytes()).decode()
        finally:
            with_stream.close()

    def write(self, relative: str, text: str, *, overwrite: bool = True) -> None:
        out = self.fs.create(self.path(relative), overwrite)
        out.write(bytearray(text.encode()))
        out.close()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    spark = spark_session()
    stage = Stage(spark, tmp_path_factory.mktemp("overlay"))
    go, waits = stage.root / "go", stage.root / "waits"
    go.touch()

    @F.udf(returnType="long", useArrow=False)
    def wait(value: int) -> int:
        while not go.exists():
            waits.touch()
            time.sleep(0.05)
        return value

    stage.feed(3)
    writer = stage.writer(lambda rows: counted(rows.withColumn("v", wait("v"))))
    stage.lead(writer)
    batch = numbers(stage.checkpoint / "commits")[-1]
    claim = stage.checkpoint / "_understudy"
    claim.mkdir()
    (claim / "claim@1").write_text("{}")
    for newer in (
        f"offsets/{batch + 1}",
        "sources/0/9",
        "sources/0/19.compact",
        "state/0/0/.99.delta.tmp",
        "commits/.7.tmp",
    ):
        (stage.checkpoint / newer).write_text("newer")
    (stage.checkpoint / f"state/0/0/{batch + 5}_id.zip").write_text("newer")
    go.unlink()
    with stage.rehearsal(writer) as rehearsal:
        player = threading.Thread(target=lambda: played.append(play(rehearsal)))
        played: list[dict[str, Any]] = []
        player.start()
        give_up = time.monotonic() + 120
        while not waits.exists():  # at the first row, where it stays
            assert time.monotonic() < give_up
            time.sleep(0.02)
        yield View(spark, stage, batch)
        go.touch()
        player.join(60)
        assert played[0]["how"] == "live"


def test_it_sees_the_logs_up_to_its_batch_and_nothing_of_the_future(view: View) -> None:
    offsets, commits = view.names("offsets"), view.names("commits")

    last = max(int(name) for name in offsets)
    assert last <= view.batch
    assert commits == {str(number) for number in range(last)}
    assert not {"9", "19.compact"} & view.names("sources/0")
    versions = {int(name.split(".")[0].split("_")[0]) for name in view.names("state/0/0") if name[0].isdigit()}
    assert max(versions) <= last


def test_it_sees_neither_claims_nor_the_leaders_query_id(view: View) -> None:
    real = json.loads((view.stage.checkpoint / "metadata").read_text())["id"]

    assert "_understudy" not in view.names("")
    assert not view.fs.exists(view.path("_understudy/claim@1"))
    assert json.loads(view.read("metadata"))["id"] != real


def test_what_is_visible_reads_as_it_is(view: View) -> None:
    assert view.read("offsets/0") == (view.stage.checkpoint / "offsets" / "0").read_text()
    assert (
        view.fs.getFileStatus(view.path("offsets/0")).getLen()
        == (view.stage.checkpoint / "offsets" / "0").stat().st_size
    )


def test_writes_renames_and_deletes_stay_in_scratch(view: View) -> None:
    before = contents(view.stage.checkpoint)

    view.write("commits/.0.tmp", "again")
    assert view.fs.rename(view.path("commits/.0.tmp"), view.path("commits/0"))
    assert view.read("commits/0") == "again"
    assert view.fs.delete(view.path("offsets/0"), False)
    assert not view.fs.exists(view.path("offsets/0"))
    assert "0" not in view.names("offsets")
    assert view.fs.rename(view.path("sources/0/0"), view.path("sources/0/moved"))
    assert view.read("sources/0/moved").startswith("v1")
    assert view.fs.delete(view.path("sources"), True)
    assert not view.fs.exists(view.path("sources/0"))
    assert view.fs.mkdirs(view.path("sources/0"))
    assert view.names("sources/0") == set(), "a directory that was made again starts empty"
    view.write("state/0/0/77.delta", "new")
    assert "77.delta" in view.names("state/0/0")

    assert contents(view.stage.checkpoint) == before


def test_what_exists_is_not_overwritten_unasked(view: View) -> None:
    with pytest.raises(Exception, match="exists"):
        view.write("commits/0", "mine", overwrite=False)


def test_outside_of_a_rehearsal_there_is_nothing(view: View) -> None:
    nowhere = view._jvm.org.apache.hadoop.fs.Path("rehearse:/r/unknown/checkpoint/offsets")

    with pytest.raises(Exception, match="is over"):
        view.fs.listStatus(nowhere)
