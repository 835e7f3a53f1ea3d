"""``understudy purge``: the HA data of a job that has ended, shown or removed for good."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from understudy.cli.job_of import bound_job
from understudy.cli.where import (
    ClusterId,
    Conf,
    Context,
    Ha,
    HaAddress,
    HaDir,
    HaStorage,
    Lock,
    Namespace,
    Where,
)
from understudy.errors import SettingsError


def purge(
    cluster_id: ClusterId = "",
    ha_dir: HaDir = None,
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    lock: Lock = "",
    ha_storage: HaStorage = "",
    scratch: Annotated[
        str, typer.Option(help="The scratch of rehearsals, as understudy run was given it.", show_default="none")
    ] = "",
    conf: Conf = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it. Without this it is only shown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove the HA data of a job that has ended, for good: its documents, the results of its runs, and what was rehearsed on.

    Checkpoints, sinks and the claims in them stay. The documents become tombstones, so the cluster id is used up: replicas with it are refused
    until a person deletes what is left, which is the directory <ha-dir>/<cluster id>, the objects (make purge), or the documents below --ha-address.

    Exit codes: 0 it is shown, or nothing of it is left; 2 there is no such cluster id, or no such place; 4 something was not removed, and running
    it again goes on; 7 a permission is missing; 8 the API server or the object store does not answer; 9 no replica has ever run; 10 the job has not
    ended, a replica leads, there are savepoints, or this machine does not have the HA storage's disk; and nothing was changed.
    """
    import asyncio

    if not cluster_id:
        raise SettingsError("it has to be named", where="--cluster-id", remedy="Give the one whose HA data shall go")

    async def purged() -> list[str]:
        from understudy.blobs.local import local_directory, refuse_unmounted
        from understudy.ha.purge import Purge
        from understudy.ha.results import ROOT
        from understudy.protocol.names import Names

        where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
        async with where.open(lock) as stores:
            if directory := local_directory(ha_storage) if ha_storage else None:
                refuse_unmounted(directory, ROOT)
            storage = where.blobs(ha_storage, "--ha-storage") if ha_storage else None
            rehearsed = where.blobs(scratch, "--scratch") if scratch else None
            job = await bound_job(stores, "There is nothing to remove", removed=True)
            found = Purge(Names(stores.cluster, job), stores.documents, stores.locks.values(), storage, rehearsed)
            await found.check()
            return [each async for each in found.remove(dry=not remove)]

    gone = asyncio.run(purged())
    if as_json:
        sys.stdout.write(f"{json.dumps({'cluster': cluster_id, 'removed': remove, 'what': gone})}\n")
        return
    for each in gone:
        sys.stdout.write(f"{'removed' if remove else 'would remove'} {each}\n")
    if not gone:
        sys.stdout.write("nothing is left to remove\n")
    elif not remove:
        sys.stdout.write("nothing was changed; --remove removes it, for good\n")
