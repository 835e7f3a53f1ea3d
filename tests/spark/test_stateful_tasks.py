"""Where executors run in the driver, a few tasks do the work of all partitions that keep state; state and results are the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 40
#: Four for each of the two processors of the rig's ``local[2]``.
TASKS = 8

ONCE = "rows.dropDuplicates(['k', 'v'])"
QUERIES = {
    "once": f"{ONCE}.writeStream.format('parquet')",
    "asked": f"{ONCE}.coalesce(12).writeStream.format('parquet')",
    "pairs": (
        "rows.join(spark.readStream.schema('t2 timestamp, k string, w int').csv('in'), 'k')"
        ".writeStream.format('parquet')"
    ),
    "counts": "rows.groupBy('k').count().writeStream.outputMode('update').foreachBatch(keep)",
    "thrown": (
        "rows.withWatermark('t', '1 second').groupBy(F.window('t', '1 minute').alias('w'), 'k').count()"
        ".groupBy(F.window(F.window_time('w'), '1 hour')).count().writeStream.format('noop')"
    ),
}

SCRIPT = (
    HEADER
    + """
def keep(batch, number):
    Path('trace').open('a').write(f'{batch.rdd.getNumPartitions()} {batch.count()}\\n')
"""
)
SCRIPT += "".join(
    f"{query}.queryName('{name}').option('checkpointLocation', 'checkpoints/{name}').start('out/{name}')\n"
    for name, query in QUERIES.items()
)
SCRIPT += "spark.streams.awaitAnyTermination()\n"


def feed(home: Path, name: str, keys: range) -> None:
    (home / "in").mkdir(parents=True, exist_ok=True)
    part = home / f".{name}"
    part.write_text("".join(f"2020-01-01 00:00:00,key{key},{key}\n" for key in keys))
    part.rename(home / "in" / f"{name}.csv")


def written(home: Path, query: str, batch: int) -> list[Path]:
    """Files of a batch that have rows: Spark writes one for its first partition in any case."""
    log = home / "out" / query / "_spark_metadata" / str(batch)
    names = [json.loads(line)["path"].rpartition("/")[2] for line in log.read_text().splitlines()[1:]]
    files = [home / "out" / query / name for name in names]
    return [file for file in files if parquet.read_metadata(file).num_rows]


def keys(files: list[Path]) -> Counter[str]:
    return Counter(key for file in files for key in parquet.read_table(file)["k"].to_pylist())


@pytest.mark.spark43
def test_partitions_of_state_share_tasks_and_keep_what_they_know(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    submit = ("--conf", f"spark.sql.shuffle.partitions={PARTITIONS}")
    feed(tmp_path, "first", range(400))
    with Rig(tmp_path, SCRIPT, submit=submit) as rig:
        rig.lead()
        for query in QUERIES:
            rig.until(checkpoints / query / "commits" / "0", "{")
        feed(tmp_path, "second", range(200, 600))
        for query in QUERIES:
            rig.until(checkpoints / query / "commits" / "1", "{")
        # A join lists its two sources one after the other: the file may come between.
        both = (checkpoints / "pairs" / "offsets" / "1").read_text().count('"logOffset":1') == 2
        last = 1 if both else 2
        rig.until(checkpoints / "pairs" / "commits" / str(last), "{")
    first, second = written(tmp_path, "once", 0), written(tmp_path, "once", 1)

    assert len(first) == TASKS
    assert len(second) == TASKS
    assert keys(first + second) == Counter({f"key{key}": 1 for key in range(600)})
    assert len(written(tmp_path, "asked", 0)) == 12
    pairs = [file for batch in range(last + 1) for file in written(tmp_path, "pairs", batch)]
    assert keys(pairs) == Counter({f"key{key}": 4 if 200 <= key < 400 else 1 for key in range(600)})
    assert (tmp_path / "trace").read_text().splitlines()[:2] == [f"{TASKS} 400", f"{TASKS} 400"]
    for query in QUERIES:
        state = checkpoints / query / "state" / "0"
        assert {each.name for each in state.iterdir()} == {"_metadata", *map(str, range(PARTITIONS))}
        stores = [each.parent for each in state.parent.glob("*/*/**/1.delta")]
        assert len(stores) == PARTITIONS * {"pairs": 4, "thrown": 2}.get(query, 1)
        assert all((store / "2.delta").exists() for store in stores)


def test_a_default_parallelism_of_the_users_counts(tmp_path: Path) -> None:
    submit = (
        "--conf",
        f"spark.sql.shuffle.partitions={PARTITIONS}",
        "--conf",
        f"spark.default.parallelism={PARTITIONS}",
    )
    feed(tmp_path, "first", range(400))
    with Rig(tmp_path, SCRIPT, submit=submit) as rig:
        rig.lead()
        rig.until(tmp_path / "checkpoints" / "once" / "commits" / "0", "{")

    assert len(written(tmp_path, "once", 0)) == PARTITIONS
