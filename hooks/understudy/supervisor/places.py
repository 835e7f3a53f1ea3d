"""Where a replica runs: what it keeps its documents in, who it is there, and what counts as evidence of a death.

*Here*: several replicas on one machine share a directory. *In a cluster*: each replica is a pod, documents are ConfigMaps, the
lock is a Lease, and the kubelet says who has died.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import Alive
from understudy.supervisor.evidence import EvidenceWatch
from understudy.supervisor.settings import RunSettings


class Evidence(Protocol):
    """Watches for the death of whoever holds the lock."""

    async def run(self) -> None: ...

    def is_dead(self, replica: Replica) -> bool: ...


#: Makes the watch: who holds the lock now (or nobody), and whom to tell that the holder has died.
WatchMaker = Callable[[ReplicaStore, Callable[[], str | None], Callable[[str], None]], Evidence]


@dataclass(frozen=True, slots=True)
class Place:
    """``holder`` is this start of a supervisor and no other; ``floor`` is kept outside the lock's server.

    ``address``: where others reach this replica's probes, as host:port, or empty. ``requests`` counts what was sent to a server.
    """

    holder: str
    host: str
    address: str
    documents: DocumentStore
    lock: DocumentStore
    floor: DocumentStore
    alive: Alive
    evidence: WatchMaker
    close: Callable[[], Awaitable[None]]
    requests: dict[str, int]


def here(settings: RunSettings, log: Log) -> Place:
    """One machine, one directory. Raises ``DocumentError``."""
    home, request = settings.home, settings.timings.request
    holder = str(uuid.uuid4())
    documents = FilesystemDocumentStore(home / "documents", request, log=log)
    alive = Alive(home / "alive" / holder)

    def evidence(
        replicas: ReplicaStore, leader: Callable[[], str | None], dead: Callable[[str], None]
    ) -> EvidenceWatch:
        return EvidenceWatch(home / "alive", replicas, leader, dead)

    async def close() -> None:
        alive.leave()

    floor = FilesystemDocumentStore(home / "floor", request)
    return Place(holder, socket.gethostname(), "", documents, documents, floor, alive, evidence, close, {})


async def in_cluster(settings: RunSettings, log: Log) -> Place:
    """A pod. What is local to it (proof of life for its own processes, scratch, logs) is kept below ``--ha-dir``.

    Raises ``SettingsError`` for a pod that does not say who it is, and what ``ApiServer.connect`` raises.
    """
    from understudy.documents.api_server import ApiServer
    from understudy.documents.kubernetes import ConfigMapShape, KubernetesDocumentStore, LeaseShape
    from understudy.supervisor.kubelet import KubeletWatch, holder_id, write_termination_message

    pod_uid, pod_name = (
        _from_pod("UNDERSTUDY_POD_UID", "metadata.uid"),
        _from_pod("UNDERSTUDY_POD_NAME", "metadata.name"),
    )
    start = str(uuid.uuid4())
    holder = holder_id(pod_uid, start)
    api = await ApiServer.connect(settings.timings.request, settings.namespace)
    path = Path(os.environ.get("UNDERSTUDY_TERMINATION_LOG", "/dev/termination-log"))
    try:
        write_termination_message(holder, path)
    except OSError as error:  # without it a takeover waits for the lease, and is as safe
        log.say("no-termination-message", f"{path}: {error.strerror}; a takeover from this replica waits for its lease")
    documents = KubernetesDocumentStore(api, ConfigMapShape(), log=log)
    lock = documents if settings.lock_kind == "configmap" else KubernetesDocumentStore(api, LeaseShape(), log=log)

    def evidence(replicas: ReplicaStore, leader: Callable[[], str | None], dead: Callable[[str], None]) -> KubeletWatch:
        del replicas
        return KubeletWatch(api, settings.cluster, leader, dead, log)

    async def close() -> None:
        alive.leave()
        await api.close()

    floor = FilesystemDocumentStore(settings.home / "floor", settings.timings.request)
    alive = Alive(settings.home / "alive" / start)
    address = f"{ip}:8080" if (ip := os.environ.get("UNDERSTUDY_POD_IP")) else ""
    return Place(holder, pod_name, address, documents, lock, floor, alive, evidence, close, api.sent)


def _from_pod(variable: str, field: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise SettingsError(
            "not set", where=variable, remedy=f"Set it in the pod from the downward API: fieldRef: {field}"
        )
    return value
