"""``understudy gc``: what dead replicas, ended runs and savepoints have left in HA storage and in scratch, shown or removed."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import JobOf
from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, Namespace, Where, given
from understudy.errors import JobNotBegun

if TYPE_CHECKING:
    from understudy.ha.cleanup import Cleanup, Leftover
    from understudy.ha.job import Job
    from understudy.ha.job_store import JobStore


def gc(
    ha_storage: Annotated[str, given("UNDERSTUDY_HA_STORAGE", "The HA storage, as understudy run was given it.")],
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    scratch: Annotated[
        str, typer.Option(help="The scratch of rehearsals, as understudy run was given it.", show_default="none")
    ] = "",
    conf: Conf = None,
    keep_results: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Results of so many runs stay, the newest ones; older ones go, and such a run may run again where the documents have forgotten"
            " it.",
            show_default="all of them",
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it. Without this it is only shown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what dead replicas and ended runs of a job have left, or remove it: what they rehearsed on, dirty results beside clean ones, files of savepoints
    that have failed, savepoints that the job has forgotten because there are 32 newer ones, and files of earlier submissions and of such that broke off.

    Replicas remove the same by themselves, but no savepoint that was ever complete, and nothing of a submission that broke off. It is safe while they run; one
    that has not been able to say that it is there may lose a rehearsal, and a submission that is under way is refused. Checkpoints, sinks, claims, documents,
    what a replica runs that starts now, and savepoints that are listed as complete are never part of it, nor is anything of another cluster id.

    Exit codes: 0 it is shown, or nothing of it is left; 2 there is no such cluster id, or no such place; 4 something was not removed, and running
    it again goes on; 7 a permission is missing; 8 the API server or the object store does not answer; 9 no replica has ever led the job.
    """
    import asyncio

    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    asyncio.run(_gc(where, (ha_storage, scratch), keep_results, remove=remove, as_json=as_json))


async def _gc(where: Where, urls: tuple[str, str], keep: int | None, *, remove: bool, as_json: bool) -> None:
    from understudy.ha.cleanup import Cleanup
    from understudy.ha.results import JobResultStore

    storage, scratch = urls
    async with where.open() as stores:
        job_of = await JobOf.cluster(stores, "clean up after", submitted=True)
        if job_of.known is None:
            raise JobNotBegun(
                f"the record of {job_of.here} is gone",
                where="--cluster-id",
                remedy="Restore it first: without it, it is unknown which results are needed",
            )
        results = JobResultStore(where.blobs(storage, "--ha-storage"), stores.cluster, job_of.known.job)
        rehearsed = where.blobs(scratch, "--scratch") if scratch else None
        cleanup = Cleanup(stores.cluster, results, job_of.replicas, rehearsed)
        job = await _without_broken_off(cleanup, job_of.jobs, job_of.known, remove=remove)
        found = [
            *await cleanup.find(job=job),
            *await cleanup.forgotten(job),
            *(await cleanup.expired(keep, job.runs.run) if keep is not None else ()),
        ]
        await _deal_with(found, cleanup if remove else None, as_json=as_json)


async def _without_broken_off(cleanup: Cleanup, jobs: JobStore, job: Job, *, remove: bool) -> Job:
    """``job`` with the numbers of submissions that were never given taken back: before anything of them is removed, and only if it is."""
    from understudy.ha.artifacts import take_back
    from understudy.protocol.token import HIGHEST

    if not (number := await cleanup.broken_off(job)):
        return job
    return await jobs.change(HIGHEST, take_back(number)) if remove else take_back(number)(job)


async def _deal_with(found: list[Leftover], cleanup: Cleanup | None, *, as_json: bool) -> None:
    """Show each, after it was removed by ``cleanup``, where that is given."""
    for each in found:
        if cleanup is not None:
            await cleanup.remove(each)
        if not as_json:
            did = "removed" if cleanup is not None else "would remove"
            sys.stdout.write(f"{did} {each.name} in {each.place}: {each.why}\n")
    if as_json:
        body = {"removed": cleanup is not None, "leftovers": [asdict(each) for each in found]}
        sys.stdout.write(f"{json.dumps(body)}\n")
    elif not found:
        sys.stdout.write("nothing is left to remove\n")
    elif cleanup is None:
        sys.stdout.write("nothing was changed; --remove removes it\n")
