"""Which services and which host a replica gets, by its kind of lock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.blobs.model import BlobStore
from understudy.blobs.probe import probe
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.errors import ServerUnreachable, SettingsError
from understudy.events import Log
from understudy.ha.services import HighAvailabilityServices
from understudy.supervisor.hosts import Host, PodIdentity, this_machine, this_pod
from understudy.supervisor.settings import RunSettings

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer


async def connect(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Raises ``SettingsError``, ``DocumentError``, what ``ApiServer.connect`` raises, and ``EnvironmentProblem`` where HA storage replaces
    what was created.
    """
    blobs = ha_storage(settings.storage.ha_storage, settings.submit, settings.timings.request)
    scratch = None
    if blobs is not None:
        scratch = shared_scratch(settings, log)
        try:
            await probe(blobs)
        except ServerUnreachable as error:  # it is asked again when something is to be written
            log.say("ha-storage-away", str(error))
    services, host = await in_a_pod(settings, log) if settings.on_kubernetes else on_one_machine(settings, log)
    return replace(services, blobs=blobs, scratch=scratch), host


def shared_scratch(settings: RunSettings, log: Log) -> BlobStore | None:
    """What ``--scratch`` is, to remove what dead replicas have left there; ``None`` where executors alone can reach it."""
    url = settings.storage.scratch
    try:
        return ha_storage(url, settings.submit, settings.timings.request, "--scratch")
    except SettingsError as error:
        log.say("scratch-kept", f"what dead replicas have left below {url} is removed by its own rules only: {error}")
        return None


def ha_storage(
    url: str, submit: Sequence[str], request_timeout: float, where: str = "--ha-storage"
) -> BlobStore | None:
    """The store behind ``url``, which was given as ``where``; ``None`` for an empty one. A job without it loads no client, and no settings of Spark's, which
    ``submit``, as spark-submit's options, and its files hold.

    Raises ``SettingsError``: ``url`` is of another kind, or Spark's settings cannot be translated.
    """
    scheme, slashes, place = url.partition("://")
    store: BlobStore
    if not url:
        return None
    if not slashes or scheme == "file":
        from understudy.blobs.filesystem import FilesystemBlobStore

        store = FilesystemBlobStore(Path(place if slashes else url).absolute(), request_timeout)
    elif scheme in {"s3a", "s3"} and place.partition("/")[0]:
        from understudy.blobs.s3 import S3BlobStore
        from understudy.s3.settings import translate
        from understudy.submit import all_settings

        bucket, _, prefix = place.partition("/")
        told = translate(all_settings(submit, os.environ), bucket)
        store = S3BlobStore(bucket, prefix, told, request_timeout)
    else:
        raise SettingsError(
            f"{url!r} is no place for blobs",
            where=where,
            remedy="Write s3a://BUCKET/PREFIX, or a directory that all replicas share",
        )
    return store


def on_one_machine(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Documents, lock and claims are files below ``--ha-dir``. Raises ``DocumentError``."""

    async def close() -> None:
        pass

    request = settings.timings.request
    documents = FilesystemDocumentStore(settings.home / "documents", request, log=log)
    host = this_machine(settings)
    claims = FilesystemDocumentStore(settings.home / "floor", request)
    return HighAvailabilityServices(documents, documents, claims, {}, close), host


async def in_a_pod(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Documents are ConfigMaps, the lock is what ``--lock`` says. The claims are the pod's own, and empty in a new one."""
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
        claims=FilesystemDocumentStore(settings.home / "floor", settings.timings.request),
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
