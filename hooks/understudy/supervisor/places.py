"""Where a replica runs: what it keeps its documents in, who it is there, and what counts as evidence of a death.

*Here*: several replicas on one machine share a directory. *In a cluster*: each replica is a pod, documents are ConfigMaps, the
lock is a Lease, and the kubelet says who has died.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from understudy.addresses import joined
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import Alive
from understudy.supervisor.driver_parts import DriverParts
from understudy.supervisor.evidence import EvidenceWatch
from understudy.supervisor.native import Executors, Native
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.standby_staleness import mounted

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer


#: A pod's memory is its own, and a heap that begins small is collected again and again in a takeover (docs/decisions/0024).
WHOLE_HEAP = "-XX:InitialRAMPercentage=100"


class Evidence(Protocol):
    """Watches for the death of whoever holds the lock."""

    async def run(self) -> None: ...

    def is_dead(self, replica: Replica) -> bool: ...


class WatchMaker(Protocol):
    """Makes the watch. ``holder`` tells who else holds the lock now, or nobody. Whom to tell: that the holder is ``dead``, that we
    are ``doomed`` (with the reason), that the holder is ``leaving``: its pod is being deleted.
    """

    def __call__(
        self,
        replicas: ReplicaStore,
        holder: Callable[[], str | None],
        *,
        dead: Callable[[str], None],
        doomed: Callable[[str], None],
        leaving: Callable[[], None],
    ) -> Evidence: ...


async def _none_known() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Place:
    """``holder`` is this start of a supervisor and no other; ``floor`` is kept outside the lock's server.

    ``address``: where others reach this replica's probes, as host:port, or empty. ``requests`` counts what was sent to a server.
    ``workload`` and ``revision``: what rolls our code out, and its number for it; empty and 0 where nothing does, or it cannot
    be seen. ``look_up_revision`` asks again. ``begun_again``: whatever this process exits with, it is started anew. ``native`` is
    there when executors are pods. ``mounts``: Secrets and ConfigMaps that may be replaced while we run. ``java_options`` go
    before the user's own for the driver's JVM, which win. ``driver_parts``: how this machine starts a driver.
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
    workload: str = ""
    revision: int = 0
    begun_again: bool = False
    native: Native | None = None
    mounts: tuple[Path, ...] = ()
    java_options: str = ""
    driver_parts: DriverParts = field(default_factory=DriverParts)
    look_up_revision: Callable[[], Awaitable[int]] = field(default=_none_known)

    def executors(self, submit: tuple[str, ...]) -> Executors:
        """Those of a job that was given ``submit``. Raises ``SettingsError``."""
        return Executors(submit) if self.native is None else self.native.executors(submit)


def here(settings: RunSettings, log: Log) -> Place:
    """One machine, one directory. Raises ``DocumentError``."""
    home, request = settings.home, settings.timings.request
    holder = str(uuid.uuid4())
    documents = FilesystemDocumentStore(home / "documents", request, log=log)
    alive = Alive(home / "alive" / holder)

    async def close() -> None:
        alive.leave()

    floor = FilesystemDocumentStore(home / "floor", request)
    return Place(
        holder=holder,
        host=socket.gethostname(),
        address="",
        documents=documents,
        lock=documents,
        floor=floor,
        alive=alive,
        # nobody announces a signal here
        evidence=lambda replicas, holder, *, dead, **_: EvidenceWatch(home / "alive", replicas, holder, dead),
        close=close,
        requests={},
    )


async def in_cluster(settings: RunSettings, log: Log) -> Place:
    """A pod. What is local to it (proof of life for its own processes, scratch, logs) is kept below ``--ha-dir``.

    Raises ``SettingsError`` for a pod that does not say who it is, what ``ApiServer.connect`` raises, and ``DocumentError`` when
    the API server does not answer.
    """
    from understudy.documents.api_server import ApiServer
    from understudy.documents.kubernetes import KubernetesDocumentStore
    from understudy.supervisor.kubelet import KubeletWatch, holder_id, write_termination_message
    from understudy.supervisor.recorder import EventRecorder
    from understudy.supervisor.workload import Rollout

    pod_uid = _from_pod("UNDERSTUDY_POD_UID", "metadata.uid")
    pod_name = _from_pod("UNDERSTUDY_POD_NAME", "metadata.name")
    start = str(uuid.uuid4())
    holder = holder_id(pod_uid, start)
    api = await ApiServer.connect(settings.timings.request, settings.namespace)
    recorder = EventRecorder(api, pod_name, pod_uid, log)
    address = os.environ.get("UNDERSTUDY_POD_IP", "")
    try:
        rollout = await Rollout.of(api, pod_name, log)
        native = Native.of(
            settings.submit, api, settings.cluster, start, pod_name, address, rollout.image, settings.standby_executors
        )
    except BaseException:
        await api.close()
        raise
    path = Path(os.environ.get("UNDERSTUDY_TERMINATION_LOG", "/dev/termination-log"))
    try:
        write_termination_message(holder, path)
    except OSError as error:  # without it a takeover waits for the lease, and is as safe
        log.say("no-termination-message", f"{path}: {error.strerror}; a takeover from this replica waits for its lease")

    async def close() -> None:
        alive.leave()
        await recorder.close()
        await api.close()

    alive = Alive(settings.home / "alive" / start)
    return Place(
        holder=holder,
        host=pod_name,
        address=joined(address, 8080) if address else "",
        documents=KubernetesDocumentStore(api, log=log),
        lock=lock_store(api, settings.lock_kind, log),
        floor=FilesystemDocumentStore(settings.home / "floor", settings.timings.request),
        alive=alive,
        evidence=lambda _, holder, *, dead, doomed, leaving: KubeletWatch(
            api, settings.cluster, pod_uid, holder, dead, doomed, leaving, log
        ),
        close=close,
        requests=api.sent,
        workload=rollout.workload,
        revision=rollout.revision,
        begun_again=rollout.begun_again,
        look_up_revision=rollout.look,
        native=native,
        mounts=mounted(),
        java_options=WHOLE_HEAP,
    )


def lock_store(api: ApiServer, kind: str, log: Log | None = None) -> DocumentStore:
    """Where locks of ``kind`` are kept: ``lease``, ``configmap`` or ``multi``."""
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


def _from_pod(variable: str, field: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise SettingsError(
            "not set", where=variable, remedy=f"Set it in the pod from the downward API: fieldRef: {field}"
        )
    return value
