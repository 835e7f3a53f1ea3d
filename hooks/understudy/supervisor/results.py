"""Brings the result of an ended run into HA storage, and an ended job back from there where its documents are lost.

A replica that does it need not lead: what is written is made of the job's document, and each step may be taken twice.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from understudy.errors import DocumentEmptied, DocumentError, DocumentUnreadable
from understudy.events import Log
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.results import JobResult, JobResultStore, as_job, result_of
from understudy.ha.runs import Begins, UnderWay
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.token import NONE
from understudy.supervisor.settings import RunSettings

#: Seconds between two tries: the first time, and at most.
_FIRST, _LONGEST = 1.0, 3600.0


@dataclass(slots=True)
class Results:
    settings: RunSettings
    store: JobResultStore
    jobs: JobStore
    replicas: ReplicaStore
    log: Log

    async def recall(self) -> str:
        """Before anything of the run begins: how it has ended, in a sentence, where the documents do not say so; else empty.

        A job whose record is gone has it again, unless a later run may have been there: nothing is known of that one, and a missing record
        stays an error. Raises ``DocumentError``.
        """
        run, job = self.settings.run_id, await self.jobs.read()
        if job is not None and job.token != NONE:
            forgotten = bool(run) and isinstance(job.part_of(run), Begins | UnderWay)
            result = await self.store.read(run) if forgotten else None
            return self._over(result, "another run has begun since") if result is not None else ""
        results = await self.store.all()
        if await self.replicas.begun():
            ours = [each for each in results if run and each.run == run]
            return self._over(ours[-1], "the job's record is gone") if ours else ""
        if results:
            job = await self.jobs.recall(as_job(results))
            self.log.say("recalled", f"the job's record was gone; its result in {self.store.place} says {job.status}")
        return ""

    def _over(self, result: JobResult, but: str) -> str:
        sentence = f"run {result.run} of job {result.job} is {result.status}; {but}"
        self.log.say("job-ended", sentence, status=result.status)
        return sentence

    async def before_another_run(self) -> None:
        """The result of the last run is where it belongs before the document tells of the next. Raises ``DocumentError``."""
        if not self.settings.run_id:
            return  # then there is no next one
        job = await self.jobs.read()
        if job is not None and isinstance(job.part_of(self.settings.run_id), Begins):
            await self._settle(job)

    async def settle(self, job: Job, told_to_stop: asyncio.Event) -> None:
        """Until the result of ``job`` is where it belongs, or this replica is told to stop: then the next one that is started does it."""
        delay, said = _FIRST, ""
        while True:
            try:
                await self._settle(job)
            except (DocumentUnreadable, DocumentEmptied) as error:  # no other try will read it
                self.log.say("result-not-recorded", str(error))
                return
            except DocumentError as error:
                if str(error) != said:
                    said = str(error)
                    self.log.say("result-not-recorded", f"{said}. It is tried again")
            else:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(told_to_stop.wait(), delay)
            if told_to_stop.is_set():
                return
            delay = min(2 * delay, _LONGEST)

    async def _settle(self, job: Job) -> None:
        """Raises ``DocumentError``."""
        if (result := result_of(job, self.settings.cluster)) is None:
            return  # it has FAILED, and may be resumed
        standing = await self.store.begin(result)
        await self.store.commit(standing)
        self.log.say("result-recorded", f"the result is in {self.store.place}", status=standing.status)


def results_of(
    services: HighAvailabilityServices, settings: RunSettings, jobs: JobStore, replicas: ReplicaStore, log: Log
) -> Results | None:
    """``None`` without HA storage."""
    if services.blobs is None:
        return None
    store = JobResultStore(services.blobs, settings.cluster, settings.job)
    return Results(settings, store, jobs, replicas, log)
