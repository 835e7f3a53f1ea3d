"""The tasks of a replica that look at something again and again, and put what they find into the supervisor's inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from understudy.election.elector import Elector
from understudy.election.records import GRANT
from understudy.errors import DocumentError
from understudy.events import Log
from understudy.ha.ownership import refuse_foreign
from understudy.ha.services import HighAvailabilityServices
from understudy.supervisor import fence_logs
from understudy.supervisor.command_executor import CommandExecutor
from understudy.supervisor.commands import StartStandby
from understudy.supervisor.ended import run_under_way
from understudy.supervisor.health import Health
from understudy.supervisor.hosts import Host
from understudy.supervisor.inputs import ConflictingRun, ConflictingWorkload, Event, StandbyStale
from understudy.supervisor.root_tasks import RootTasks
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workload import find_conflicting_workload

#: Seconds between two looks at whether a standby has become too old.
_LOOK_AFTER_AGE = 5.0


@dataclass(frozen=True, slots=True)
class Watchers:
    settings: RunSettings
    services: HighAvailabilityServices
    host: Host
    elector: Elector
    executor: CommandExecutor
    health: Health
    tasks: RootTasks
    log: Log
    post: Callable[[Event], None]

    def start(self) -> None:
        self.tasks.watch("the sweep", self._sweep)
        self.tasks.watch("the report of health", self._report_health)
        self.tasks.watch("the look for another workload", self._look_for_conflicting_workload)
        self.tasks.watch("the look after a standby's age", self._look_after_age)

    def look_for_another_run(self) -> None:
        """Stand by only once no leader of another run lives; until then a driver would rehearse what is not ours."""
        self.tasks.watch("the look for another run", self._look_for_another_run)

    async def refuse_foreign_lock(self) -> None:
        """A lock that cannot be read, or not now, is the elector's affair; and a store that hangs keeps no replica from starting."""
        with suppress(DocumentError, TimeoutError):
            async with asyncio.timeout(self.settings.timings.request):
                standing = await self.services.lock.read(self.settings.names.lock)
            refuse_foreign(standing, GRANT)

    async def _sweep(self) -> None:
        """Remove what processes that are gone have left on this machine."""
        await asyncio.to_thread(self.executor.slot.workspaces.sweep)
        await asyncio.to_thread(fence_logs.prune, self.settings.home, self.host.holder)

    async def _report_health(self) -> None:
        """Tell of writes that the fence refused."""
        fence = self.health.fence
        while True:
            known = fence.refused
            fence.look()
            if fence.refused > known:
                told = (
                    f"the fence refused {fence.refused - known} writes of this replica's driver, which changed nothing"
                )
                self.log.say("stale-write-refused", told, refused=fence.refused)
            await asyncio.sleep(self.settings.timings.retry / 2)

    async def _look_for_conflicting_workload(self) -> None:
        if workload := self.host.workload:
            pause = self.settings.timings.retry
            found = await find_conflicting_workload(lambda: self.elector.view, workload, pause)
            self.post(ConflictingWorkload(found))

    async def _look_for_another_run(self) -> None:
        settings, jobs = self.settings, self.executor.jobs
        found = await run_under_way(
            jobs, settings.run_id, lambda: self.elector.view, self.host.holder, settings.timings.retry
        )
        if found is not None:
            self.post(ConflictingRun(found))
        elif self.executor.slot.process is None:
            await self.executor.execute(StartStandby())

    async def _look_after_age(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AFTER_AGE)
            number = self.executor.driver  # the one that is asked about: it may be another by the time of the answer
            due = await self.executor.schedule.reload_due()
            if number is not None and due is not None:
                self.post(StandbyStale(number, due))
