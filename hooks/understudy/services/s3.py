"""Services in a bucket: documents and the lock are objects below ``--ha-address``, which hosts that share nothing else can reach."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from understudy.errors import DocumentUnreadable, SettingsError
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.names import cluster_of_replicas, replicas_of
from understudy.services.plugin import Plugin, ServicesSettings
from understudy.submit import all_settings

if TYPE_CHECKING:
    from understudy.documents.s3 import S3DocumentStore

_ADDRESS = "s3a://BUCKET/PREFIX"
#: A bucket, and a prefix whose parts are names. Without a prefix, documents would lie among all else that the bucket holds.
_PLACE = re.compile(r"s3a?://([a-z0-9][a-z0-9.-]+)/+([A-Za-z0-9._=-]+(?:/[A-Za-z0-9._=-]+)*)/*")


async def connect(settings: ServicesSettings) -> HighAvailabilityServices:
    """Claims are files of this machine, so they are outside of the lock's server.

    A command only reads. A replica (which has a log) tries out whether conditional writes are honoured, before anything else is written.

    Raises:
        SettingsError: the address is none, or Spark's settings of the bucket cannot be translated.
        EnvironmentProblem: the server ignores the condition of a write.
        DocumentError: there is no such bucket, the server refuses us (``AccessDenied``), or does not answer (``ServerUnreachable``).
    """
    documents = _open(settings)
    if settings.cluster:
        with suppress(DocumentUnreadable):  # told where it is used
            await documents.read(replicas_of(settings.cluster))
    if settings.log is not None:
        await documents.probe()
    return HighAvailabilityServices(documents, documents, requests=documents.requests, place=f"below {documents.place}")


async def clusters(settings: ServicesSettings) -> list[str]:
    """Cluster ids, by the document of their replicas. Raises what ``connect`` raises."""
    found = (cluster_of_replicas(name) for name in await _open(settings).names())
    return sorted(cluster for cluster in found if cluster is not None)


def _open(settings: ServicesSettings) -> S3DocumentStore:
    from understudy.documents.s3 import S3DocumentStore
    from understudy.s3.settings import translate

    place = _PLACE.fullmatch(settings.address)
    if place is None:
        raise SettingsError(
            f"{settings.address!r} is no place for documents",
            where="--ha-address",
            remedy=f"Write {_ADDRESS}, the same for all replicas",
        )
    told = translate(all_settings(settings.submit, os.environ), place[1])
    return S3DocumentStore(place[1], place[2], told, settings.request_timeout, log=settings.log)


PLUGIN = Plugin(locks=("s3",), connect=connect, clusters=clusters, address=_ADDRESS)
