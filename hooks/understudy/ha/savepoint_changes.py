"""How a savepoint changes a job's document: functions from what stands there to what shall. ``JobStore.change`` writes it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from understudy.errors import RequestRefused
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.job import Job, Status
from understudy.ha.requests import Result
from understudy.ha.savepoints import Proof, Savepoint

Change = Callable[[Job], Job]


def _may_begin(job: Job, request: str) -> bool:
    return job.requests.is_under_way(request) and job.savepoints.of_request(request) is None


def begin(
    request: str, place: Callable[[int], str], now: float, found: Collection[Checkpoint], above: int = 0
) -> Change:
    """The boundary at which the job stands still gets its number, and a savepoint of that number has begun. Unchanged where ``request`` was
    withdrawn meanwhile, or has begun one already. Answered as failed where no number can be given.

    ``above``: the highest number of a savepoint in the HA storage. The document may know less: it was lost, or restored.
    """

    def begun(job: Job) -> Job:
        if not _may_begin(job, request):
            return job
        job = job.noted(found)
        counted = job.checkpoints.numbered(above)
        number = counted.counter
        if number is None or not job.savepoints.readable:
            what = "the job's counter" if number is None else "the list of its savepoints"
            answered = job.requests.answered(Result.FAILED, f"{what} cannot be read. The job runs on", now)
            return replace(job, requests=answered)
        one = Savepoint(number, place(number), now, Proof.BEGUN, request)
        return replace(job, checkpoints=counted, savepoints=job.savepoints.with_one(one))

    return begun


def complete(
    savepoint: Savepoint, text: str, now: float, *, suspend: bool, drain: Collection[str] | None = None
) -> Change:
    """``savepoint`` is complete, and its request is answered. Unchanged where that was withdrawn meanwhile. ``suspend``: the job is SUSPENDED in the
    same write, while it still stands at the savepoint's boundary. ``drain``: it is DRAINING in the same write, with these checkpoints, and the
    request is under way until it is FINISHED.
    """

    def completed(job: Job) -> Job:
        if not job.requests.is_under_way(savepoint.request):
            return job
        job = replace(job, savepoints=job.savepoints.with_one(savepoint))
        if drain is not None:
            return replace(job, status=Status.DRAINING, checkpoints=job.checkpoints.drain_begins(drain))
        status = Status.SUSPENDED if suspend else job.status
        requests = job.requests.answered(Result.DONE, text, now)
        return replace(job, status=status, requests=requests)

    return completed


def unnumbered(request: str, text: str, now: float) -> Change:
    """No savepoint has begun, for what ``text`` says. Unchanged where ``request`` was withdrawn meanwhile, or has begun one already."""

    def failed(job: Job) -> Job:
        if not _may_begin(job, request):
            return job
        return replace(job, requests=job.requests.answered(Result.FAILED, text, now))

    return failed


def fail(number: int, request: str, text: str, now: float) -> Change:
    """There is no savepoint ``number``, for what ``text`` says. Unchanged where the request was withdrawn meanwhile, or where it is complete: then it
    was written before, the answer to that was lost, and a drain goes on from there.
    """

    def failed(job: Job) -> Job:
        if not job.requests.is_under_way(request):
            return job
        savepoints = job.savepoints
        one = savepoints.numbered(number)
        if one is not None and one.complete:
            return job
        if one is not None:
            savepoints = savepoints.with_one(replace(one, state=Proof.FAILED))
        return replace(job, requests=job.requests.answered(Result.FAILED, text, now), savepoints=savepoints)

    return failed


def forget(number: int) -> Change:
    """Savepoint ``number`` is not known any more. Raises ``RequestRefused`` while it is being taken."""

    def forgotten(job: Job) -> Job:
        one = job.savepoints.numbered(number)
        if one is not None and one.state == Proof.BEGUN and job.requests.is_under_way(one.request):
            raise RequestRefused(
                f"savepoint {number} is being taken",
                where="dispose",
                remedy="Wait for its answer; understudy resume withdraws it",
            )
        return replace(job, savepoints=job.savepoints.without(number))

    return forgotten


def saved_before(job: Job) -> str:
    """What became of the savepoint that a drain under way was to take first, in words that follow others."""
    asked = job.requests.under_way
    if asked is None or not asked.savepoint:
        return ""
    if (one := job.savepoints.of_request(asked.id)) is None:
        return "; no savepoint was taken before, for the job has no HA storage"
    return f"; savepoint {one.number} was taken before: {one.state}, in {one.place}"
