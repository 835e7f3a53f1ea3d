"""A standby whose leader is about to go leaves the machine to the takeover: a real driver process, led by hand."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from queue import Empty

import pytest

from tests.spark.rig import Rig
from tests.spark.test_driver_standby import HEADER, feed
from understudy.protocol.messages import Committed, PauseRehearsals, RehearsalReport


def test_a_round_that_is_under_way_is_broken_off_and_counts_for_nothing(tmp_path: Path) -> None:
    """The first row that is looked at takes ten minutes."""
    feed(tmp_path, 1)
    script = HEADER + (
        "here = str(Path.cwd())\n"
        "@F.udf('int')\n"
        "def look(v):\n"
        "    if not Path(here, 'looked').exists():\n"
        "        Path(here, 'looked').touch()\n"
        "        time.sleep(600)\n"
        "    return v\n"
        "rows.select(look('v')).writeStream.queryName('it').format('noop').option('checkpointLocation', 'it').start().awaitTermination()\n"
    )
    with Rig(tmp_path, script, rehearse="live") as rig:
        rig.until(tmp_path / "looked", "")
        rig.say(PauseRehearsals(1.0))
        standing = rig.wait_for(RehearsalReport)
        assert (standing.rounds, standing.rehearsed, standing.reason) == (1, True, "")
        rig.lead()
        rig.wait_for(Committed)


def test_no_round_begins_before_the_rest_is_over_and_a_grant_does_not_wait_for_its_end(tmp_path: Path) -> None:
    feed(tmp_path, 1)
    script = (
        HEADER
        + "rows.writeStream.queryName('it').format('noop').option('checkpointLocation', 'it').start().awaitTermination()\n"
    )
    with Rig(tmp_path, script, rehearse="live", rounds=1, every=0.1) as rig:
        rig.wait_for(RehearsalReport)
        rig.say(PauseRehearsals(3600.0))
        give_up = time.monotonic() + 60
        with suppress(Empty):  # of those that were over before: they wait here, or are on their way
            while time.monotonic() < give_up:
                rig.wait_for(RehearsalReport, timeout=3)
        with pytest.raises(Empty):
            rig.wait_for(RehearsalReport, timeout=5)
        rig.lead()
        rig.wait_for(Committed)
