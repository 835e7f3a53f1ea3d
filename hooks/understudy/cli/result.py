"""``understudy result``: what a run has come to, for people and schedulers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import LOOK, JobOf, check_timeout
from understudy.cli.where import ClusterId, Context, Ha, HaAddress, HaDir, Namespace, NoCluster, Stores, Where
from understudy.errors import (
    AccessDenied,
    DocumentError,
    IdentityConflict,
    JobFailed,
    JobNotBegun,
    JobNotEnded,
    SettingsError,
)
from understudy.redaction import presentable

if TYPE_CHECKING:
    from understudy.ha.job import Job
    from understudy.ha.results import JobResultStore


class UnknownRun(SettingsError):
    """A run that may begin yet."""


#: Seconds between two tries to reach the documents.
_OPEN_AGAIN = 1.0
#: What may be otherwise at the next look.
_MAY_COME = (DocumentError, JobNotBegun, JobNotEnded, UnknownRun)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``ended``: nothing of it runs, unless it is resumed. Times in seconds since 1970, 0 where they are not known."""

    job: str
    run: str
    status: str
    reason: str = ""
    began: float = 0.0
    ended_at: float = 0.0

    @property
    def ended(self) -> bool:
        return self.status in {"FINISHED", "CANCELED", "FAILED", "SUPERSEDED"}


def result(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    run_id: Annotated[str, typer.Option(help="Which run.", show_default="the last one")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has ended.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait, with --wait.")] = 3600.0,
    ha_storage: Annotated[
        str, typer.Option(help="Ask the HA storage in place of the documents, as understudy run was given it.")
    ] = "",
    job_id: Annotated[str, typer.Option(help="With --ha-storage: which job.", show_default="the cluster id")] = "",
    conf: Annotated[
        list[str] | None,
        typer.Option(help="With --ha-storage: a setting of Spark's that says how to reach it. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a run has come to: FINISHED, CANCELED or FAILED, with the reason.

    The documents are asked; with --ha-storage what outlives them, where a run has a result once it has FINISHED or was CANCELED.

    Exit codes: 0 it FINISHED or was CANCELED; 1 it FAILED; 2 there is no such cluster id or run; 4 the result cannot be read; 5 another run has
    taken its place, or the job has moved elsewhere or was removed; 7 a permission is missing; 8 the API server or the object store does not answer; 9 no replica has ever led the job; 13 it has not
    ended.
    """
    import asyncio

    check_timeout(timeout)
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    if ha_storage:
        store = _results(where, ha_storage, job_id)
        found = asyncio.run(_within(timeout if wait else 0.0, lambda: _stored(store, run_id)))
    else:
        found = asyncio.run(_documented(where, run_id, timeout if wait else 0.0))
    _tell(found, as_json=as_json)


async def _within(seconds: float, look: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """What ``look`` finds, once it has ended or these seconds are over. Raises what the last look raised."""
    import asyncio

    until = time.monotonic() + seconds
    while True:
        left = time.monotonic() < until
        try:
            found = await look()
            if found.ended or not left:
                return found
        except AccessDenied:
            raise  # a right does not come by itself
        except _MAY_COME:
            if not left:
                raise
        await asyncio.sleep(LOOK)


async def _documented(where: Where, run: str, seconds: float) -> Outcome:
    """From the job's document."""

    async def look() -> Outcome:
        job_of = await JobOf.cluster(stores, "tell the result of")
        return _outcome(job_of.known, run, job_of.here)

    until = time.monotonic() + seconds
    async with AsyncExitStack() as held:
        stores = await _opened(where, held, until)
        return await _within(max(0.0, until - time.monotonic()), look)


async def _opened(where: Where, held: AsyncExitStack, until: float) -> Stores:
    """A scheduler may wait before the first replica has begun, and a server may be away for a while. Raises what the last try raised."""
    import asyncio

    while True:
        try:
            return await held.enter_async_context(where.open())
        except AccessDenied:
            raise  # a right does not come by itself
        except (NoCluster, DocumentError):
            if time.monotonic() >= until:
                raise
        await asyncio.sleep(min(_OPEN_AGAIN, max(0.0, until - time.monotonic())))


def _outcome(job: Job | None, run: str, here: str) -> Outcome:
    """Raises ``UnknownRun``."""
    if job is None:
        raise JobNotBegun(
            f"the record of {here} is gone", where="--cluster-id", remedy="Ask its HA storage: --ha-storage"
        )
    if run in ("", job.runs.run):
        return Outcome(job.job, job.runs.run, job.status.value, presentable(job.reason), job.runs.began, job.runs.ended)
    if (past := job.runs.earlier(run)) is not None:
        return Outcome(job.job, run, past.status, ended_at=past.ended)
    known = ", ".join(each for each in (job.runs.run, *(past.run for past in job.runs.past)) if each)
    raise UnknownRun(f"{here} knows no run {run!r}", where="--run-id", remedy=f"There is {known or 'none with an id'}")


def _results(where: Where, url: str, job_id: str) -> JobResultStore:
    """Raises ``SettingsError``."""
    from understudy.ha.results import JobResultStore
    from understudy.protocol.names import check_id

    cluster = where.cluster_id
    if not cluster:
        raise SettingsError("it has to be named", where="--cluster-id", remedy="HA storage is shared by many")
    return JobResultStore(
        where.blobs(url, "--ha-storage"), check_id(cluster, "--cluster-id"), check_id(job_id or cluster, "--job-id")
    )


async def _stored(store: JobResultStore, run: str) -> Outcome:
    """From HA storage. Raises ``JobNotEnded`` where there is no result."""
    found = await store.read(run) if run else next(reversed(await store.all()), None)
    if found is None:
        raise JobNotEnded(
            f"there is no result{f' of run {run}' if run else ''}",
            where=store.place,
            remedy="It has not FINISHED, nor was it CANCELED; understudy status shows how it stands",
        )
    return Outcome(found.job, found.run, found.status, presentable(found.reason), found.began, found.ended)


def _tell(found: Outcome, *, as_json: bool) -> None:
    """Raises ``JobFailed`` and ``JobNotEnded``."""
    of = f"run {found.run} of job {found.job}" if found.run else f"job {found.job}"
    if as_json:
        body = {
            "job": found.job,
            "run": found.run,
            "status": found.status,
            "reason": found.reason,
            "began": found.began,
            "ended": found.ended_at,
        }
        sys.stdout.write(f"{json.dumps(body)}\n")
    elif found.ended:
        sys.stdout.write(f"{of}: {found.status}{f': {found.reason}' if found.reason else ''}\n")
    if not found.ended:
        raise JobNotEnded(f"{of} is {found.status}", where="result", remedy="Wait for it with --wait")
    if found.status == "SUPERSEDED":
        raise IdentityConflict(
            f"{of} is SUPERSEDED", where="result", remedy="Another run has taken its place; see understudy status"
        )
    if found.status == "FAILED":
        raise JobFailed(
            f"{of} is {found.status}", where="result", remedy="See understudy status, and the logs of its replicas"
        )
