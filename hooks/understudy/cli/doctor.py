"""``understudy doctor``: reads everything of a cluster id, says what is wrong and what to do, and changes nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.where import (
    REQUEST,
    ClusterId,
    Context,
    Ha,
    HaAddress,
    HaDir,
    Lock,
    Namespace,
    NoCluster,
    Stores,
    Where,
    given,
)
from understudy.errors import AccessDenied, ServerUnreachable, SettingsError
from understudy.redaction import presentable

if TYPE_CHECKING:
    from understudy.doctor.examination import Here, Report, Subject
    from understudy.documents.api_server import ApiServer


def doctor(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    lock: Lock = "",
    job_id: Annotated[
        str,
        typer.Option(help="Which job, where the documents do not say it.", show_default="the cluster id"),
    ] = "",
    ha_storage: Annotated[
        str, given("UNDERSTUDY_HA_STORAGE", "Look at this HA storage, too, as understudy run was given it.")
    ] = "",
    conf: Annotated[
        list[str] | None,
        typer.Option(help="A setting of Spark's that says how to reach buckets. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is wrong with a job, its documents, its checkpoints, its replicas and this machine, and what to do. Changes nothing.

    A line per finding, worst first: problem, warning, note, ok. On one machine by default; in a Kubernetes cluster when --namespace or
    --context is given, or inside a pod without --ha-dir. A pod also knows its rights, its Java and its disks. The lock is watched for up to a lease.

    With --ha-storage one name is written there, and stays, as at each start of a replica.

    Exit codes: 0 there is no problem, perhaps warnings; otherwise that of the first problem, as understudy run would end with it; 2 there
    is no such cluster id.
    """
    import asyncio

    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    report = asyncio.run(_examined(where, lock, job_id, ha_storage))
    from understudy.doctor.finding import exit_code

    code = exit_code(report.findings)
    _print(report, code, as_json=as_json)
    raise typer.Exit(code)


async def _examined(where: Where, lock: str, job: str, storage: str) -> Report:
    """Raises ``SettingsError``."""
    from understudy.doctor.examination import examine, examine_here
    from understudy.doctor.finding import note, of_error

    here = _here(where, storage)
    try:
        async with where.open(lock, as_named=True) as stores, _asked_of_pods(where, stores) as api:
            return await examine(_subject(where, stores, job, here, api))
    except NoCluster as error:
        if where.cluster_id:
            raise
        return await examine_here(here, note("documents", error.what, error.remedy))
    except AccessDenied as error:
        if where.cluster_id:
            return await examine_here(here, of_error(where.services, error))
        # it is no right of replicas to list what there is
        raise SettingsError(
            f"which cluster ids there are may not be listed: {error.what}", where="--cluster-id", remedy="Name one"
        ) from error
    except ServerUnreachable as error:
        return await examine_here(here, of_error("api-server" if where.in_kubernetes else where.services, error))


def _here(where: Where, storage: str) -> Here:
    from understudy.doctor.examination import Here
    from understudy.supervisor.backends import ha_storage

    pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not where.context
    return Here(not where.in_kubernetes or pod, pod, ha_storage(storage, where.submit, REQUEST), where.submit)


@asynccontextmanager
async def _asked_of_pods(where: Where, stores: Stores) -> AsyncIterator[ApiServer | None]:
    """The API server that a replica in this pod asks about pods, where its documents are elsewhere; ``None`` where it asks none.

    Raises ``SettingsError`` for a pod that has no way to it, as a start of a replica does.
    """
    from understudy.documents.api_server import ApiServer
    from understudy.supervisor.hosts import PodIdentity

    if stores.api is not None or stores.home is not None or where.context or not PodIdentity.is_told():
        yield None
        return
    api = await ApiServer.connect(REQUEST, where.namespace)
    try:
        yield api
    finally:
        await api.close()


def _subject(where: Where, stores: Stores, job: str, here: Here, pods: ApiServer | None = None) -> Subject:
    from understudy.doctor.examination import Subject

    home = where.home_of(stores.cluster) if here.local else None
    return Subject(
        stores.cluster,
        job,
        stores.documents,
        stores.lock,
        stores.lock_kind,
        here,
        home=stores.home or home,
        alone=stores.home is None,
        api=stores.api,
        asked_of_pods=pods,
    )


def _print(report: Report, code: int, *, as_json: bool) -> None:
    if as_json:
        body = {
            "cluster": report.cluster,
            "job": report.job,
            "exit_code": code,
            "findings": [
                {**asdict(each), "text": presentable(each.text), "remedy": presentable(each.remedy)}
                for each in report.findings
            ],
        }
        sys.stdout.write(f"{json.dumps(body, indent=2)}\n")
        return
    if report.cluster:
        sys.stdout.write(f"cluster {report.cluster}   job {report.job}\n\n")
    width = max(len(each.check) for each in report.findings) + 2
    for each in report.findings:
        sys.stdout.write(f"{each.severity:<9}{each.check:<{width}}{presentable(str(each))}\n")
