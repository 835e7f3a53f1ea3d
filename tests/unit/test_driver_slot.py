"""A driver's start on a machine that has run out of something: it fails whole, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
from pathlib import Path

from understudy.config.timings import timings_from
from understudy.events import Log
from understudy.supervisor.backends import on_one_machine
from understudy.supervisor.deadline_guard import DeadlineGuard
from understudy.supervisor.driver_slot import DriverSlot
from understudy.supervisor.settings import RunSettings


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def left(slot: DriverSlot) -> list[Path]:
    places = slot.workspaces
    return [path for parent in (places.gates, places.scratch, places.temporary) for path in parent.glob("understudy-*")]


def test_a_start_that_fails_at_whatever_step_leaves_no_descriptor_and_no_directory(tmp_path: Path) -> None:
    """One descriptor more at each attempt, until it succeeds: so it fails at every step that takes one."""
    script = tmp_path / "job.py"
    script.write_text("")
    settings = RunSettings(script, (), (), "flights", "flights", tmp_path / "ha", timings_from("default", {}))

    async def run() -> int:
        services, host = on_one_machine(settings, Log())
        slot = DriverSlot(
            settings,
            host,
            Path("fence.jar"),
            DeadlineGuard(settings.timings),
            on_message=lambda *_: None,
            on_exit=lambda *_: None,
            follow=lambda _: None,
        )
        for name in ("gates", "scratch", "temporary"):
            setattr(slot.workspaces, name, tmp_path / name)
        await asyncio.to_thread(int)  # the loop's own threads are there
        gc.collect()  # and what tests of other files have left is gone
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before, failures = descriptors(), list[int | None]()
        for spare in range(40):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, hard))
            try:
                slot.start(low_priority=False)
            except OSError as error:
                failures.append(error.errno)  # the error would hold what its frames hold
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            if slot.process is not None:
                break
            assert descriptors() == before
            assert left(slot) == []
            if failures[-1] != errno.EMFILE:  # a shortage that others have made
                await asyncio.sleep(0.1)
        assert slot.process is not None, failures
        await slot.reap()
        await host.close()
        await services.close()
        return failures.count(errno.EMFILE)

    assert asyncio.run(run()) > 5
