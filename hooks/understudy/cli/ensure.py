"""``understudy ensure``: bring a job to the state that is declared for it, as a repository or the bundle's key ``state`` says it."""

from __future__ import annotations

import enum
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import JobOf, begun, check_timeout, tell_done
from understudy.cli.requests import Wish, ask, check_answer, wait_for
from understudy.cli.resume import Wished, let_go_on
from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, JobId, Namespace, Stores, Where
from understudy.errors import RequestFailed, RequestRefused

if TYPE_CHECKING:
    from understudy.ha.job import Job
    from understudy.ha.requests import Answer


class Declared(enum.StrEnum):
    RUNNING = "running"
    SUSPENDED = "suspended"


def ensure(
    state: Annotated[Declared, typer.Argument(help="What the job shall be.")],
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    job_id: JobId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds for the batch under way, or for queries to run again.")
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Bring a job to the state that is declared for it, and wait until it is there. Harmless where it is there already.

    suspended: as understudy suspend. A job that has never run is recorded as SUSPENDED, so that its replicas stay idle once they start (on one
    machine --ha-dir has to be there: a replica makes it; with --ha zookeeper or s3, give --cluster-id and --job-id). A job that has FAILED is left
    alone: nothing of it runs.

    running: as understudy resume --wait, for a job that is SUSPENDED or has FAILED, or that is being suspended. Any other request under way stays.

    A job that is DRAINING, has FINISHED or was CANCELED ends, or has ended, for good. It is left alone, and that is no error.

    Exit codes: as those of understudy suspend and understudy resume; 0 the job is in that state, or is left alone, as the line that is printed
    says.
    """
    import asyncio

    check_timeout(timeout)
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    job, said = asyncio.run(_ensure(where, job_id, state, timeout))
    tell_done(job, "ensure", said, as_json=as_json)


async def _ensure(where: Where, job_id: str, state: Declared, timeout: float) -> tuple[str, str]:
    """Which job it is, in words, and what has come of it."""
    from understudy.protocol.token import NONE

    async with _opened(where, job_id) as stores:
        job_of = await JobOf.bound(stores, job_id)
        job = job_of.known
        led = job.token != NONE if job is not None else await begun(stores, job_of.replicas)
        if job is not None and _ends(job):
            return job_of.here, f"is {job.status}, and stays so"
        if state is Declared.RUNNING:
            if not led and (job is None or job.status.value != "SUSPENDED"):
                return job_of.here, "has not begun; its replicas begin it as soon as one of them leads"
            return await let_go_on(job_of, Wished(within=timeout, only_suspensions=True))
        if not led:
            job = await job_of.jobs.begin_suspended()
            if job.token == NONE and not job.never_led:
                return job_of.here, f"is {job.status}; it has not begun"
        try:
            return job_of.here, await _suspended(job_of, job, timeout)
        except (RequestRefused, RequestFailed):
            job = await job_of.jobs.read()
            if job is None or not _stands_still(job):
                raise
            return job_of.here, f"is {job.status}, and stays so"  # since it was asked


def _opened(where: Where, job_id: str) -> AbstractAsyncContextManager[Stores]:
    """A server elsewhere knows nothing of a cluster before its first replica or its first declaration: with both ids it may be new there."""
    elsewhere = not (where.in_kubernetes or where.on_this_machine)
    return where.open_new() if elsewhere and where.cluster_id and job_id else where.open()


def _ends(job: Job) -> bool:
    """Whether it ends for good, or has. One that has FAILED may run again."""
    return job.status.value in {"DRAINING", "FINISHED", "CANCELED"}


def _stands_still(job: Job) -> bool:
    return job.status.value in {"SUSPENDED", "FAILED"} or _ends(job)


async def _suspended(job_of: JobOf, job: Job | None, timeout: float) -> str:
    """Raises as ``ask`` does."""
    wish = Wish("suspend", timeout)
    if job is not None and _stands_still(job):
        return f"is {job.status}, and stays so"
    asked = None if job is None else job.requests.under_way
    answer: Answer | None
    if asked is not None and asked.suspends:  # by an earlier try, by hand, or after a savepoint
        answer = await wait_for(job_of, asked, replace(wish, action=asked.action))
    else:
        asked, answer = await ask(job_of, wish)
    assert answer is not None, "it was waited for"
    check_answer(asked, answer)
    return answer.text
