"""``understudy savepoints``, ``dispose`` and ``fork``: what there is of a job's savepoints, and what is made of one."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import JobOf, tell_done
from understudy.cli.run import default_ha_dir
from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, Namespace, Stores, Where
from understudy.errors import JobNotBegun, RequestRefused, SettingsError

if TYPE_CHECKING:
    from understudy.blobs.model import BlobStore
    from understudy.ha.job import Job
    from understudy.ha.savepoints import Manifest, Savepoint

#: Time-out of one request, in seconds: a file is one.
_FILE = 600.0

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Number = Annotated[int, typer.Argument(help="Of the savepoint, as understudy savepoints shows it.")]


def savepoints(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """List the savepoints of a job: number, how it was proven, when, where, and the last batch of each query in it.

    rehearsed: a batch was run on every copy. verified: each file was read again and compared, and no batch was run. failed: there is none, and
    what is left of it goes with understudy dispose.

    Exit codes: as those of understudy suspend; 0 they are listed, even if there are none.
    """
    import asyncio

    async def show() -> None:
        async with Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf).open() as stores:
            job_of = await JobOf.cluster(stores, "list the savepoints of")
            known = _job(job_of, stores).savepoints_now
            if as_json:
                sys.stdout.write(f"{json.dumps([asdict(each) for each in known], indent=2)}\n")
                return
            sys.stdout.writelines(f"{_line(each)}\n" for each in known)
            if not known:
                sys.stdout.write(f"{job_of.here} has no savepoint\n")

    asyncio.run(show())


def dispose(
    number: Number,
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Remove a savepoint for good: its manifest, its files, and then its number from the list. If it is interrupted, it can be repeated.

    Exit codes: as those of understudy suspend; 0 it is gone; 2 there is none of that number; 10 it is being taken, another savepoint is in its directory, or
    this machine does not have the directory's disk.
    """
    import asyncio

    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)

    async def remove() -> None:
        from understudy.blobs.local import local_directory
        from understudy.ha import savepoint_changes
        from understudy.ha.saved_files import discard, refuse_another
        from understudy.protocol.token import HIGHEST

        async with where.open() as stores:
            job_of = await JobOf.cluster(stores, "dispose of")
            job = _job(job_of, stores)
            one = _numbered(job, number, stores.cluster)
            _refuse_unmounted(one, stores.cluster, job.job)
            forget = savepoint_changes.forget(number)
            forget(job)
            if not one.complete:
                await refuse_another(_store(where, one.place), one)
            if (directory := local_directory(one.place)) is not None:
                _remove_directory(directory)
            else:
                await discard(_store(where, one.place))
            await job_of.jobs.change(HIGHEST, forget)
            tell_done(job_of.here, "dispose", f"has no savepoint {number} any more", as_json=as_json)

    asyncio.run(remove())


