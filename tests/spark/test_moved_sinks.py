"""A query that has run batches before begins in a file sink that is new to it: a fork, or a script whose output was moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.doubles.pages import OPEN, token
from tests.spark.fence_env import FENCE, SPARK_OPTIONS, STOCK, Driver, driver, spark

pytestmark = [pytest.mark.spark, pytest.mark.spark43, pytest.mark.slow]

#: Spark compacts the log of a file sink after so many batches; ten, unless it is told.
INTERVAL = 10


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("moved"), options=SPARK_OPTIONS) as made:
        made.gate.write(OPEN, token(5, 1))
        made.extra["fenced"] = spark(made, FENCE)
        made.extra["stock"] = spark(made, STOCK)
        yield made


def run(one: Driver, home: Path, out: str, session: str = "fenced") -> None:
    """One AvailableNow run, a batch for each file that is new."""
    lines = one.extra[session].readStream().format("text").option("maxFilesPerTrigger", 1).load(str(home / "in"))
    now = one.jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
    writer = lines.writeStream().format("text").trigger(now).option("checkpointLocation", str(home / "checkpoint"))
    writer.start(str(home / out)).awaitTermination()


def feed(home: Path, numbers: range) -> None:
    (home / "in").mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (home / "in" / f"{number:03d}").write_text(f"{number}\n")


def rows(one: Driver, sink: Path) -> list[int]:
    read: Any = one.extra["stock"].read().text(str(sink)).collectAsList()
    return sorted(int(row.getString(0)) for row in read)


def log(home: Path, out: str) -> set[str]:
    return {each.name for each in (home / out / "_spark_metadata").iterdir() if not each.name.startswith((".", "_"))}


@pytest.mark.parametrize("before", [3, INTERVAL - 1, INTERVAL, 2 * INTERVAL - 1, 2 * INTERVAL + 4])
def test_a_sink_that_a_query_moves_to_has_the_rows_of_all_batches_since(
    one: Driver, tmp_path: Path, before: int
) -> None:
    feed(tmp_path, range(before))
    run(one, tmp_path, "first")
    after = before + 2 * INTERVAL + 1  # it is compacted twice
    feed(tmp_path, range(before, after))
    run(one, tmp_path, "second")
    assert rows(one, tmp_path / "first") == list(range(before))
    assert rows(one, tmp_path / "second") == list(range(before, after))
    feed(tmp_path, range(after, after + 2))
    run(one, tmp_path, "second")
    assert rows(one, tmp_path / "second") == list(range(before, after + 2))


def test_a_start_that_was_cut_short_is_completed(one: Driver, tmp_path: Path) -> None:
    feed(tmp_path, range(INTERVAL - 1))
    run(one, tmp_path, "first")
    (tmp_path / "second" / "_spark_metadata").mkdir(parents=True)
    for number in range(4):
        (tmp_path / "second" / "_spark_metadata" / str(number)).write_text("v1")
    feed(tmp_path, range(INTERVAL - 1, INTERVAL + 1))
    run(one, tmp_path, "second")
    assert rows(one, tmp_path / "second") == [INTERVAL - 1, INTERVAL]
    assert f"{INTERVAL - 1}.compact" in log(tmp_path, "second")


def test_a_log_that_has_lost_entries_fails_as_it_does_under_plain_spark(one: Driver, tmp_path: Path) -> None:
    feed(tmp_path, range(INTERVAL - 2))
    run(one, tmp_path, "out")
    for lost in (INTERVAL - 4, INTERVAL - 3):
        (tmp_path / "out" / "_spark_metadata" / str(lost)).unlink()
        (tmp_path / "out" / "_spark_metadata" / f".{lost}.crc").unlink(missing_ok=True)
    feed(tmp_path, range(INTERVAL - 2, INTERVAL))
    for session in ("fenced", "stock"):
        with pytest.raises(Py4JJavaError, match="BATCH_METADATA_NOT_FOUND"):
            run(one, tmp_path, "out", session)


def test_plain_spark_cannot_move_a_sink(one: Driver, tmp_path: Path) -> None:
    """Without which all this would not be needed."""
    feed(tmp_path, range(INTERVAL - 1))
    run(one, tmp_path, "first", "stock")
    feed(tmp_path, range(INTERVAL - 1, INTERVAL))
    with pytest.raises(Py4JJavaError, match="BATCH_METADATA_NOT_FOUND"):
        run(one, tmp_path, "second", "stock")
