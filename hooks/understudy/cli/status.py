"""``understudy status``: who leads, who stands by, and how ready they are."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.run import default_ha_dir
from understudy.errors import SettingsError

if TYPE_CHECKING:
    from understudy.supervisor.picture import Picture

#: Time-out of one request, in seconds.
_REQUEST = 5.0


def status(
    ha_dir: Annotated[
        Path | None, typer.Option(help="Where documents are kept.", show_default="~/.local/state/understudy")
    ] = None,
    cluster_id: Annotated[str, typer.Option(help="Which cluster.", show_default="the only one there")] = "",
    namespace: Annotated[
        str, typer.Option(help="Look in this namespace of a Kubernetes cluster.", show_default="the context's")
    ] = "",
    context: Annotated[str, typer.Option(help="Look in the cluster of this kubeconfig context.")] = "",
    lock: Annotated[str, typer.Option(help="The lock's kind in a cluster: lease, configmap or multi.")] = "lease",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print again and again.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks, with --watch.")] = 2.0,
) -> None:
    """Show the leader, its epoch, and every standby: whether, how and when it last rehearsed.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod.
    """
    if namespace or context or os.environ.get("KUBERNETES_SERVICE_HOST"):
        if not cluster_id:
            raise SettingsError(
                "not given", where="--cluster-id", remedy="Name the cluster id that understudy run was given"
            )
        picture = functools.partial(_in_cluster, cluster_id, namespace, context, lock)
    else:
        picture = functools.partial(_here, _home((ha_dir or default_ha_dir()).absolute(), cluster_id))
    while True:
        now = asyncio.run(picture())
        text = json.dumps(asdict(now), indent=2) if as_json else "\n".join(now.lines(time.time()))
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        if not watch:
            return
        time.sleep(max(interval, 0.1))
        sys.stdout.write("\n")


async def _here(home: Path) -> Picture:
    from understudy.documents.filesystem import FilesystemDocumentStore
    from understudy.supervisor.picture import read_picture

    store = FilesystemDocumentStore(home / "documents", _REQUEST)
    return await read_picture(store, store, home.name)


async def _in_cluster(cluster: str, namespace: str, context: str, lock: str) -> Picture:
    from understudy.documents.api_server import ApiServer
    from understudy.documents.kubernetes import KubernetesDocumentStore
    from understudy.supervisor.picture import read_picture
    from understudy.supervisor.places import lock_store

    async with await ApiServer.connect(_REQUEST, namespace, context) as api:
        return await read_picture(KubernetesDocumentStore(api), lock_store(api, lock), cluster)


def _home(ha_dir: Path, cluster: str) -> Path:
    if cluster:
        if not (ha_dir / cluster / "documents").is_dir():
            raise SettingsError(
                f"no cluster {cluster!r} under {ha_dir}", where="--cluster-id", remedy="Look at --ha-dir"
            )
        return ha_dir / cluster
    found = sorted(path.parent for path in ha_dir.glob("*/documents"))
    match found:
        case [only]:
            return only
        case []:
            raise SettingsError(
                f"no cluster under {ha_dir}",
                where="--ha-dir",
                remedy="Give the directory that understudy run was given",
            )
        case _:
            names = ", ".join(path.name for path in found)
            raise SettingsError(f"several clusters: {names}", where="--cluster-id", remedy="Name one of them")
