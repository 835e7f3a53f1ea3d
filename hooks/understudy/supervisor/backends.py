"""Which services a replica gets, by their name, and which host belongs to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.blobs.local import local_directory
from understudy.blobs.model import BlobStore
from understudy.blobs.probe import probe
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import ServerUnreachable, SettingsError
from understudy.events import Log
from understudy.ha.services import HighAvailabilityServices
from understudy.services import registry
from understudy.services.plugin import ServicesSettings
from understudy.supervisor.hosts import Host, PodIdentity, lone_machine, this_machine, this_pod
from understudy.supervisor.settings import RunSettings

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer


async def connect(settings: RunSettings, log: Log) -> tuple[HighAvailabilityServices, Host]:
    """Raises ``SettingsError``, ``DocumentError``, what ``registry.connect`` raises, and ``EnvironmentProblem`` where HA storage replaces
    what was created.
    """
    in_pod = settings.on_kubernetes or (PodIdentity.is_told() and not settings.share_a_disk)
    pod = PodIdentity.of_environment() if in_pod else None
    services = await registry.connect(settings.ha, _told(settings, log))
    try:
        blobs = ha_storage(settings.storage.ha_storage, settings.submit, settings.timings.request)
        scratch = None
        if blobs is not None:
            scratch = shared_scratch(settings, log)
            try:
                await probe(blobs)
            except ServerUnreachable as error:  # it is asked again when something is to be written
                log.say("ha-storage-away", str(error))
        host = await _host(settings, services, pod, log)
    except BaseException:
        await services.close()
        raise
    claims = services.claims or FilesystemDocumentStore(settings.home / "floor", settings.timings.request)
    return replace(services, claims=claims, blobs=blobs, scratch=scratch), host


async def _host(settings: RunSettings, services: HighAvailabilityServices, pod: PodIdentity | None, log: Log) -> Host:
    """What this replica runs on: a pod, this machine with all the others, or a machine of which the others see nothing.

    A pod that is told which one it is asks its cluster's API server about pods, wherever documents are (docs/decisions/0068).
    """
    if pod is None:
        return this_machine(settings) if settings.share_a_disk else lone_machine(settings)
    from understudy.services.kubernetes import KubernetesServices

    if isinstance(services, KubernetesServices):
        return await this_pod(settings, pod, services.api, log)
    from understudy.documents.api_server import ApiServer

    api = await ApiServer.connect(settings.timings.request, settings.namespace)
    return await _this_pod_alone(settings, pod, api, log)


async def _this_pod_alone(settings: RunSettings, pod: PodIdentity, api: ApiServer, log: Log) -> Host:
    """A pod whose services have no ``api``: it is closed with the host, or at once where there is none. Raises what ``this_pod`` raises."""
    try:
        host = await this_pod(settings, pod, api, log)
    except BaseException:
        await api.close()
        raise

    async def close() -> None:
        await host.close()
        await api.close()

    return replace(host, close=close)


def _told(settings: RunSettings, log: Log) -> ServicesSettings:
    return ServicesSettings(
        cluster=settings.cluster,
        lock=settings.lock_kind,
        request_timeout=settings.timings.request,
        ha_dir=settings.ha_dir,
        address=settings.ha_address,
        namespace=settings.namespace,
        submit=settings.submit,
        log=log,
    )


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
    scheme, _, place = url.partition("://")
    store: BlobStore
    if not url:
        return None
    if (directory := local_directory(url)) is not None:
        from understudy.blobs.filesystem import FilesystemBlobStore

        store = FilesystemBlobStore(directory, request_timeout)
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
    from understudy.services.filesystem import open_directory

    return open_directory(_told(settings, log)), this_machine(settings)
