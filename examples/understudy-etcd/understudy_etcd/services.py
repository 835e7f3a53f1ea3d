"""What ``--ha etcd`` opens. Nothing is written before a member has answered for most of the others."""

from __future__ import annotations

import asyncio

from understudy.services.plugin import (
    HighAvailabilityServices,
    Plugin,
    ServerUnreachable,
    ServicesSettings,
    SettingsError,
    cluster_of_replicas,
    find_names,
)
from understudy_etcd.address import FORM, parse
from understudy_etcd.client import NOT_FOUND, EtcdClient, RefusedError, UnansweredError, UnavailableError
from understudy_etcd.documents import EtcdDocumentStore, below, refusal

#: Seconds in which etcd elects a leader, unless votes are split, and how many of them a start waits for.
_ELECTION, _ELECTIONS = 1.0, 3


async def connect(settings: ServicesSettings) -> HighAvailabilityServices:
    """Counts documents, which proves that most members are there and that we may read. Writes nothing.

    Raises ``SettingsError``, ``AccessDenied`` and ``ServerUnreachable``.
    """
    client = EtcdClient(parse(settings.address), settings.request_timeout)
    try:
        await _prove(client)
    except BaseException:
        await client.close()
        raise
    documents = EtcdDocumentStore(client, log=settings.log)
    place = f"in etcd {client.address}"
    return HighAvailabilityServices(documents, documents, requests=client.sent, close=client.close, place=place)


async def clusters(settings: ServicesSettings) -> list[str]:
    """Cluster ids, by the document of their replicas. Raises ``SettingsError``, ``AccessDenied`` and ``ServerUnreachable``."""
    client = EtcdClient(parse(settings.address), settings.request_timeout)
    try:
        names = await EtcdDocumentStore(client).names()
    finally:
        await client.close()
    return [cluster for name in names if (cluster := cluster_of_replicas(name)) is not None]


async def _prove(client: EtcdClient) -> None:
    address = client.address
    try:
        await _count(client)
    except UnansweredError as error:
        await find_names(address.members, "--ha-address")
        raise ServerUnreachable(
            f"no member answers that has most of the others ({error})",
            where="--ha-address",
            remedy=f"Look at each of {', '.join(address.members)}: is it started, is it reached from here, is TLS on at both ends or at none?",
        ) from error
    except RefusedError as error:
        if error.code == NOT_FOUND:
            raise SettingsError(str(error), where="--ha-address", remedy="Name the port for etcd's clients") from error
        raise refusal(error, address, address.prefix) from error


async def _count(client: EtcdClient) -> None:
    """Asks each member once, if need be: one that is frozen takes connections, and is left after its time. Elections are waited for."""
    left, elections = len(client.address.members), _ELECTIONS
    while True:
        try:
            await client.ask("/v3/kv/range", {**below(client.address.prefix), "count_only": True})
        except UnavailableError:
            if not elections:
                raise
            elections -= 1
            await asyncio.sleep(_ELECTION)
        except UnansweredError:
            left -= 1
            if not left:
                raise
        else:
            return


PLUGIN = Plugin(locks=("etcd",), connect=connect, clusters=clusters, address=FORM)
