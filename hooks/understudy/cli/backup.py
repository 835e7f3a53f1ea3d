"""``understudy backup`` and ``restore``: HA data of one cluster id in a file, and back from it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import bound_job
from understudy.cli.where import (
    FILES,
    ClusterId,
    Conf,
    Context,
    Ha,
    HaAddress,
    HaDir,
    HaStorage,
    Lock,
    Namespace,
    Stores,
    Where,
)
from understudy.errors import SettingsError

if TYPE_CHECKING:
    from understudy.ha.results import JobResultStore


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it. It must not be there yet.")],
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    ha_storage: HaStorage = "",
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Copy a job's HA data to a file: its document, what its cluster id is bound to, and with --ha-storage the results of its runs and what was
    submitted last.

    Replicas may run meanwhile. Checkpoints and sinks are not part of it.

    Exit codes: 0 it is written; 2 there is no such cluster id, or the file is there already; 4 something cannot be read, and nothing was
    written; 7 a permission is missing; 8 the API server or the object store does not answer; 9 no replica has ever run in this cluster.
    """
    import asyncio

    if file.exists():
        raise SettingsError("it is there already", where=str(file), remedy="Name another file")
    text, told = asyncio.run(_taken(Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf), ha_storage))
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        raise SettingsError(
            f"cannot be written: {error.strerror}", where=str(file), remedy="Name another file"
        ) from None
    submitted = f", and {told['artifacts']} files of what was submitted" if told["artifacts"] else ""
    _tell(
        {"file": str(file), **told},
        f"{file}: {told['documents']} documents and {told['results']} results{submitted}",
        as_json=as_json,
    )


async def _taken(where: Where, ha_storage: str) -> tuple[str, dict[str, object]]:
    """The text, and how much it is."""
    from understudy.ha.backup import take
    from understudy.protocol.names import Names

    async with where.open() as stores:
        job = await bound_job(stores, "There is nothing to copy")
        names = Names(stores.cluster, job)
        found = await take(stores.documents, names, _results(where, ha_storage, stores, job), time.time())
    told = {
        "cluster": found.cluster,
        "job": job,
        "documents": len(found.documents),
        "results": len(found.results),
        "artifacts": len(found.artifacts),
    }
    return found.encode(), told


def restore(
    file: Annotated[Path, typer.Argument(help="What understudy backup has written.")],
    ha_dir: HaDir = None,
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    lock: Lock = "",
    ha_storage: HaStorage = "",
    conf: Conf = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace documents that are there already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write HA data from a file, for the same cluster id and job. A job that was RUNNING goes on as soon as its replicas run.

    What is there already is left alone if it is the same; other documents are replaced with --overwrite only, and only while no replica leads,
    which takes a lease to see. Results that are there are never replaced. Empty documents, as the bundle makes them, count as missing.

    Exit codes: 0 all of it is there; 2 the file is no backup, or is damaged; 4 part of it was not written: restoring again goes on; 7 a permission
    is missing; 8 the API server or the object store does not answer; 10 other HA data is there, or a replica leads, and nothing was changed.
    """
    import asyncio

    from understudy.ha.backup import Backup

    try:
        found = Backup.decode(file.read_text(encoding="utf-8", errors="replace"), str(file))
    except OSError as error:
        raise SettingsError(f"cannot be read: {error.strerror}", where=str(file), remedy="Name a backup") from None

    if (found.results or found.artifacts) and not ha_storage:
        raise SettingsError(
            f"the backup has {len(found.results)} results and {len(found.artifacts)} files that were submitted",
            where="--ha-storage",
            remedy="Say where they belong, as understudy run is told",
        )

    async def restored() -> list[str]:
        from understudy.ha.backup import Target, restore

        where = Where(ha_dir, found.cluster, namespace, context, ha, ha_address, conf)
        async with where.open_new(lock) as stores:
            results = _results(where, ha_storage, stores, found.job)
            return await restore(found, Target(stores.documents, stores.locks.values(), results), overwrite=overwrite)

    written = asyncio.run(restored())
    said = f"wrote {', '.join(written)}" if written else "is there already; nothing was changed"
    body = {"cluster": found.cluster, "job": found.job, "written": written}
    _tell(body, f"job {found.job} of cluster {found.cluster}: {said}", as_json=as_json)


def _results(where: Where, url: str, stores: Stores, job: str) -> JobResultStore | None:
    """``None`` without HA storage. Raises ``SettingsError``."""
    from understudy.ha.results import JobResultStore

    return JobResultStore(where.blobs(url, "--ha-storage", FILES), stores.cluster, job) if url else None


def _tell(body: Mapping[str, object], line: str, *, as_json: bool) -> None:
    sys.stdout.write(f"{json.dumps(body) if as_json else line}\n")
