"""What a script has read in batch and has changed since; files that are streamed as well come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.rehearsal_stage import jvm, spark_session

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session()


def write(path: Path, *keys: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'{{"k": "{key}", "v": 1}}\n' for key in keys))


def test_a_directory_that_is_streamed_may_grow_and_shrink_unless_a_query_joins_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "in"
    write(place / "1.json", "a")
    reads = jvm(spark).dev.understudy.rehearsal.BatchInputs()
    known: Any = spark.read.json(str(place))
    reads.add(known._jdf)
    assert reads.changed() == ""
    write(place / "2.json", "b")
    assert str(reads.changed()).endswith("/in"), "a table like any other, as far as is known"

    rows: Any = spark.readStream.schema(known.schema).json(str(place))
    reads.add(rows._jdf)
    reads.use(rows.writeStream._jwrite)
    assert reads.changed() == ""
    (place / "1.json").unlink()
    assert reads.changed() == "", "a source may archive or delete what it has read"

    reads.use(rows.join(known, "k").writeStream._jwrite)
    assert str(reads.changed()).endswith("/in"), "a cold start would join with what is there now"


def test_only_what_a_glob_streams_may_change(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    write(place / "day=1" / "part-1.json", "a")
    write(place / "day=1" / "names.json", "b")
    reads = jvm(spark).dev.understudy.rehearsal.BatchInputs()
    known: Any = spark.read.json(str(place))
    reads.add(known._jdf)
    rows: Any = spark.readStream.schema("k string, v int").json(f"{place}/day=*/{{part,more}}-*.json")
    reads.add(rows._jdf)
    write(place / "day=2" / "part-1.json", "c")
    write(place / "day=1" / "more-1.json", "c")
    assert reads.changed() == ""
    write(place / "day=1" / "names.json", "b", "c")
    assert str(reads.changed()).endswith("/lake")
