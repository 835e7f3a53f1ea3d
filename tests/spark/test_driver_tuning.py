"""What a checkpoint keeps for ever: chosen by ``--tune`` where the user has not, and warned about where neither has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import Advice, Ended

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SHUFFLE = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

#: What the rig gives with ``--conf`` is taken back, so that nothing is chosen.
UNSET = f"spark.conf.unset({SHUFFLE!r})\n"
QUERIES = (
    "def run(name, frame, mode):\n"
    "    query = frame.writeStream.queryName(name).outputMode(mode).format('noop')"
    ".option('checkpointLocation', 'checkpoints/' + name).start()\n"
    "    query.processAllAvailable()\n"
    "    query.stop()\n"
    "run('counted', rows.groupBy('k').count(), 'update')\n"
    "run('stateless', rows.where('v > 1'), 'append')\n"
)


def run(home: Path, script: str, *, tune: bool, epoch: int = 1) -> list[str]:
    """The advice given on the way to the script's end."""
    with Rig(home, script, tune=tune) as rig:
        rig.lead(epoch=epoch)
        assert rig.wait_for(Ended) == Ended(0, "", asked=True)
        return [each.text for each in rig.said if isinstance(each, Advice)]


def kept(home: Path, query: str, batch: int = 0) -> dict[str, str]:
    lines = (home / "checkpoints" / query / "offsets" / str(batch)).read_text().splitlines()
    found: dict[str, str] = json.loads(lines[1])["conf"]
    return {key: found[key] for key in (SHUFFLE, PROVIDER)}


def test_a_new_checkpoint_is_tuned_and_what_the_user_has_set_stays(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    stock = ROCKSDB.replace("RocksDB", "HDFSBacked")
    advice = run(tmp_path, HEADER + f"spark.conf.set({PROVIDER!r}, {stock!r})\n" + QUERIES, tune=True)
    assert kept(tmp_path, "counted") == {
        SHUFFLE: "2",
        PROVIDER: stock,
    }  # the rig gives --conf spark.sql.shuffle.partitions=2
    assert advice == []


def test_a_checkpoint_that_has_begun_keeps_what_it_has_with_and_without_the_option(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    assert run(tmp_path, HEADER + UNSET + QUERIES, tune=True) == []
    assert kept(tmp_path, "counted") == {SHUFFLE: "8", PROVIDER: ROCKSDB}
    for epoch in (2, 3):
        feed(tmp_path, epoch)
        assert run(tmp_path, HEADER + UNSET + QUERIES, tune=epoch == 3, epoch=epoch) == []
        assert kept(tmp_path, "counted", epoch - 1) == kept(tmp_path, "counted")


def test_a_query_with_state_is_warned_of_what_it_begins_with(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    (advice,) = run(tmp_path, HEADER + UNSET + QUERIES, tune=False)
    assert "query counted begins a checkpoint" in advice
    assert PROVIDER in advice
    assert f"200 shuffle partitions ({SHUFFLE})" in advice
    assert "--tune" in advice
