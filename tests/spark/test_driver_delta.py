"""Delta Lake's Python API on a standby: what changes a table waits for the grant, what looks does not."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.zoo.exhibits import CONNECTORS, delta_jars
from understudy.protocol.messages import Ended, RehearsalReport

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

#: Those that do not get in each other's way.
APART = ("vacuum", "convert", "create", "createIfNotExists")

CALLS = {
    "delete": "table.delete('id = 1')",
    "update": "table.update(set={'id': 'id + 1'})",
    "merge": "table.alias('t').merge(spark.range(2).alias('s'), 't.id = s.id').whenMatchedDelete().execute()",
    "optimize": "table.optimize().executeCompaction()",
    "vacuum": "table.vacuum(1000)",
    "restore": "table.restoreToVersion(0)",
    "restoreToTimestamp": "table.restoreToTimestamp('2100-01-01')",
    "optimize Z": "table.optimize().executeZOrderBy('id')",
    "upgrade": "table.upgradeTableProtocol(1, 3)",
    "add feature": "table.addFeatureSupport('deletionVectors')",
    "drop feature": "table.dropFeatureSupport('deletionVectors')",
    "clone": "table.clone(here + '/cloned', isShallow=True)",
    "clone at version": "table.cloneAtVersion(0, here + '/cloned', isShallow=True)",
    "clone at timestamp": "table.cloneAtTimestamp('2100-01-01', here + '/cloned', isShallow=True)",
    "replace": "DeltaTable.createOrReplace(spark).location(here + '/there').addColumn('id', 'LONG').execute()",
    "generate": "table.generate('symlink_format_manifest')",
    "SQL's restore": "spark.sql(f'RESTORE TABLE delta.`{here}/there` TO VERSION AS OF 0')",
    "SQL's clone": "spark.sql(f'CREATE OR REPLACE TABLE delta.`{here}/cloned` SHALLOW CLONE delta.`{here}/there`')",
    "SQL's vacuum": "spark.sql(f'VACUUM delta.`{here}/there` RETAIN 1000 HOURS')",
    "convert": "DeltaTable.convertToDelta(spark, 'parquet.`plain`')",
    "create": "DeltaTable.create(spark).location(here + '/made').addColumn('id', 'LONG').execute()",
    "createIfNotExists": "DeltaTable.createIfNotExists(spark).location(here + '/new').addColumn('id', 'LONG').execute()",
}

SCRIPT = f"""
import sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from delta.tables import DeltaTable
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
here = str(Path.cwd())
table = DeltaTable.forPath(spark, "there")
DeltaTable.createIfNotExists(spark).location(here + "/there").addColumn("id", "LONG").execute()
print("looked", table.toDF().count(), table.history().count(), DeltaTable.isDeltaTable(spark, "there"), flush=True)
spark.sql(f"DESCRIBE HISTORY delta.`{{here}}/there`").count()
def call(name, text):
    try:
        eval(text)
        print(f"did {{name}}\\n", end="", flush=True)
    except Exception as error:
        print(f"failed {{name}} {{error}}\\n", end="", flush=True)
calls = [threading.Thread(target=call, args=(each, {CALLS!r}[each])) for each in sys.argv[1:]]
for each in calls: each.start()
for each in calls: each.join()
"""

MAKER = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(3).write.format("delta").save("there")
spark.range(3).write.parquet("plain")
"""


@pytest.fixture
def _delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CONNECTORS / "python"), os.environ.get("PYTHONPATH", "")]))


def tables(home: Path) -> set[str]:
    """Their files, and the entries of their logs."""
    return {
        str(path.relative_to(home))
        for kept in ("there", "plain", "made", "new", "cloned")
        for path in (home / kept).rglob("*")
    }


@pytest.fixture
def before(tmp_path: Path, _delta: None) -> set[str]:
    with Rig(tmp_path, MAKER, submit=delta_jars()) as maker:
        maker.lead()
        assert maker.wait_for(Ended).code == 0
    return tables(tmp_path)


def all_wait(rig: Rig, calls: Collection[str]) -> None:
    rig.until(rig.output, "looked 3 1 True")
    for _ in calls:  # each says so when it waits
        assert rig.wait_for(RehearsalReport).held.startswith("job.py:")
    assert "did" not in rig.text()
    assert "failed" not in rig.text()


def test_what_changes_a_delta_table_waits(tmp_path: Path, before: set[str]) -> None:
    with Rig(tmp_path, SCRIPT, *CALLS, submit=delta_jars()) as rig:
        all_wait(rig, CALLS)
    assert tables(tmp_path) == before


def test_and_is_done_after_the_grant(tmp_path: Path, before: set[str]) -> None:
    with Rig(tmp_path, SCRIPT, *APART, submit=delta_jars()) as rig:
        all_wait(rig, APART)
        rig.lead(epoch=2)
        assert rig.wait_for(Ended).code == 0
        for name in APART:
            assert f"did {name}" in rig.text()
    assert tables(tmp_path) > before
