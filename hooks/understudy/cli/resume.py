"""``understudy resume``: lets a job that has FAILED run again, once the cause is fixed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from understudy.cli.where import ClusterId, Context, HaDir, Namespace, Where
from understudy.errors import JobNotBegun, SettingsError
from understudy.protocol.names import job_document_of, replicas_of

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
    accept_checkpoint: AcceptCheckpoint = None,
) -> None:
    """Let a job that has FAILED run again, from its checkpoints, with all of its restarts.

    Fix the cause of the failure first. This command does not start replicas that ended with the job; in a cluster they come back by
    themselves. A running job is left alone. A job that has FINISHED is refused.

    A job that was refused because a checkpoint is gone or was restored from a copy continues with what is there now, once
    --accept-checkpoint accepts it. Rows may then be read again, or a sink may be written twice.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod without --ha-dir.
    """
    import asyncio

    where = Where(ha_dir, cluster_id, namespace, context)
    sys.stdout.write(f"{asyncio.run(_resume(where, tuple(accept_checkpoint or ())))}\n")


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


async def _resume(where: Where, accepted: tuple[str, ...] = ()) -> str:
    from understudy.ha.job import JobStore, Status
    from understudy.ha.replicas import ReplicaStore

    async with where.open() as stores:
        replicas = ReplicaStore(stores.documents, replicas_of(stores.cluster))
        name = await replicas.job()
        if name is None:
            raise JobNotBegun(
                f"no replica of cluster {stores.cluster!r} has ever run {stores.place}",
                where="--cluster-id",
                remedy="There is nothing to resume: start it with understudy run",
            )
        jobs = JobStore(stores.documents, job_document_of(stores.cluster, name), name, script="")
        if await jobs.read() is None and not await replicas.begun():
            raise JobNotBegun(
                f"no replica has ever led job {name} of cluster {stores.cluster} {stores.place}",
                where="--cluster-id",
                remedy="There is nothing to resume: its replicas begin it as soon as one of them leads",
            )
        known = await jobs.read()
        here = f"job {name} of cluster {stores.cluster} {stores.place}"
        roots = _recorded(accepted, known.roots if known is not None else (), here)
        found = await jobs.resume(roots)
        run = f" (run {found.runs.run})" if found.runs.run else ""
        job = f"{here}{run}"
        if roots:
            return f"{job} takes {', '.join(roots)} as it is now"
        match found.status:
            case Status.FAILED:
                return f"{job} may run again; it had failed: {found.reason}"
            case Status.RUNNING:
                return f"{job} is RUNNING; nothing was changed"
            case Status.FINISHED:
                raise SettingsError(
                    f"{job} has FINISHED: {found.reason}",
                    where="--cluster-id",
                    remedy="Begin a new run: understudy run --run-id with a new id",
                )
