"""A driver's start on a machine that has run out of something: it fails whole, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path

from understudy.config.timings import timings_from
from understudy.events import Log
from understudy.protocol.token import NONE
from understudy.supervisor.places import here
from understudy.supervisor.seat import Seat, Term
from understudy.supervisor.settings import RunSettings


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def left(seat: Seat) -> list[Path]:
    places = seat.workspaces
    return [path for parent in (places.gates, places.scratch, places.temporary) for path in parent.glob("understudy-*")]


def test_a_start_that_fails_at_whatever_step_leaves_no_descriptor_and_no_directory(tmp_path: Path) -> None:
    """One descriptor more at each attempt, until it succeeds: so it fails at every step that takes one."""
    script = tmp_path / "job.py"
    script.write_text("")
    settings = RunSettings(script, (), (), "flights", "flights", tmp_path / "ha", timings_from("default", {}))

    async def run() -> int:
        place = here(settings, Log())
        seat = Seat(settings, place, Path("fence.jar"), Term(NONE), lambda *_: None, lambda *_: None, lambda _: None)
        for name in ("gates", "scratch", "temporary"):
            setattr(seat.workspaces, name, tmp_path / name)
        await asyncio.to_thread(int)  # the loop's own threads are there
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before, failed = descriptors(), 0
        for spare in range(40):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, hard))
            try:
                seat.start(idle=False)
            except OSError:
                failed += 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            if seat.driver is not None:
                break
            assert descriptors() == before
            assert left(seat) == []
        assert seat.driver is not None
        await seat.clear()
        await place.close()
        return failed

    assert asyncio.run(run()) > 5
