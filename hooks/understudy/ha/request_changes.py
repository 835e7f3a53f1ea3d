"""How requests change a job's document: functions from what stands there to what shall. ``JobStore`` writes it.

None of them is a leader's. A job that is SUSPENDED, or that no replica has led, has no leader that could carry a request out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from understudy.errors import RequestRefused
from understudy.ha.job import Job, Status
from understudy.ha.requests import Action, Request, Result
from understudy.protocol.token import NONE

Change = Callable[[Job], Job]

_NEW_RUN = "Nothing of it runs again; a new run begins with understudy run --run-id and a new id"
_DRAINING = (
    "It ends by itself, once a leader has drained it; understudy cancel ends it at once, with rows that stay back"
)
#: What can be done with a job that takes up no such request, by its status.
REMEDIES = {
    Status.SUSPENDED: "understudy resume lets it go on, and understudy cancel ends it",
    Status.DRAINING: _DRAINING,
    Status.FAILED: "Fix the cause, then understudy resume lets it run again",
    Status.FINISHED: _NEW_RUN,
    Status.CANCELED: _NEW_RUN,
}

#: What a job that is DRAINING may still be asked: to end.
_WHILE_DRAINING = frozenset({Action.CANCEL, Action.DRAIN})


def ask(request: Request) -> Change:
    """``request`` is under way. To cancel a job overrides any other request; where no replica may lead the job, it is canceled in the same write.

    Raises ``RequestRefused``: another request is under way, or the job's status rules it out.
    """

    def asked(job: Job) -> Job:
        if job.requests.request is not None and job.requests.request.id == request.id:
            return job  # the answer to the first try was lost
        _refuse_by_status(job, request)
        if request.action == Action.CANCEL and (job.status is Status.SUSPENDED or job.token == NONE):
            return _canceled(job, request)
        _refuse_a_second(job, request)
        return replace(job, requests=replace(job.requests, request=_now(job, request)))

    return asked


def _refuse_by_status(job: Job, request: Request) -> None:
    suspended = job.status is Status.SUSPENDED and request.action != Action.CANCEL
    # What it has drained must not be gone on from, so nothing may bring it back to RUNNING or SUSPENDED.
    drains = job.status is Status.DRAINING and request.action not in _WHILE_DRAINING
    if job.status.terminal or suspended or drains:
        raise RequestRefused(f"job {job.job} is {job.status}", where=request.action, remedy=REMEDIES[job.status])


def _refuse_a_second(job: Job, request: Request) -> None:
    under_way = job.requests.under_way
    if under_way is None or (request.action == Action.CANCEL and under_way.action != Action.CANCEL):
        return
    if under_way.action == Action.CANCEL:
        remedy = "Wait for its answer: the leader ends the job, or else the next leader does"
    elif job.status is Status.DRAINING:
        remedy = "Wait for its answer; understudy cancel overrides it"
    else:
        remedy = "Wait for its answer; understudy cancel overrides it, and understudy resume withdraws it"
    raise RequestRefused(
        f"another request is under way: {under_way.action or 'one that cannot be read'} ({under_way.id})",
        where=request.action,
        remedy=remedy,
    )


def _now(job: Job, request: Request) -> Request:
    """No savepoint is taken of a job that is DRAINING already, and the answer does not say that there is no place for it."""
    return replace(request, savepoint=False) if job.status is Status.DRAINING else request


def _canceled(job: Job, request: Request) -> Job:
    answered = replace(job.requests, request=request).answered(Result.DONE, f"the job is {Status.CANCELED}", request.at)
    meanwhile = "before any replica had led it" if job.token == NONE else "while it was suspended"
    ended = replace(job.runs, ended=request.at)
    return replace(
        job,
        status=Status.CANCELED,
        reason=f"canceled by {request.by}, {meanwhile}",
        runs=ended,
        requests=answered,
        checkpoints=job.checkpoints.drain_ends(),
    )


def begin_suspended(job: Job) -> Job:
    """SUSPENDED, where no replica has led it. One to cancel it that an earlier release has left there is the next leader's to carry out."""
    return replace(job, status=Status.SUSPENDED) if job.never_led and not job.requests.cancels else job


def resume(accepted: Collection[str], now: float, *, only_suspensions: bool) -> Change:
    """As ``JobStore.resume`` says."""

    def running(job: Job) -> Job:
        claimed = job.claimed.without(accepted)
        left = job.checkpoints.without(accepted)
        kept = replace(job, claimed=claimed, roots=claimed.all, checkpoints=left) if accepted else job
        if job.status is not Status.DRAINING:
            kept = replace(kept, requests=job.requests.withdrawn(now, only_suspensions=only_suspensions))
        if job.status not in {Status.FAILED, Status.SUSPENDED}:
            return kept
        # Earlier releases could suspend a job that was DRAINING: its checkpoints are no less drained for that.
        status = Status.DRAINING if job.checkpoints.draining else Status.RUNNING
        return replace(kept, status=status, failures=(), runs=replace(job.runs, ended=0.0))

    return running
