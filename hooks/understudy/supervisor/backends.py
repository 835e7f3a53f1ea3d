"""Which services and which host a replica gets, by its kind of lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.ha.services import HighAvailabilityServices
from understudy.supervisor.hosts import Host, PodIdentity, this_machine, this_pod
from understudy.supervisor.settings import RunSettings

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer


async def connect(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Raises ``SettingsError``, ``DocumentError``, and what ``ApiServer.connect`` raises."""
    return await in_a_pod(settings, log) if settings.on_kubernetes else on_one_machine(settings, log)


def on_one_machine(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Documents, lock and floor are files below ``--ha-dir``. Raises ``DocumentError``."""

    async def close() -> None:
        pass

    request = settings.timings.request
    documents = FilesystemDocumentStore(settings.home / "documents", request, log=log)
    host = this_machine(settings)
    floor = FilesystemDocumentStore(settings.home / "floor", request)
    return HighAvailabilityServices(documents, documents, floor, {}, close), host


async def in_a_pod(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Documents are ConfigMaps, the lock is what ``--lock`` says. The floor is the pod's own, and empty in a new one."""
    from understudy.documents.api_server import ApiServer
    from understudy.documents.kubernetes import KubernetesDocumentStore

    pod = PodIdentity.of_environment()
    api = await ApiServer.connect(settings.timings.request, settings.namespace)
    try:
        host = await this_pod(settings, pod, api, log)
    except BaseException:
        await api.close()
        raise
    services = HighAvailabilityServices(
        documents=KubernetesDocumentStore(api, log=log),
        lock=lock_store(api, settings.lock_kind, log),
        floor=FilesystemDocumentStore(settings.home / "floor", settings.timings.request),
        requests=api.sent,
        close=api.close,
    )
    return services, host


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
