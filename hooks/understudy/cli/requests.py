"""``understudy suspend``, ``drain``, ``savepoint``, ``cancel`` and ``hand-over``: ask the leader of a job to do something, and wait for its answer."""

from __future__ import annotations

import json
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import LOOK, JobOf, check_timeout, tell_done, who
from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, Namespace, Where
from understudy.errors import DocumentError, RequestFailed, RequestRefused, RequestUnanswered, SettingsError

if TYPE_CHECKING:
    from understudy.ha.job import Job
    from understudy.ha.requests import Answer, Request

#: Seconds for which an answer is waited for beyond the leader's own time: a takeover may come in between.
_SLACK = 30.0

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answer of the leader.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_HELD = "Seconds in which the batch under way, and the script's own code in it, have to come to their end."


def suspend(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    timeout: Annotated[float, typer.Option(help=_HELD)] = 300.0,
    warm: Annotated[
        bool, typer.Option("--warm", help="Keep standbys rehearsed, so that the job goes on within seconds.")
    ] = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Stop a job between two batches, so that understudy resume lets it go on with the same or with newer code.

    The batch under way ends, and so does the code of the script that is writing; then the job is SUSPENDED. It stays so through restarts,
    rollouts and lost machines. Its replicas stay ready and idle, without a driver; with --warm they all stand by, and rehearse.

    If the batch does not end in time, the job runs on, and the error names what still runs.

    Exit codes: 0 the job is SUSPENDED; 2 there is no such cluster id; 7 a permission is missing; 8 the API server does not answer; 9 no
    replica has ever led the job; 10 refused, nothing was changed; 11 not in time, or withdrawn: the job runs on; 12 no leader has answered.
    """
    _run(
        Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf),
        Wish("suspend", timeout, warm=warm),
        wait=wait,
        as_json=as_json,
    )


def drain(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    timeout: Annotated[float, typer.Option(help=_HELD)] = 300.0,
    savepoint: Annotated[
        bool,
        typer.Option("--savepoint/--no-savepoint", help="Take a savepoint first, if the job has HA storage."),
    ] = True,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """End a job for good, with everything written that its queries keep back: every window and session closes.

    A savepoint is taken first, which can be forked, while batches are held. If it fails, the job runs on and is not drained. Without HA storage there
    is none, and the answer says so. While the job is DRAINING this command waits, for as long as the last batches take.

    The batch under way ends. Each query with a watermark then runs one last batch without input, in which its watermark is the end of time;
    the job is FINISHED. From when the job is DRAINING it cannot be taken back, and its checkpoints are not gone on from.

    Refused, and nothing is changed, where a query has no place between two batches: real-time mode, continuous processing, asynchronous
    progress tracking; with a savepoint, also where a query has no lasting checkpoint.

    Exit codes: as those of understudy suspend; 0 the job is FINISHED; 11 not in time, withdrawn, or no savepoint: the job runs on.
    """
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    _run(where, Wish("drain", timeout, savepoint=savepoint), wait=wait, as_json=as_json)


def cancel(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer, and half a minute more.")] = 60.0,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """End a job now, for good. Its driver is killed, and nothing of this run ever runs again.

    Checkpoints and sinks stay as they are: a new run (understudy run --run-id) goes on from them. Overrides any other request.

    Exit codes: as those of understudy suspend; 0 the job is CANCELED.
    """
    _run(
        Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf),
        Wish("cancel", timeout),
        wait=wait,
        as_json=as_json,
    )


def hand_over(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    to: Annotated[
        str, typer.Option(help="The replica that shall lead, as understudy status calls it.", show_default="any")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the next leader, and half a minute more.")] = 60.0,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Let another replica lead. The leader ends its driver as it does on SIGTERM, and stands by afterwards.

    Refused while no other replica has rehearsed.

    Exit codes: as those of understudy suspend; 0 another replica leads; 11 another one than --to took over.
    """
    _run(
        Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf),
        Wish("hand-over", timeout, to),
        wait=wait,
        as_json=as_json,
    )


def savepoint(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    then: Annotated[
        str, typer.Option(help="suspend: the job is SUSPENDED at the savepoint.", show_default="it goes on")
    ] = "",
    timeout: Annotated[
        float, typer.Option(help="Seconds for the end of the batch, for the copies, and for their proof: each.")
    ] = 300.0,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Copy the checkpoints of all queries between two batches, to the HA storage of the job, and prove the copies.

    Batches are held until the files are copied. Then the job goes on, and a batch is rehearsed on the copies. If anything goes wrong the
    job runs on, and the error names it.

    Exit codes: as those of understudy suspend; 0 the savepoint is complete; 11 there is none, and the job runs on.
    """
    if then not in {"", "suspend"}:
        raise SettingsError(
            f"{then!r} cannot follow a savepoint", where="--then", remedy="Give suspend, or leave it out"
        )
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    _run(where, Wish("savepoint", timeout, then=then), wait=wait, as_json=as_json)


def pause(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Keep standbys from taking over, even if the leader dies, until understudy unpause. For maintenance.

    The leader goes on. If it dies, the job stands still until then. understudy hand-over still lets another replica lead, and suspend and cancel
    do what they always do.

    Exit codes: as those of understudy suspend; 0 the job is paused.
    """
    _pause_or_not(Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf), "pause", as_json=as_json)


