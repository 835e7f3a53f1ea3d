"""``understudy resume``: let a job that has FAILED run again, once its cause is mended."""

from __future__ import annotations

import asyncio
import sys

from understudy.cli.where import ClusterId, Context, HaDir, Namespace, Where
from understudy.errors import SettingsError


def resume(ha_dir: HaDir = None, cluster_id: ClusterId = "", namespace: Namespace = "", context: Context = "") -> None:
    """Let a job that has FAILED run again, from its checkpoints, with all of its restarts.

    Mend what made it fail first. Replicas that ended with the job are not started by this; in a cluster they come back by
    themselves, or at once with kubectl rollout restart. A job that runs is left alone, one that has FINISHED is refused.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod.
    """
    sys.stdout.write(f"{asyncio.run(_resume(Where(ha_dir, cluster_id, namespace, context)))}\n")


async def _resume(where: Where) -> str:
    from understudy.ha.job import JobStore, Status
    from understudy.ha.replicas import ReplicaStore

    async with where.open() as stores:
        cluster = stores.cluster
        name = await ReplicaStore(stores.documents, f"{cluster}-replicas").job()
        jobs = None if name is None else JobStore(stores.documents, f"{cluster}-{name}", name, script="")
        before = None if jobs is None else await jobs.read()
        if jobs is None or before is None:
            raise SettingsError(
                f"no job of cluster {cluster!r} has run there",
                where="--cluster-id",
                remedy="understudy status shows what there is",
            )
        match before.status:
            case Status.RUNNING:
                return f"job {name} of cluster {cluster} is RUNNING; nothing was changed"
            case Status.FINISHED:
                raise SettingsError(
                    f"job {name} of cluster {cluster} has FINISHED: {before.reason}",
                    where="--cluster-id",
                    remedy="Run it as another cluster, with checkpoints of its own",
                )
            case Status.FAILED:
                await jobs.resume()
                return f"job {name} of cluster {cluster} may run again; it had failed: {before.reason}"
