"""``understudy submit``: stores a script with all that belongs to it, for replicas to run."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import JobOf, begun, who
from understudy.cli.run import split
from understudy.cli.where import FILES, ClusterId, Context, Ha, HaAddress, HaDir, HaStorage, JobId, Namespace, Where
from understudy.errors import SettingsError

if TYPE_CHECKING:
    from understudy.blobs.model import BlobStore
    from understudy.ha.draft import Draft
    from understudy.ha.submissions import Submission


def submit(
    rest: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SPARK-SUBMIT OPTIONS] JOB.PY [ARGUMENTS]",
            show_default=False,
            help="The script, as for spark-submit, with the options that belong to it.",
        ),
    ] = None,
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    job_id: JobId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    ha_storage: HaStorage = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Store a script, its arguments, its options of spark-submit and the files that these list, in HA storage, and let the job's document name them.

    Replicas that were started with understudy run --submitted wait for it, or find it when they start. One that runs already goes on with what it has:
    start replicas again, one after the other, as for any upgrade. The same again changes nothing.

    Options of understudy come first, then those of spark-submit, then the script and its arguments. Where it runs (--master) and what is secret is said to
    the replicas. Files are those of --jars, --py-files, --files and --archives, up to 64 MiB each; a URL stays a URL.

    Exit codes: 0 it is stored, or was; 2 an option is wrong or missing, or a file is; 4 a document or a stored file cannot be read; 5 the cluster id is
    another job's; 6 there is no such script; 7 a permission is missing; 8 the API server or the object store does not answer; 10 another submission came
    between. It is run only after 0, or where the line says that it is unknown whether a document was written.
    """
    import asyncio

    from understudy.ha.draft import Draft

    words, script, arguments = split(rest or [], "submit")
    if not cluster_id:
        raise SettingsError("it has to be named", where="--cluster-id", remedy="Give the one that the replicas have")
    if not ha_storage:
        raise SettingsError(
            "what is submitted is kept there", where="--ha-storage", remedy="Give it, as understudy run is given it"
        )
    _check_names(cluster_id, job_id)
    draft = Draft.of(words, script, arguments)
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, _settings(words))
    storage = where.blobs(ha_storage, "--ha-storage", FILES)
    here, one, news = asyncio.run(_submitted(where, job_id, storage, draft))
    if as_json:
        body = {"job": here, "submission": one.number, "manifest": one.manifest, "changed": news}
        sys.stdout.write(f"{json.dumps(body)}\n")
    elif news:
        sys.stdout.write(f"{here}: submission {one.number} is {one.script}; replicas that start from now on run it\n")
    else:
        sys.stdout.write(f"{here}: this is submission {one.number}; nothing was changed\n")


def _check_names(cluster: str, job: str) -> None:
    """Raises ``SettingsError``."""
    from understudy.protocol.names import Names, check_id

    names = Names(check_id(cluster, "--cluster-id"), check_id(job or cluster, "--job-id"))
    if names.collide:
        raise SettingsError(
            f"{names.job_document} is the name of another document",
            where="--job-id",
            remedy="Name the job for what it computes",
        )


def _settings(words: list[str]) -> list[str]:
    """The settings of Spark's among ``words``: they say how to reach a bucket, too."""
    from understudy.submit import settings_of

    return [f"{key}={value}" for key, value in settings_of(words).items()]


async def _submitted(where: Where, job_id: str, storage: BlobStore, draft: Draft) -> tuple[str, Submission, bool]:
    """Which job it is, in words, its submission, and whether it is a new one."""
    from understudy.blobs.probe import probe
    from understudy.ha.artifacts import ArtifactStore
    from understudy.ha.draft import submit
    from understudy.protocol.names import Names

    await probe(storage)  # before a cluster id is bound to a job
    async with where.open_new() as stores:
        job_of = await JobOf.bound(stores, job_id)

        async def known_without_job() -> int:
            return int(await begun(stores, job_of.replicas))

        store = ArtifactStore(storage, Names(stores.cluster, job_of.jobs.job))
        one, news = await submit(job_of.jobs, store, draft, known_without_job, by=who(), at=time.time())
        return job_of.here, one, news
