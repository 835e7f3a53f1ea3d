"""Services of an API server: documents are ConfigMaps, the lock is what ``--lock`` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.documents.model import DocumentStore
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.names import CLUSTER_LABEL, REPLICAS_LABELS, cluster_of_replicas
from understudy.services.plugin import Plugin, ServicesSettings

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer

#: Labels of the document of a cluster's replicas: those of the bundle, else those of the replica that wrote it first.
_MADE_BY_THE_BUNDLE = CLUSTER_LABEL
_WRITTEN_BY_REPLICAS = ",".join(f"{key}={value}" for key, value in REPLICAS_LABELS.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesServices(HighAvailabilityServices):
    """``api``: the server, which also tells of pods and takes Events. It is closed with the services."""

    api: ApiServer


async def connect(settings: ServicesSettings) -> KubernetesServices:
    """Raises ``SettingsError``, and what ``ApiServer.connect`` raises. Asks the server nothing."""
    from understudy.documents.api_server import ApiServer
    from understudy.documents.kubernetes import KubernetesDocumentStore

    if settings.address:
        raise SettingsError(
            "the API server is the pod's or the context's own",
            where="--ha-address",
            remedy="Leave it out; --namespace and --context choose another one",
        )
    api = await ApiServer.connect(settings.request_timeout, settings.namespace, settings.context)
    try:
        lock = lock_store(api, settings.lock, settings.log)
    except BaseException:
        await api.close()
        raise
    return KubernetesServices(
        documents=KubernetesDocumentStore(api, log=settings.log),
        lock=lock,
        requests=api.sent,
        close=api.close,
        place=f"in namespace {api.namespace}",
        api=api,
    )


def lock_store(api: ApiServer, kind: str, log: Log | None = None) -> DocumentStore:
    """Where locks of ``kind`` are kept: ``lease``, ``configmap`` or ``multi``. Raises ``SettingsError``."""
    from understudy.documents.kubernetes import ConfigMapShape, KubernetesDocumentStore, LeaseShape
    from understudy.election.multi import MultiStore

    lease = KubernetesDocumentStore(api, LeaseShape(), log=log)
    configmap = KubernetesDocumentStore(api, ConfigMapShape(), log=log)
    match kind:
        case "lease":
            return lease
        case "configmap":
            return configmap
        case "multi":
            return MultiStore(configmap, lease)
        case _:
            raise SettingsError(f"unknown lock {kind!r}", where="--lock", remedy="Choose lease, configmap or multi")


async def clusters(settings: ServicesSettings) -> list[str]:
    services = await connect(settings)
    try:
        return await clusters_of(services.api)
    finally:
        await services.close()


async def clusters_of(api: ApiServer) -> list[str]:
    """Cluster ids, by the ConfigMap of their replicas, which exists before the first replica does.

    Raises ``AccessDenied`` and ``ServerUnreachable``.
    """
    from understudy.documents.kubernetes import KubernetesDocumentStore

    documents = KubernetesDocumentStore(api)
    names = {*await documents.names(_MADE_BY_THE_BUNDLE), *await documents.names(_WRITTEN_BY_REPLICAS)}
    return sorted(cluster for name in names if (cluster := cluster_of_replicas(name)) is not None)


PLUGIN = Plugin(locks=("lease", "configmap", "multi"), connect=connect, clusters=clusters)
