"""The tasks of a replica that look at something again and again, and put what they find into the supervisor's inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from understudy.election.elector import Elector
from understudy.election.records import GRANT
from understudy.errors import DocumentError
from understudy.events import Log
from understudy.ha.job import Job, Status
from understudy.ha.moved import refuse_left_lock
from understudy.ha.ownership import refuse_foreign
from understudy.ha.services import HighAvailabilityServices
from understudy.supervisor import fence_logs
from understudy.supervisor.command_executor import CommandExecutor
from understudy.supervisor.commands import StartStandby
from understudy.supervisor.ended import conflict_with, run_under_way
from understudy.supervisor.health import Health
from understudy.supervisor.hosts import Host
from understudy.supervisor.inputs import ConflictingRun, Event, JobChanged, StandbyStale
from understudy.supervisor.root_tasks import RootTasks
from understudy.supervisor.settings import RunSettings

#: Seconds between two looks at the job's document where no watch says that it has changed.
_LOOK_AT_JOB = 15.0
#: Seconds until a watch that has ended is begun again.
_WATCH_AGAIN = 1.0
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
    _hinted: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        self.tasks.watch("the sweep", self._sweep)
        self.tasks.watch("the report of health", self._report_health)
        self.tasks.watch("the look for another workload", self._look_for_conflicting_workload)
        self.tasks.watch("the look after a standby's age", self._look_after_age)
        self.tasks.watch("the hints of the job's document", self._listen_to_job)
        self.tasks.watch("the look at the job's document", self._look_at_job)

    def look_at_job(self) -> None:
        """Something has shown that the job may have changed."""
        self._hinted.set()

    def look_for_another_run(self) -> None:
        """Stand by only once no leader of another run lives; until then a driver would rehearse what is not ours."""
        self.tasks.watch("the look for another run", self._look_for_another_run)

    async def refuse_foreign_lock(self) -> None:
        """A lock that cannot be read, or not now, is the elector's affair; and a store that hangs keeps no replica from starting."""
        with suppress(DocumentError, TimeoutError):
            async with asyncio.timeout(self.settings.timings.request):
                standing = await self.services.lock.read(self.settings.names.lock)
            refuse_foreign(standing, GRANT)
            refuse_left_lock(standing, self.settings.names.lock)

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
        settings, jobs = self.settings, self.executor.jobs
        if workload := self.host.workload:
            pause = settings.timings.retry
            self.post(await conflict_with(jobs, settings.run_id, lambda: self.elector.view, workload, pause))

    async def _look_for_another_run(self) -> None:
        settings, jobs = self.settings, self.executor.jobs
        found = await run_under_way(
            jobs, settings.run_id, lambda: self.elector.view, self.host.holder, settings.timings.retry
        )
        if found is not None:
            self.post(ConflictingRun(found))
        elif self.executor.slot.process is None:
            await self.executor.execute(StartStandby())

    async def _listen_to_job(self) -> None:
        """A watch that ends is begun again, one that breaks after a pause. What it misses meanwhile is found by the next look."""
        pause = _WATCH_AGAIN
        while True:
            try:
                async for _ in self.services.documents.watch(self.settings.names.job_document):
                    self._hinted.set()
                    pause = _WATCH_AGAIN
            except DocumentError as error:
                if pause == _WATCH_AGAIN:
                    self.log.say("watch-broken", f"no hints of requests for now, only looks: {error}")
                pause = min(2 * pause, _LOOK_AT_JOB)
            await asyncio.sleep(pause)

    async def _look_at_job(self) -> None:
        """Tell what stands in the job's document, at every look: the same may mean something else by now."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AT_JOB):
                    await self._hinted.wait()
            self._hinted.clear()
            with suppress(DocumentError):  # the elector tells of a server that does not answer
                if (job := await self.executor.jobs.read()) is not None:
                    self.health.suspended = job.status is Status.SUSPENDED
                    self.health.paused = job.requests.paused is not None
                    self.post(job_changed(job, self.settings.run_id))

    async def _look_after_age(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AFTER_AGE)
            number = self.executor.driver  # the one that is asked about: it may be another by the time of the answer
            due = await self.executor.schedule.reload_due()
            if number is not None and due is not None:
                self.post(StandbyStale(number, due))


def job_changed(job: Job, run: str) -> JobChanged:
    """What a look at ``job`` tells a replica that was started for ``run``."""
    return JobChanged(job.status, job.requests.under_way, job.warm, job.token, job.other_run_than(run))