def fork(
    from_number: Annotated[int, typer.Option("--from", help="The number of the savepoint.")],
    cluster_id: Annotated[str, typer.Option(help="The new cluster id, which nothing has run under.")],
    checkpoints: Annotated[
        str,
        typer.Option(
            help="Where the new checkpoints shall be, in directories named for the queries: a directory, or s3a://BUCKET/PREFIX.",
            show_default="below --ha-dir, with --ha filesystem",
        ),
    ] = "",
    from_cluster: Annotated[str, typer.Option(help="Whose savepoint it is.", show_default="the one there is")] = "",
    job_id: Annotated[
        str,
        typer.Option(
            help="Of the new job, as understudy run will be given it. Without --checkpoints it says where the new job looks.",
            show_default="the new cluster id, if the first job is called as its cluster",
        ),
    ] = "",
    ha_dir: HaDir = None,
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Make checkpoints for another cluster id of a savepoint, with new query ids and without claims. Nothing is started.

    The script that goes on from them has to write to other sinks: file sinks and Delta tables skip batch numbers that they have seen, so rows
    would be lost without an error. A file sink of the first job refuses the other one's claim.

    Exit codes: 0 the checkpoints are there; 2 there is no such savepoint, or an argument is wrong; 4 the savepoint is torn; 7 a permission is
    missing; 8 a server does not answer; 10 refused, nothing was changed: the savepoint is not complete, the cluster id has run already, there is
    something at the new place, or this machine does not have the savepoint's disk.
    """
    import asyncio

    _check_ids(cluster_id, job_id)
    where = Where(ha_dir, from_cluster, namespace, context, ha, ha_address, conf)
    if not checkpoints and not where.on_this_machine:
        raise SettingsError("it has no default here", where="--checkpoints", remedy="Give s3a://BUCKET/PREFIX")

    async def copy() -> None:
        from understudy.ha import saved_files

        async with where.open() as stores:
            job_of = await JobOf.cluster(stores, "fork")
            one = _complete(_job(job_of, stores), from_number, stores.cluster)
            _refuse_unmounted(one, stores.cluster, job_of.jobs.job)
            base = checkpoints or _base(where, cluster_id, job_id, first=(stores.cluster, job_of.jobs.job))
            await _refuse_used(Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf), cluster_id)
            source, target = _store(where, one.place), _store(where, base)
            manifest = await saved_files.read_manifest(source, one, stores.cluster, job_of.jobs.job)
            _refuse_newer_spark(manifest)
            await saved_files.fork(source, manifest, target, lambda name: _store(where, f"{base.rstrip('/')}/{name}"))
            _tell_fork(manifest, base, cluster_id, as_json=as_json)

    asyncio.run(copy())


def _check_ids(cluster_id: str, job_id: str) -> None:
    """Raises ``SettingsError``. ``job_id`` may be empty."""
    from understudy.protocol.names import check_id

    check_id(cluster_id, "--cluster-id")
    if job_id:
        check_id(job_id, "--job-id")


def _job(job_of: JobOf, stores: Stores) -> Job:
    """Raises ``JobNotBegun`` where its record is gone."""
    if job_of.known is None:
        raise JobNotBegun(f"the record of {job_of.here} is gone", where=stores.cluster, remedy="Restore the document")
    return job_of.known


def _line(one: Savepoint) -> str:
    at = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    batches = ", ".join(f"{query} at batch {batch}" for query, batch in one.batches.items())
    return f"{one.number}  {one.state}  {at}  {one.place}" + (f"  {batches}" if batches else "")


def _numbered(job: Job, number: int, cluster: str) -> Savepoint:
    """Raises ``SettingsError``. A place that is none of ours is not touched: anything may stand in a document."""
    from understudy.ha.savepoints import below

    one = next((each for each in job.savepoints_now if each.number == number), None)
    if one is None:
        known = ", ".join(str(each.number) for each in job.savepoints_now) or "none"
        raise SettingsError(f"there is no savepoint {number}", where="savepoints", remedy=f"There is {known}")
    if not one.place.endswith(f"/{below(cluster, job.job, one.directory)}") or "/../" in one.place:
        raise SettingsError(
            f"{one.place} is no place of a savepoint of this job", where="savepoints", remedy="Look at the document"
        )
    return one


def _refuse_unmounted(one: Savepoint, cluster: str, job: str) -> None:
    """Raises ``RequestRefused`` where the place of ``one`` is a directory that this machine cannot see: it would look as if it were gone."""
    from understudy.blobs.local import local_directory, refuse_unmounted
    from understudy.ha.savepoints import below, savepoints_of

    storage = local_directory(one.place.removesuffix(f"/{below(cluster, job, one.directory)}") or "/")
    if storage is not None:
        refuse_unmounted(storage, savepoints_of(cluster, job))


def _complete(job: Job, number: int, cluster: str) -> Savepoint:
    """Raises ``RequestRefused`` unless it is."""
    one = _numbered(job, number, cluster)
    if not one.complete:
        raise RequestRefused(
            f"savepoint {number} is {one.state}", where="fork", remedy="Fork one that is rehearsed or verified"
        )
    return one


def _store(where: Where, place: str) -> BlobStore:
    return where.blobs(place, "--ha-storage", _FILE)


def _remove_directory(directory: Path) -> None:
    """The manifest first; with files that are no blobs, such as checksums of Hadoop's. Raises ``RequestRefused``."""
    import shutil

    from understudy.ha.savepoints import MANIFEST

    try:
        (directory / MANIFEST).unlink(missing_ok=True)
        if directory.exists():
            shutil.rmtree(directory)
    except OSError as error:
        raise RequestRefused(
            f"it cannot be removed: {error.strerror}", where=str(error.filename or directory), remedy="Then try again"
        ) from None


def _base(where: Where, cluster: str, job: str, *, first: tuple[str, str]) -> str:
    """Where queries of ``job`` of ``cluster`` without a checkpoint location look for theirs, by default. ``first``: the cluster and the job that the
    savepoint is of. Raises ``SettingsError`` where that cannot be known.
    """
    if not job and first[0] != first[1]:
        raise SettingsError(
            f"the job of cluster {first[0]} is called {first[1]}, so the new one may have a name of its own, too, and looks below that",
            where="--job-id",
            remedy=f"Give what understudy run will be given, or {cluster} if that is nothing; or name --checkpoints",
        )
    return str((where.ha_dir or default_ha_dir()).absolute() / cluster / "checkpoints" / (job or cluster))


async def _refuse_used(where: Where, cluster: str) -> None:
    """Raises ``RequestRefused`` where anything has run under ``cluster``."""
    with suppress(SettingsError, JobNotBegun):  # there is no such cluster, or nothing has been led in it
        async with where.open() as stores:
            await JobOf.cluster(stores, "fork to")
            raise RequestRefused(
                f"a job has run under {cluster} already", where="--cluster-id", remedy="Choose one that is new"
            )


def _refuse_newer_spark(manifest: Manifest) -> None:
    """Spark does not promise to read checkpoints of a newer line. Raises ``RequestRefused``; nothing is known without PySpark."""
    try:
        here = version("pyspark")
    except PackageNotFoundError:
        return

    def line(of: str) -> tuple[int, ...]:
        return tuple(int(each) for each in of.split(".")[:2] if each.isdigit())

    if manifest.spark and line(here) < line(manifest.spark):
        raise RequestRefused(
            f"the savepoint was written by Spark {manifest.spark}, and this is {here}",
            where="fork",
            remedy="Upgrade PySpark first: checkpoints of a newer line are not read by an older one",
        )


def _tell_fork(manifest: Manifest, base: str, cluster: str, *, as_json: bool) -> None:
    from understudy.ha.saved_files import directory_for

    made = [
        {
            "query": each.query,
            "checkpoint": f"{base.rstrip('/')}/{directory_for(each, manifest)}",
            "batch": each.batch,
        }
        for each in manifest.queries
    ]
    if as_json:
        sys.stdout.write(f"{json.dumps({'cluster': cluster, 'savepoint': manifest.number, 'queries': made})}\n")
        return
    for each, made_of in zip(manifest.queries, made, strict=True):
        begins = f"goes on after batch {each.batch}" if each.batch >= 0 else "begins with its first batch"
        sink = f"{each.sink} {each.output}".strip()
        sys.stdout.write(f"query {each.query} {begins}, from {made_of['checkpoint']}; not into its sink ({sink})\n")
