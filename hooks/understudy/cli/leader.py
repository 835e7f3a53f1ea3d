"""``understudy leader``: prints where the leader is reached, once or at every takeover."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.job_of import bound_job
from understudy.cli.options import enumeration
from understudy.cli.where import ClusterId, Conf, Context, Ha, HaAddress, HaDir, Namespace, Stores, Where
from understudy.errors import JobNotBegun

if TYPE_CHECKING:
    from understudy.election.retrieval import ComponentLeader, Retrieval

_COMPONENTS = ("endpoint", "job")


def leader(
    ha_dir: HaDir = None,
    cluster_id: ClusterId = "",
    namespace: Namespace = "",
    context: Context = "",
    ha: Ha = "",
    ha_address: HaAddress = "",
    conf: Conf = None,
    component: Annotated[
        str,
        typer.Option(
            help="Of what: endpoint (its probes and metrics, as host:port) or job (its holder).",
            **enumeration(_COMPONENTS),
        ),
    ] = "endpoint",
    follow: Annotated[bool, typer.Option("--follow", help="Go on, and print each other one.")] = False,
) -> None:
    """Print where the leader serves its probes and metrics, as host:port.

    It is read from the job's document: a leader that died is printed until the next one has claimed the job. With --follow a line follows at
    each takeover: none, where no leader is known.

    Exit codes: 0 there is one; 2 there is no such cluster id; 4 a document cannot be read; 5 the job has moved elsewhere, or was removed; 7 a permission is missing; 8 the API server does not answer; 9 no leader of
    that component is known.
    """
    import asyncio

    where = Where(ha_dir, cluster_id, namespace, context, ha, ha_address, conf)
    asyncio.run(_print(where, component, follow=follow))


async def _print(where: Where, component: str, *, follow: bool) -> None:
    async with where.open() as stores:
        retrieval = await _retrieval(stores)
        if follow:
            async for found in retrieval.follow(component):
                sys.stdout.write(f"{_shown(found) or 'none'}\n")
                sys.stdout.flush()
        if not (shown := _shown(await retrieval.read(component))):
            raise JobNotBegun(
                f"no leader of component {component} is known",
                where=f"cluster {stores.cluster} {stores.place}",
                remedy="understudy status shows the job and its replicas. The endpoint is known where understudy run listens",
            )
        sys.stdout.write(f"{shown}\n")


async def _retrieval(stores: Stores) -> Retrieval:
    """Raises ``DocumentError``, and ``JobNotBegun`` before any replica has joined."""
    from understudy.clock import BootClock
    from understudy.election.retrieval import Retrieval
    from understudy.ha.job import leader_of
    from understudy.protocol.names import job_document_of

    job = await bound_job(stores, "Start the job with understudy run")
    return Retrieval(stores.documents, job_document_of(stores.cluster, job), leader_of, BootClock())


def _shown(found: ComponentLeader | None) -> str:
    return "" if found is None else found.address or found.holder
