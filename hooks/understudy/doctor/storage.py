"""HA storage: whether it answers, refuses what it must refuse, and says the same of the job as the documents do.

This is the one check that writes: the blob ``probe`` is created twice, as at each start of a replica, and stays. Whether a store honours conditions
cannot be found out otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.blobs.model import BlobStore
from understudy.blobs.probe import probe
from understudy.doctor.finding import Finding, note, of_error, ok, problem, warning
from understudy.errors import DocumentError, UnderstudyError
from understudy.ha.job import Job
from understudy.ha.results import JobResult, JobResultStore, result_of

CHECK = "ha-storage"


@dataclass(frozen=True, slots=True)
class Storage:
    """``absent``: a directory that is not there, and was not made. ``error``: why it cannot be used. ``results``: of the job; ``unread``: why
    those cannot be read.
    """

    place: str
    absent: bool = False
    error: UnderstudyError | None = None
    results: tuple[JobResult, ...] = ()
    unread: UnderstudyError | None = None


async def look(blobs: BlobStore, cluster: str, job: str) -> Storage:
    """Writes the probe; a directory that is not there is not made. Without a ``cluster`` and a ``job`` no results are read."""
    if isinstance(blobs, FilesystemBlobStore) and not blobs.directory.is_dir():
        return Storage(blobs.place, absent=True)
    try:
        await probe(blobs)
    except UnderstudyError as error:
        return Storage(blobs.place, error=error)
    if not (cluster and job):
        return Storage(blobs.place)
    try:
        return Storage(blobs.place, results=tuple(await JobResultStore(blobs, cluster, job).all()))
    except UnderstudyError as error:
        return Storage(blobs.place, unread=error)


def findings(storage: Storage, job: Job | None, cluster: str) -> list[Finding]:
    """``job`` as it was after the results were read: its document says first that a run has ended."""
    if storage.absent:
        text = f"{storage.place}: there is no such directory"
        return [
            warning(CHECK, text, "The first replica makes it; where replicas have run, they were given another place")
        ]
    if storage.error is not None:
        return [of_error(CHECK, storage.error)]
    answers = ok(CHECK, f"{storage.place}: it answers, and does not replace what was created")
    if storage.unread is not None:
        return [answers, of_error(CHECK, storage.unread)]
    return [answers, *([] if job is None else _results(storage, job, cluster))]


def _results(storage: Storage, job: Job, cluster: str) -> list[Finding]:
    runs = job.runs
    kept = next((each for each in storage.results if (each.run, each.first) == (runs.run, runs.first)), None)
    expected = result_of(job, cluster)
    name = f"run {runs.run}" if runs.run else "the last run"
    if kept is not None and expected is None:
        text = f"{storage.place}: {name} of job {job.job} is {kept.status}, and its document says {job.status}: that was restored from a copy"
        return [
            problem(
                CHECK, text, "Restore a newer copy of the document, or begin a new run with --run-id", DocumentError
            )
        ]
    if kept is None and expected is not None:
        text = f"{storage.place}: {name} of job {job.job} is {job.status}, and its result is not kept here"
        return [
            warning(
                CHECK, text, "Start a replica for this run with the same --ha-storage: it keeps the result, and ends"
            )
        ]
    return [] if kept is None else [ok(CHECK, f"{storage.place}: the result of {name} is kept")]


def not_given() -> Finding:
    return note(
        CHECK, "not looked at: no place was given", "Give --ha-storage and --conf as understudy run was given them"
    )
