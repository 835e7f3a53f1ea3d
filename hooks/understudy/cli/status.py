"""``understudy status``: shows the leader, the standbys, and how ready they are."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, Lock, Namespace, Stores, Where
from understudy.errors import (
    AccessDenied,
    DocumentError,
    IdentityConflict,
    JobNotBegun,
    ServerUnreachable,
    SettingsError,
    UnderstudyError,
)
from understudy.redaction import presentable

if TYPE_CHECKING:
    from understudy.supervisor.cluster_status import ClusterStatus

#: Seconds between two looks, with --watch.
_SOONEST, _LATEST = 0.1, 86_400.0


def status(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    lock: Lock = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print repeatedly.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks, with --watch.")] = 2.0,
) -> None:
    """Show the leader, its epoch, and every standby: whether, how and when it last rehearsed. Without an id, print a line per cluster.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod without --ha-dir.

    Exit codes: 0 the job has begun, even if it has ended since; 2 there is no such cluster id; 4 a document cannot be read, or is gone; 5 the job has
    moved elsewhere, or was removed; 7 a permission is missing; 8 the API server does not answer; 9 no replica has ever led the job. Of several
    clusters the first whose documents cannot be read decides.
    """
    import asyncio

    if not _SOONEST <= interval <= _LATEST:
        raise SettingsError(
            f"{interval:g} is no number of seconds from {_SOONEST:g} to {_LATEST:g}",
            where="--interval",
            remedy="Give one",
        )
    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    while True:
        try:
            asyncio.run(_print(where, lock, as_json=as_json))
        except (JobNotBegun, DocumentError) as error:
            if not watch or isinstance(error, AccessDenied):  # a right does not come by itself, the others may pass
                raise
            sys.stdout.write(f"{presentable(str(error))}\n")
        sys.stdout.flush()
        if not watch:
            return
        time.sleep(interval)
        sys.stdout.write("\n")


async def _print(where: Where, lock: str, *, as_json: bool) -> None:
    """Prints everything that could be read, then raises for what could not.

    Raises:
        UnderstudyError: what is printed is not the whole status.
    """
    async with where.open_all(lock) as found:
        if len(found) > 1:
            await _list(found, as_json=as_json)
            return
        picture, failures = await _look(found[0])
        grave = _gravest(failures)
        if grave is None and not picture.begun:
            grave = _not_begun(found[0], picture)
        told_by_error = isinstance(grave, AccessDenied | ServerUnreachable | JobNotBegun)
        if not told_by_error or picture.replicas or picture.submission is not None or as_json:
            text = json.dumps(asdict(picture), indent=2) if as_json else "\n".join(picture.lines(time.time()))
            sys.stdout.write(f"{text}\n")
        if grave is not None:
            raise grave


async def _list(found: list[Stores], *, as_json: bool) -> None:
    """Prints a line for each. Raises for the first that could not be read; one that has moved, or was removed, is only told of."""
    looked = [await _look(stores) for stores in found]
    pictures = [picture for picture, _ in looked]
    shown = json.dumps([asdict(each) for each in pictures], indent=2)
    sys.stdout.write(f"{shown if as_json else chr(10).join(each.summary() for each in pictures)}\n")
    unread = [error for _, failures in looked for error in failures if not isinstance(error, IdentityConflict)]
    if (grave := _gravest(unread)) is not None:
        raise grave


def _gravest(failures: list[UnderstudyError]) -> UnderstudyError | None:
    """That of a server that did not answer as asked, since others may follow from it; else the first."""
    server = (error for error in failures if isinstance(error, AccessDenied | ServerUnreachable))
    return next(server, failures[0] if failures else None)


async def _look(stores: Stores) -> tuple[ClusterStatus, list[UnderstudyError]]:
    from understudy.supervisor.cluster_status import read_cluster_status

    failures: list[UnderstudyError] = []
    return await read_cluster_status(stores.documents, stores.lock, stores.cluster, failures), failures


def _not_begun(stores: Stores, picture: ClusterStatus) -> UnderstudyError:
    waiting = f"; replicas that wait for the lock: {len(picture.replicas)}" if picture.replicas else ""
    return JobNotBegun(
        f"no replica has ever led a job here{waiting}",
        where=f"cluster {stores.cluster} {stores.place}",
        remedy="Start it with understudy run. The log of its replicas says what they wait for",
    )
