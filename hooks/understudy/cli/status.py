"""``understudy status``: who leads, who stands by, and how ready they are."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.where import ClusterId, Context, HaDir, Namespace, Where

if TYPE_CHECKING:
    from understudy.supervisor.picture import Picture


def status(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    lock: Annotated[str, typer.Option(help="The lock's kind in a cluster: lease, configmap or multi.")] = "lease",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print again and again.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks, with --watch.")] = 2.0,
) -> None:
    """Show the leader, its epoch, and every standby: whether, how and when it last rehearsed.

    On one machine by default; in a Kubernetes cluster when --namespace or --context is given, or inside a pod without --ha-dir.
    """
    where = Where(ha_dir, cluster_id, namespace, context)
    while True:
        now = asyncio.run(_picture(where, lock))
        text = json.dumps(asdict(now), indent=2) if as_json else "\n".join(now.lines(time.time()))
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        if not watch:
            return
        time.sleep(max(interval, 0.1))
        sys.stdout.write("\n")


async def _picture(where: Where, lock: str) -> Picture:
    from understudy.supervisor.picture import read_picture

    async with where.open(lock) as stores:
        return await read_picture(stores.documents, stores.lock, stores.cluster)