def unpause(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Let standbys take over again.

    Exit codes: as those of understudy suspend; 0 the job is not paused.
    """
    _pause_or_not(Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf), "unpause", as_json=as_json)


def _pause_or_not(where: Where, action: str, *, as_json: bool) -> None:
    import asyncio

    async def change() -> None:
        async with where.open() as stores:
            job_of = await JobOf.cluster(stores, action)
            jobs = job_of.jobs
            found = await (jobs.pause(who(), time.time()) if action == "pause" else jobs.unpause())
            was, now = found.requests.paused is not None, action == "pause"
            text = ("is paused" if now else "is not paused") + (", as it was" if was == now else "")
            tell_done(job_of.here, action, text, as_json=as_json)

    asyncio.run(change())


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. ``timeout`` in seconds; ``to``: a replica by its name; ``then``, ``savepoint``: as those of ``Request``."""

    action: str
    timeout: float
    to: str = ""
    warm: bool = False
    then: str = ""
    savepoint: bool = False

    @property
    def patience(self) -> float:
        """For how long an answer is waited for. A savepoint may take its time three times: to hold, to copy, to prove."""
        return self.timeout * (3 if self.action == "savepoint" or self.savepoint else 1) + _SLACK


def _run(where: Where, wish: Wish, *, wait: bool, as_json: bool) -> None:
    import asyncio

    check_timeout(wish.timeout)
    asyncio.run(_ask(where, wish, wait=wait, as_json=as_json))


async def _ask(where: Where, wish: Wish, *, wait: bool, as_json: bool) -> None:
    async with where.open() as stores:
        job_of = await JobOf.cluster(stores, wish.action, submitted=wish.action == "cancel")
        request, answer = await ask(job_of, wish, wait=wait)
        _tell(job_of.here, request, answer, as_json=as_json)


async def ask(job_of: JobOf, wish: Wish, *, wait: bool = True) -> tuple[Request, Answer | None]:
    """The request, and its answer if there is one or if it is waited for.

    Raises:
        RequestRefused: at once, and nothing was changed.
        RequestFailed: another request has taken its place.
        RequestUnanswered: no leader has answered in time.
    """
    from understudy.ha.requests import Action, Request

    to = await _holder(job_of, wish.to) if wish.to else ""
    request = Request(
        uuid.uuid4().hex[:12],
        Action(wish.action),
        who(),
        time.time(),
        wish.timeout,
        to,
        wish.warm,
        wish.then,
        wish.savepoint,
    )
    job = await job_of.jobs.ask(request)
    answer = _answer_to(request, job)
    return request, await wait_for(job_of, request, wish) if answer is None and wait else answer


async def _holder(job_of: JobOf, name: str) -> str:
    """Raises ``SettingsError`` unless ``name`` is one replica's, or begins the id of one."""
    replicas = await job_of.replicas.read()
    found = [each.holder for each in replicas if name == each.name or each.holder.startswith(name)]
    if len(found) != 1:
        known = ", ".join(each.name for each in replicas) or "none"
        raise SettingsError(
            f"{name!r} is the name of {len(found) or 'no'} replica{'s' if len(found) > 1 else ''}",
            where="--to",
            remedy=f"There is {known}",
        )
    return found[0]


def _answer_to(request: Request, job: Job) -> Answer | None:
    answer = job.requests.answer
    return answer if answer is not None and answer.request == request.id else None


async def wait_for(job_of: JobOf, request: Request, wish: Wish) -> Answer:
    """Raises ``RequestUnanswered`` and ``RequestFailed``."""
    import asyncio

    from understudy.ha.job import Status

    until = time.monotonic() + wish.patience
    while time.monotonic() < until:
        job = None
        with suppress(DocumentError):  # a server may be away for a while, and the request stands
            job = await job_of.jobs.read()
        if job is None:
            await asyncio.sleep(LOOK)
            continue
        if (answer := _answer_to(request, job)) is not None:
            return answer
        if wish.action == "drain" and job.status is Status.DRAINING:  # its last batch takes as long as it takes
            until = time.monotonic() + wish.patience
        if job.requests.request is None or job.requests.request.id != request.id:
            raise RequestFailed(
                "another request has taken its place", where=wish.action, remedy="See understudy status"
            )
        await asyncio.sleep(LOOK)
    withdrawn = "" if wish.action == "cancel" else "; understudy resume withdraws it"
    raise RequestUnanswered(
        f"no leader has answered request {request.id} within {wish.patience:g} s",
        where=wish.action,
        remedy=f"It stays, and the next leader takes it up{withdrawn}. See understudy status for who leads",
    )


def _tell(here: str, request: Request, answer: Answer | None, *, as_json: bool) -> None:
    """Raises as ``check_answer`` does."""
    result = "asked" if answer is None else answer.result
    text = "the leader takes it up" if answer is None else answer.text
    if as_json:
        body = {"job": here, "request": request.id, "action": request.action, "result": result, "text": text}
        sys.stdout.write(f"{json.dumps(body)}\n")
    if answer is not None:
        check_answer(request, answer)
    if not as_json:
        sys.stdout.write(f"{here}: {text} (request {request.id})\n")


def check_answer(request: Request, answer: Answer) -> None:
    """Raises ``RequestRefused`` and ``RequestFailed`` for such answers."""
    from understudy.ha.requests import Result

    if answer.result == Result.DONE:
        return
    kind = RequestRefused if answer.result == Result.REFUSED else RequestFailed
    raise kind(answer.text, where=request.action, remedy="See understudy status for how the job stands")
