"""Brings the result of an ended run into HA storage, removes what the run leaves, and brings an ended job back where its documents are lost.

A replica that does it need not lead: what is written is made of the job's document, and each step may be taken twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from understudy.errors import DocumentEmptied, DocumentError, DocumentUnreadable
from understudy.events import Log
from understudy.ha.cleanup import Cleanup
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.results import JobResult, JobResultStore, as_job, result_of
from understudy.ha.runs import Begins, UnderWay
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.token import NONE, Token
from understudy.supervisor.hosts import Host
from understudy.supervisor.root_tasks import RootTasks
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workload import AfterExit

#: Seconds between two tries: the first time, and at most.
_FIRST, _LONGEST = 1.0, 3600.0
#: Seconds of the last pause between two tries to remove something, where a replica ends.
_PATIENCE = 30.0
#: Seconds between two looks at whether this replica leads, and until its leader tidies once more.
_LOOK, _TIDY_AGAIN = 60.0, 3600.0


@dataclass(slots=True)
class Results:
    """``stays``: this replica goes on for as long as something is left to do; else it tries for a minute to remove what is left."""

    settings: RunSettings
    store: JobResultStore
    jobs: JobStore
    replicas: ReplicaStore
    cleanup: Cleanup
    holder: str
    stays: bool
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
        """The result of the last run is where it belongs before the document tells of the next. Raises ``DocumentError``.

        What that run has left, and cannot be removed now, is left to the next time: it keeps no run from beginning.
        """
        if not self.settings.run_id:
            return  # then there is no next one
        job = await self.jobs.read()
        if job is None or not isinstance(job.part_of(self.settings.run_id), Begins):
            return
        if (result := result_of(job, self.settings.cluster)) is not None:
            standing = await self.store.begin(result)
            await self._tidied(job)
            await self._commit(standing)

    async def settle(self, job: Job, told_to_stop: asyncio.Event) -> None:
        """Until the result of ``job`` is where it belongs and nothing is left to remove, or this replica is told to stop: then the next one
        that is started does it. A job that has FAILED has no result, for it may be resumed. This replica has no driver any more.
        """
        if (result := result_of(job, self.settings.cluster)) is None:
            return None
        standing: JobResult | None = None
        delay, said = _FIRST, ""
        while True:
            try:
                standing = standing or await self.store.begin(result)
                # guard: ended-run-leaves-nothing
                await self._clean_up(self.holder, job)
                # guard: ended-run-has-a-result
                return await self._commit(standing)
            except (DocumentUnreadable, DocumentEmptied) as error:  # no other try will read it
                return self.log.say("result-not-recorded", str(error))
            except DocumentError as error:
                what = "result-not-recorded" if standing is None else "not-tidied"
                if standing is not None and delay > _PATIENCE and not self.stays:
                    return self.log.say(
                        what, f"{error}. The result stays dirty: understudy gc, or the next replica, goes on"
                    )
                if str(error) != said:
                    said = str(error)
                    self.log.say(what, f"{said}. It is tried again")
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await told_to_stop.wait()
            if told_to_stop.is_set():
                return None
            delay = min(2 * delay, _LONGEST)

    async def _commit(self, standing: JobResult) -> None:
        await self.store.commit(standing)
        kept = "was deleted, as it was asked for" if self.store.delete_on_commit else "is kept"
        self.log.say("result-recorded", f"the result {kept}: {self.store.place}", status=standing.status)

    def watch(self, tasks: RootTasks, leads: Callable[[], Token | None]) -> None:
        """Tidy scratch that others than this machine have, under the token that ``leads`` gives while this replica leads."""
        if self.cleanup.scratch is not None:
            tasks.watch("the removal of scratch", lambda: self._tidy(leads))

    async def _tidy(self, leads: Callable[[], Token | None]) -> None:
        """Remove what dead replicas have left in scratch, soon after this one has begun to lead and then now and again."""
        tidied, at = None, 0.0
        while True:
            await asyncio.sleep(_LOOK)
            at += _LOOK
            token = leads()
            if token is None or (token == tidied and at < _TIDY_AGAIN):
                continue
            tidied, at = token, 0.0
            await self._tidied()

    async def _tidied(self, job: Job | None = None) -> None:
        try:
            await self._clean_up(job=job)
        except DocumentError as error:
            self.log.say("not-tidied", f"{error}. It is tried again later")

    async def _clean_up(self, own: str = "", job: Job | None = None) -> None:
        """``own``: this replica, where it has no driver any more. ``job``: whose run has ended. Raises ``DocumentError``."""
        for each in await self.cleanup.find(own, job):
            await self.cleanup.remove(each)
            self.log.say("removed", f"{each.name} in {each.place}: {each.why}")


def results_of(
    services: HighAvailabilityServices,
    settings: RunSettings,
    jobs: JobStore,
    replicas: ReplicaStore,
    host: Host,
    log: Log,
) -> Results | None:
    """``None`` without HA storage."""
    if services.blobs is None:
        return None
    deletes = settings.storage.delete_result_on_commit
    store = JobResultStore(services.blobs, settings.cluster, settings.job, delete_on_commit=deletes)
    cleanup = Cleanup(settings.cluster, store, replicas, services.scratch)
    return Results(settings, store, jobs, replicas, cleanup, host.holder, host.after_exit is AfterExit.RESTART, log)
