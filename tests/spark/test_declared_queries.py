"""What a script does between two calls of ``start()``, which each query of a takeover must not see: a real driver, led by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import RehearsalReport, Started

pytestmark = pytest.mark.spark


def kept(rig: Rig, query: str) -> dict[str, str]:
    """The settings that its checkpoint keeps, once its first batch has begun."""
    offsets = rig.home / "checkpoints" / query / "offsets" / "0"
    rig.until(offsets, "{")
    return dict(json.loads(offsets.read_text().splitlines()[1])["conf"])


def test_a_writer_that_is_used_again_leaves_the_queries_it_has_started_as_they_were(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "twice = rows.writeStream.format('json')\n"
        "twice.option('checkpointLocation', 'kept/a').start('out/a')\n"
        "twice.option('checkpointLocation', 'kept/b').start('out/b')\n"
        "named = rows.writeStream.format('json')\n"
        "named.queryName('c').start('out/c')\n"
        "named.queryName('d').start('out/d')\n"
        "called = rows.writeStream\n"
        "for name in 'ef':\n"
        "    called.foreachBatch(lambda b, i, name=name: Path('trace').open('a').write(f'{name} '))\n"
        "    called.queryName(name).start()\n"
        "print(sorted(q.name or '' for q in spark.streams.active), flush=True)\n"
        "spark.streams.awaitAnyTermination()\n"
    )
    with Rig(tmp_path, script, rehearse="live", user_code=True) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        assert rig.wait_for(Started).queries == 6
        rig.until(rig.output, "['', '', 'c', 'd', 'e', 'f']")
        for checkpoint in ("kept/a", "kept/b", *(f"checkpoints/{name}" for name in "cdef")):
            rig.until(tmp_path / checkpoint / "commits" / "0", "{")
    for out in "abcd":
        assert sum(len(part.read_text().splitlines()) for part in (tmp_path / "out" / out).glob("*.json")) == 2
    assert sorted((tmp_path / "trace").read_text().split()) == ["e", "f"]


def test_each_query_has_the_settings_of_its_start_though_spark_does_not_know_them(tmp_path: Path) -> None:
    """The first is declared with what the script ends with, so nothing is to be set for it."""
    feed(tmp_path, 1)
    # queries print at once, and print writes word by word
    script = HEADER + (
        "def told(frame, number):\n"
        "    conf = frame.sparkSession.conf\n"
        "    target, partitions = conf.get('job.target', 'none'), conf.get('spark.sql.shuffle.partitions')\n"
        "    print(f'told {partitions} {target}\\n', end='', flush=True)\n"
        "def start(partitions, target):\n"
        "    spark.conf.set('spark.sql.shuffle.partitions', partitions)\n"
        "    spark.conf.set('job.target', target) if target else spark.conf.unset('job.target')\n"
        "    rows.writeStream.queryName(f'q{partitions}{target}').foreachBatch(told).start()\n"
        "start(2, ''); start(3, 'three'); start(4, ''); start(5, 'five'); start(2, 'two'); start(6, '')\n"
        "spark.conf.set('spark.sql.shuffle.partitions', 2)\n"
        "running = len(spark.streams.active)\n"
        "print(running, spark.conf.get('spark.sql.shuffle.partitions'), spark.conf.get('job.target', 'none'), flush=True)\n"
        "spark.streams.awaitAnyTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        assert rig.wait_for(Started).queries == 6
        for partitions, target in ((2, ""), (3, "three"), (4, ""), (5, "five"), (2, "two"), (6, "")):
            rig.until(rig.output, f"told {partitions} {target or 'none'}")
            assert kept(rig, f"q{partitions}{target}")["spark.sql.shuffle.partitions"] == str(partitions)
        rig.until(rig.output, "6 2 none")


def test_queries_keep_the_settings_they_were_started_with(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = HEADER + (
        "def start(name, partitions):\n"
        "    spark.conf.set('spark.sql.shuffle.partitions', partitions)\n"
        "    counts = rows.groupBy('k').count()\n"
        "    writer = counts.writeStream.queryName(name).outputMode('complete').format('noop')\n"
        "    return writer.option('checkpointLocation', 'checkpoints/' + name).start()\n"
        "start('two', 2); start('three', 3)\n"
        "spark.conf.set('spark.sql.shuffle.partitions', 5)\n"
        "spark.streams.awaitAnyTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        assert rig.wait_for(Started).queries == 2
        for name, partitions in (("two", "2"), ("three", "3")):
            assert kept(rig, name)["spark.sql.shuffle.partitions"] == partitions


def test_queries_keep_the_local_properties_they_were_started_with(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    # two queries print at once, and print writes word by word
    script = HEADER + (
        "def told(name):\n"
        "    def batch(frame, number):\n"
        "        pool = frame.sparkSession.sparkContext.getLocalProperty('spark.scheduler.pool')\n"
        "        print(f'{name} in the {pool}\\n', end='', flush=True)\n"
        "    return batch\n"
        "for name in ('first', 'second'):\n"
        "    spark.sparkContext.setLocalProperty('spark.scheduler.pool', f'pool of {name}')\n"
        "    rows.writeStream.queryName(name).foreachBatch(told(name)).start()\n"
        "spark.sparkContext.setLocalProperty('spark.scheduler.pool', None)\n"
        "spark.streams.awaitAnyTermination()\n"
    )
    with Rig(tmp_path, script) as rig:
        rig.wait_for(RehearsalReport)
        rig.lead()
        rig.until(rig.output, "first in the pool of first")
        rig.until(rig.output, "second in the pool of second")
