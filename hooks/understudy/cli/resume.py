"""``understudy resume``: lets a job run again that has FAILED or was suspended."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import LOOK, JobOf, check_timeout, tell_done
from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, Namespace, Where
from understudy.errors import DocumentError, RequestFailed, RequestUnanswered, SettingsError

if TYPE_CHECKING:
    from understudy.ha.job import Job
    from understudy.protocol.token import Token

#: Of these a job runs again.
_GOES_ON = ("SUSPENDED", "FAILED")

AcceptCheckpoint = Annotated[
    list[str] | None,
    typer.Option(
        help="Accept that this checkpoint or sink is gone, empty or older than the job's record. May be repeated.",
        show_default=False,
    ),
]


def resume(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    accept_checkpoint: AcceptCheckpoint = None,
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait until a leader runs the job's queries, or has committed a batch."),
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait, with --wait.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a job run again that has FAILED or is SUSPENDED, from its checkpoints, with all of its restarts.

    Fix the cause of a failure first. This command does not start replicas that ended with the job; in a cluster they come back by
    themselves. A running job is left alone; a request that is under way is withdrawn, but a cancel or a drain that has begun. A job that has
    FINISHED or was CANCELED is refused.

    A job that was refused because a checkpoint is gone or was restored from a copy continues with what is there now, once
    --accept-checkpoint accepts it. Rows may then be read again, or a sink may be written twice.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod without --ha-dir.

    Exit codes: 0 the job may run again, or runs; 2 there is no such cluster id, or the job has ended for good; 7 a permission is missing; 8 the
    API server does not answer; 9 no replica has ever led the job; 12 no replica leads it in time (--wait); 11 it
    has FAILED again (--wait).
    """
    import asyncio

    check_timeout(timeout)
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    wished = Wished(tuple(accept_checkpoint or ()), timeout if wait else None)
    job, said = asyncio.run(_resume(where, wished))
    tell_done(job, "resume", said, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Wished:
    """``accepted``: roots; ``within``: seconds in which a batch is to be committed, ``None`` where that is not waited for. ``only_suspensions``: no
    other request is withdrawn.
    """

    accepted: tuple[str, ...] = ()
    within: float | None = None
    only_suspensions: bool = False


def _recorded(accepted: tuple[str, ...], recorded: tuple[str, ...], job: str) -> tuple[str, ...]:
    """Returns the roots of the record that ``accepted`` names. A root on a disk may be given without its ``file:``."""
    plain = {root.removeprefix("file:"): root for root in recorded}
    found = [plain.get(each.removeprefix("file:").rstrip("/")) for each in accepted]
    if None in found:
        raise SettingsError(
            f"{job} has recorded no {accepted[found.index(None)]}",
            where="--accept-checkpoint",
            remedy=f"Name one of: {', '.join(recorded) or 'none'}",
        )
    return tuple(root for root in found if root is not None)


async def _resume(where: Where, wished: Wished) -> tuple[str, str]:
    """Which job it is, in words, and what has come of it."""
    async with where.open() as stores:
        return await let_go_on(await JobOf.cluster(stores, "resume"), wished)


async def let_go_on(job_of: JobOf, wished: Wished) -> tuple[str, str]:
    """Which job it is, in words, and what has come of it.

    Raises:
        SettingsError: the job has ended for good, or has recorded no such root.
        RequestUnanswered: no leader runs it again in time.
        RequestFailed: it has FAILED again meanwhile.
    """
    known = job_of.known
    recorded = sorted({*known.roots, *(each.root for each in known.checkpoints.known)}) if known is not None else ()
    roots = _recorded(wished.accepted, tuple(recorded), job_of.here)
    found = await job_of.jobs.resume(roots, time.time(), only_suspensions=wished.only_suspensions)
    job = job_of.here + (f" (run {found.runs.run})" if found.runs.run else "")
    said = f"takes {', '.join(roots)} as it is now" if roots else _said(job, found, wished)
    if wished.within is not None and found.status.value in _GOES_ON:
        said = f"{said}; {await _runs_again(job_of, found.token, wished.within)}"
    return job, said


def _said(job: str, found: Job, wished: Wished) -> str:
    """What has come of it. ``found``: the job before. Raises ``SettingsError`` for one that has ended for good."""
    from understudy.ha.job import Status
    from understudy.ha.requests import Action

    if (asked := found.requests.under_way) is not None:
        what = "is withdrawn"
        if asked.action == Action.CANCEL:
            what = "stays: a job that is being canceled ends"
        elif found.status is Status.DRAINING:
            what = (
                "stays: a job that is being drained ends; understudy cancel ends it at once, with rows that stay back"
            )
        elif wished.only_suspensions and not asked.suspends:
            what = "stays: it does not suspend the job"
        return f"is {found.status}; request {asked.id} ({asked.action}) {what}"
    but = "" if found.requests.paused is None else "; it is paused, so understudy unpause has to come first"
    drains = found.checkpoints.draining
    match found.status:
        case Status.FAILED:
            return f"{'is DRAINING again' if drains else 'may run again'}; it had failed: {found.reason}{but}"
        case Status.SUSPENDED:
            return f"{'is DRAINING again' if drains else 'goes on'}; it was SUSPENDED{but}"
        case Status.FINISHED | Status.CANCELED:
            was = "was" if found.status is Status.CANCELED else "has"
            raise SettingsError(
                f"{job} {was} {found.status}: {found.reason}",
                where="--cluster-id",
                remedy="Begin a new run: understudy run --run-id with a new id",
            )
        case _:
            return f"is {found.status}; nothing was changed"


async def _runs_again(job_of: JobOf, before: Token, within: float) -> str:
    """Wait until a leader with a higher token than ``before`` runs its queries; or has none to run, when the time is over.

    Raises ``RequestUnanswered``, and ``RequestFailed`` for a job that has FAILED again.
    """
    import asyncio

    began = time.monotonic()
    leader = ""
    while time.monotonic() < began + within:
        with suppress(DocumentError):  # a server may be away for a while
            job = await job_of.jobs.read()
            if job is not None and job.status.terminal:
                return _ended(job)
            if job is not None and job.token > before:
                leader = job.holder
                if how := await _runs(job_of, job, before):
                    return f"{leader} leads and {how}, {time.monotonic() - began:.1f} s later"
        await asyncio.sleep(LOOK)
    if leader:
        return f"{leader} leads, and its script has started no query in {within:g} s"
    raise RequestUnanswered(
        f"no leader runs its queries within {within:g} s",
        where="resume",
        remedy="The job may run again; see understudy status for which replicas there are, and what they wait for",
    )


def _ended(job: Job) -> str:
    if job.status.value == "FAILED":
        raise RequestFailed(
            f"it has FAILED again: {job.reason}", where="resume", remedy="Fix the cause, then resume it"
        )
    return f"it is {job.status}: {job.reason}"


async def _runs(job_of: JobOf, job: Job, before: Token) -> str:
    """What the leader of ``job`` does, in words; empty before its queries run. Without new rows they commit no batch."""
    if job.serving > before:
        return "has committed a batch"
    leader = [each for each in await job_of.replicas.read() if each.holder == job.holder and each.role == "leader"]
    queries = sum(each.queries for each in leader)
    return f"runs {queries} quer{'y' if queries == 1 else 'ies'}" if queries else ""
