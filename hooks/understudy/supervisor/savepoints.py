"""What a savepoint leaves in documents and HA storage: its number, its manifest, its answer. The driver copies the files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from understudy.blobs.local import local_directory
from understudy.blobs.model import BlobStore
from understudy.errors import DocumentTooLarge, UnderstudyError
from understudy.ha import savepoint_changes
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.savepoints import MANIFEST, Manifest, Savepoint, below, directory_of, number_in, savepoints_of
from understudy.protocol.messages import Saved
from understudy.supervisor.inputs import BoundaryRecorded, DrainingRecorded, SavepointRecorded, SuspensionRecorded
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.settings import RunSettings

_WITHDRAWN = "the job runs on"

Recorded = SavepointRecorded | SuspensionRecorded | DrainingRecorded


def storage_url(ha_storage: str) -> str:
    """What ``--ha-storage`` names, as Hadoop's file systems call it."""
    if (directory := local_directory(ha_storage)) is not None:
        return f"file://{directory}"
    return f"s3a://{ha_storage.partition('://')[2].rstrip('/')}"


@dataclass(frozen=True, slots=True)
class Savepoints:
    settings: RunSettings
    jobs: JobStore
    blobs: BlobStore | None

    async def begin(self, command: RecordBoundary, now: float, found: Collection[Checkpoint]) -> BoundaryRecorded:
        """Raises ``DocumentError`` and ``LeadershipLost``."""
        highest, problem = await self._highest_number()
        if problem:
            text = f"HA storage does not say which savepoints it has: {problem}. The job runs on"
            change = savepoint_changes.unnumbered(command.request, text, now)
        else:
            request = command.request
            change = savepoint_changes.begin(request, lambda number: self._place(number, request), now, found, highest)
        job = await self.jobs.change(command.token, change)
        if job.requests.is_under_way(command.request):
            one = job.savepoints.of_request(command.request)
            assert one is not None, "it has begun"
            return BoundaryRecorded(one.number, one.place)
        answer = job.requests.answer
        ours = answer is not None and answer.request == command.request
        return BoundaryRecorded(None, reason=answer.text if ours and answer is not None else _WITHDRAWN)

    async def record(self, command: RecordSavepoint, now: float) -> Recorded:
        """Raises ``DocumentError`` and ``LeadershipLost``; taken twice, it does the same."""
        saved = command.saved
        job = await self.jobs.read()
        one = None if job is None else job.savepoints.numbered(saved.number)
        problem = saved.problem
        # of a request that was withdrawn, or answered, nothing is written any more
        if job is not None and one is not None and not problem and job.requests.is_under_way(saved.request):
            problem = await self._create_manifest(one, saved)
        if one is None or problem:
            return await self._fail(command, problem or "it is not known any more", now)
        complete = _completed(one, self._manifest(one, saved))
        text = _told(complete, saved, suspend=command.suspend)
        change = savepoint_changes.complete(complete, text, now, suspend=command.suspend, drain=command.drain)
        try:
            return self._outcome(command, await self.jobs.change(command.token, change))
        except DocumentTooLarge as error:
            return await self._fail(command, str(error), now)

    async def _fail(self, command: RecordSavepoint, problem: str, now: float) -> Recorded:
        saved = command.saved
        text = f"there is no savepoint {saved.number}: {problem}. The job runs on"
        change = savepoint_changes.fail(saved.number, saved.request, text, now)
        return self._outcome(command, await self.jobs.change(command.token, change))

    async def _highest_number(self) -> tuple[int, str]:
        """Of the savepoints that are there, 0 for none; and why that cannot be told, else empty. Batches are held meanwhile, so it is asked once."""
        if self.blobs is None:
            return 0, ""
        try:
            there = await self.blobs.directories(savepoints_of(self.settings.cluster, self.settings.job))
        except UnderstudyError as error:
            return 0, str(error)
        return max((number_in(each) or 0 for each in there), default=0), ""

    async def _create_manifest(self, one: Savepoint, saved: Saved) -> str:
        """Why it does not stand, or is not known to; empty if it does."""
        assert self.blobs is not None, "there is a place for savepoints"
        name = f"{below(self.settings.cluster, self.settings.job, one.directory)}/{MANIFEST}"
        ours = self._manifest(one, saved).encode()
        try:
            stands = await self.blobs.create(name, ours)
        except UnderstudyError as error:  # the client has tried again by itself, and the job may be held meanwhile
            return str(error)
        return "" if stands == ours else f"{self.blobs.place}/{name} is of another savepoint"

    def _manifest(self, one: Savepoint, saved: Saved) -> Manifest:
        return Manifest(self.settings.cluster, self.settings.job, one.number, one.at, saved.spark, saved.queries)

    def _place(self, number: int, request: str) -> str:
        where = below(self.settings.cluster, self.settings.job, directory_of(number, request))
        return f"{storage_url(self.settings.storage.ha_storage)}/{where}"

    @staticmethod
    def _outcome(command: RecordSavepoint, job: Job) -> Recorded:
        if command.drain is not None:
            return DrainingRecorded(job.status, job.draining or ())
        if command.suspend:
            return SuspensionRecorded(job.status, job.warm)
        answer = job.requests.answer
        ours = answer is not None and answer.request == command.saved.request
        return SavepointRecorded(answer.text if ours and answer is not None else _WITHDRAWN, job.status)


def _completed(one: Savepoint, manifest: Manifest) -> Savepoint:
    batches = {each.directory: each.batch for each in manifest.queries}
    return replace(one, state=manifest.proof, batches=batches)


def _told(one: Savepoint, saved: Saved, *, suspend: bool) -> str:
    files, size = sum(each.files for each in saved.queries), sum(each.bytes for each in saved.queries)
    within = sum(each.within for each in saved.queries)
    how = f", {within} of them copied within the store" if within else ""
    what = f"savepoint {one.number} is {one.state}: {len(saved.queries)} queries, {files} files{how}, {size} bytes in {one.place}"
    if suspend:
        return f"the job is SUSPENDED; {what}; copied in {saved.copied:.2f} s"
    return f"{what}; batches were held for {saved.held:.2f} s, {saved.copied:.2f} s of them for the copies"
