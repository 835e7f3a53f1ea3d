"""What a replica says, and ends with, when the run it was started for has ended; and whether another one is under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from understudy.election.state import ElectionView
from understudy.errors import DocumentError, IdentityConflict, JobFailed
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.runs import SUPERSEDED, Over, PastRun, Runs
from understudy.supervisor.inputs import ConflictingRun, ConflictingWorkload
from understudy.supervisor.workload import find_conflicting_workload, seen_renewing


@dataclass(frozen=True, slots=True)
class End:
    status: str
    sentence: str
    exit_code: int


def end_of(job: Job, run: str) -> End:
    """The end of ``run``, in a sentence with its remedy. A job that has been resumed meanwhile is shown as it is, RUNNING."""
    match job.part_of(run):
        case Over(past) if past.run == job.runs.run:
            return End(
                past.status, f"job {job.job} is {past.status}: {job.reason}{_when(past)}. {_remedy(past)}", _code(past)
            )
        case Over(past):
            since = f"run {job.runs.run} has begun since" if job.runs.run else "another run has begun since"
            return End(
                past.status, f"run {past.run} of job {job.job} is {past.status}{_when(past)}; {since}", _code(past)
            )
        case _:
            return End(job.status.value, f"job {job.job} is {job.status}: {job.reason}", JobFailed.exit_code)


def _when(past: PastRun) -> str:
    facts = [f"run {past.run}"] if past.run else []
    if past.ended:
        facts.append(f"ended {in_utc(past.ended)}")
    return f" ({', '.join(facts)})" if facts else ""


def _remedy(past: PastRun) -> str:
    if past.status == Status.FAILED:
        return "Fix the cause, then understudy resume lets it run again"
    return "Nothing of it runs again; to begin a new run, start it with --run-id and a new id"


def _code(past: PastRun) -> int:
    if past.status == SUPERSEDED:
        return IdentityConflict.exit_code
    return 0 if past.status in {Status.FINISHED, Status.CANCELED} else JobFailed.exit_code


async def run_under_way(
    jobs: JobStore, run: str, view: Callable[[], ElectionView], holder: str, pause: float
) -> str | None:
    """The id of another run than ``run`` once its leader was seen to renew; ``None`` once there is no other run under way.

    Looks every ``pause`` seconds. While no leader lives this waits for the next one, which decides.
    """
    await seen_renewing(view, lambda now: now.leader != holder, pause)
    job = await jobs.read()
    return (job.other_run_than(run) or None) if job is not None else None


async def conflict_with(
    jobs: JobStore, run: str, view: Callable[[], ElectionView], workload: str, pause: float
) -> ConflictingWorkload | ConflictingRun:
    """Why a replica of ``workload`` may not stay: another workload's leader was seen to renew. Looks every ``pause`` seconds.

    Successive Jobs are told by their runs. A leader whose run has ended gives the lock back within moments, and is waited for.
    """
    while True:
        found = await find_conflicting_workload(view, workload, pause)
        job = None
        with suppress(DocumentError):  # then the workload alone says enough
            job = await jobs.read()
        if job is None or not job.status.terminal:
            other = "" if job is None else job.other_run_than(run)
            return ConflictingRun(other) if other else ConflictingWorkload(found)
        await asyncio.sleep(pause)


def run_begins(runs: Runs) -> str:
    last = runs.past[-1] if runs.past else None
    if last is None or last.status != SUPERSEDED:
        return f"run {runs.run} begins"
    return f"run {runs.run} begins; run {last.run} had not ended, and none of its replicas was left"


def in_utc(seconds: float) -> str:
    """``seconds`` since 1970, for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
