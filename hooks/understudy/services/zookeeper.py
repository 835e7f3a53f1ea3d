"""Services of a ZooKeeper ensemble: documents and locks are znodes below the path of ``--ha-address``."""

from __future__ import annotations

from importlib.util import find_spec

from understudy.errors import AccessDenied, EnvironmentProblem, ServerUnreachable, SettingsError
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.names import cluster_of_replicas
from understudy.services.names import find_names
from understudy.services.plugin import Plugin, ServicesSettings

try:
    from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError

    from understudy.documents.zookeeper import ZooKeeperDocumentStore
    from understudy.documents.zookeeper_connection import UnansweredError, ZooKeeperConnection
except ModuleNotFoundError as error:
    raise EnvironmentProblem(
        f"the package {error.name} is not installed",
        where="--ha zookeeper",
        remedy="Install understudy-spark[zookeeper]",
    ) from error

from understudy.documents.zookeeper_address import parse
from understudy.documents.zookeeper_tls import context_of, find_fault

#: Seconds that the first request may take, since it also finds a server.
_FIRST = 10.0


async def connect(settings: ServicesSettings) -> HighAvailabilityServices:
    """Raises ``SettingsError``, ``EnvironmentProblem``, ``AccessDenied`` and ``ServerUnreachable``. Writes nothing."""
    connection = _connection(settings)
    try:
        await _prove(connection)
    except BaseException:
        await connection.close()
        raise
    documents = ZooKeeperDocumentStore(connection, log=settings.log)
    place = f"in ZooKeeper {connection.address}"
    return HighAvailabilityServices(documents, documents, requests=connection.sent, close=connection.close, place=place)


def _connection(settings: ServicesSettings) -> ZooKeeperConnection:
    """Raises ``SettingsError`` and ``EnvironmentProblem`` for what kazoo would only fail with later, and say nothing of."""
    address = parse(settings.address)
    context_of(address)
    if address.kerberos and find_spec("kerberos") is None:
        raise EnvironmentProblem(
            "the package kerberos is not installed, which its option kerberos needs",
            where="--ha-address",
            remedy="Install understudy-spark[kerberos]: it needs a C compiler and libkrb5-dev; or use digest or sasl",
        )
    return ZooKeeperConnection(address, settings.request_timeout)


async def _prove(connection: ZooKeeperConnection) -> None:
    """The path is there, and a quorum is."""
    address = connection.address
    try:
        (_, there) = await connection.ask(lambda client: [client.sync_async("/"), client.exists_async("/")], _FIRST)
    except UnansweredError as error:
        await find_names(address.hosts, "--ha-address")
        if (fault := await find_fault(address)) is not None:
            raise fault from error
        raise ServerUnreachable(
            f"no server answers that has most of the others ({error})",
            where="--ha-address",
            remedy=f"Look at each of {', '.join(address.hosts)}: is it started, is it reached from here?",
        ) from error
    except KazooException as error:
        if isinstance(error, AuthFailedError) and address.kerberos:
            raise AccessDenied(
                f"Kerberos does not let us in, at {address.kerberos}/HOST",
                where="--ha-address",
                remedy="Look at klist: this user needs a ticket (kinit); the servers' principals are kerberos=SERVICE, a slash, "
                "and each host of the address",
            ) from error
        if isinstance(error, AuthFailedError | NoAuthError):
            raise AccessDenied(
                "ZooKeeper refuses us",
                where="--ha-address",
                remedy="Give the credentials (digest, sasl or kerberos) that the path was made with",
            ) from error
        raise
    if there is None:
        raise SettingsError(
            f"there is no {address.chroot or '/'} in ZooKeeper",
            where="--ha-address",
            remedy=f"Make it once, with the rights it shall have: zkCli.sh -server {address.hosts[0]} create {address.chroot}",
        )


async def clusters(settings: ServicesSettings) -> list[str]:
    connection = _connection(settings)
    try:
        await _prove(connection)
        names = await ZooKeeperDocumentStore(connection).names()
    finally:
        await connection.close()
    return [cluster for name in names if (cluster := cluster_of_replicas(name)) is not None]


PLUGIN = Plugin(locks=("zookeeper",), connect=connect, clusters=clusters, address="HOST:PORT,HOST:PORT,HOST:PORT/PATH")
