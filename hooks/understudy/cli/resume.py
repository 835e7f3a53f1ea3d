"""``understudy resume``: let a job that has FAILED run again, once its cause is mended."""

from __future__ import annotations

import asyncio
import sys

from understudy.cli.where import ClusterId, Context, HaDir, Namespace, Where
from understudy.errors import JobNotBegun, SettingsError


def resume(ha_dir: HaDir = None, cluster_id: ClusterId = "", namespace: Namespace = "", context: Context = "") -> None:
    """Let a job that has FAILED run again, from its checkpoints, with all of its restarts.

    Mend what made it fail first. Replicas that ended with the job are not started by this; in a cluster they come back by
    themselves. A job that runs is left alone, one that has FINISHED is refused.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod without --ha-dir.
    """
    sys.stdout.write(f"{asyncio.run(_resume(Where(ha_dir, cluster_id, namespace, context)))}\n")


async def _resume(where: Where) -> str:
    from understudy.ha.job import JobStore, Status
    from understudy.ha.replicas import ReplicaStore

    async with where.open() as stores:
        replicas = ReplicaStore(stores.documents, f"{stores.cluster}-replicas")
        name = await replicas.job()
        if name is None:
            raise JobNotBegun(
                f"no replica of cluster {stores.cluster!r} has ever run {stores.place}",
                where="--cluster-id",
                remedy="Nothing is to be resumed: start it with understudy run",
            )
        jobs = JobStore(stores.documents, f"{stores.cluster}-{name}", name, script="")
        if await jobs.read() is None and not await replicas.begun():
            raise JobNotBegun(
                f"no replica has ever led job {name} of cluster {stores.cluster} {stores.place}",
                where="--cluster-id",
                remedy="Nothing is to be resumed: its replicas begin it as soon as one of them leads",
            )
        found = await jobs.resume()
        run = f" (run {found.runs.run})" if found.runs.run else ""
        job = f"job {name} of cluster {stores.cluster} {stores.place}{run}"
        match found.status:
            case Status.FAILED:
                return f"{job} may run again; it had failed: {found.reason}"
            case Status.RUNNING:
                return f"{job} is RUNNING; nothing was changed"
            case Status.FINISHED:
                raise SettingsError(
                    f"{job} has FINISHED: {found.reason}",
                    where="--cluster-id",
                    remedy="Begin a new run of it: understudy run --run-id with a new id",
                )
