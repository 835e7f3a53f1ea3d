"""What a replica runs on: who it is there, and what counts as evidence of a death.

*This machine*: several replicas share a directory, and the kernel says who has died. *A pod*: the kubelet says it. *A machine on its own*: the
others are elsewhere, no word of their deaths comes, and their leases run out.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from understudy.addresses import joined
from understudy.clock import BootClock, HostClock
from understudy.documents.nonce import unique
from understudy.errors import SettingsError
from understudy.events import Log
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import Alive, all_gone
from understudy.supervisor.driver_parts import DriverParts
from understudy.supervisor.evidence import EvidenceWatch
from understudy.supervisor.heap import WHOLE_HEAP, regions
from understudy.supervisor.native import Executors, Native
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.standby_staleness import mounted
from understudy.supervisor.workload import AfterExit

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer


_ORDINAL = re.compile(r"-\d{1,4}$")


class Evidence(Protocol):
    """Watches for the death of the replica that holds the lock."""

    async def run(self) -> None: ...

    def is_dead(self, replica: Replica) -> bool: ...


@dataclass(frozen=True, slots=True)
class EvidenceListener:
    """``leader`` tells which other replica holds the lock now. Who is told what: ``on_leader_dead`` the holder that died,
    ``on_own_pod_deleted`` the reason for which this replica has to stop, ``on_leader_pod_deleted`` that a takeover is near.
    """

    leader: Callable[[], str | None]
    on_leader_dead: Callable[[str], None]
    on_own_pod_deleted: Callable[[str], None]
    on_leader_pod_deleted: Callable[[], None]


EvidenceFactory = Callable[[ReplicaStore, EvidenceListener], Evidence]


async def _none_known() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Host:
    """``holder`` is this start of a supervisor and no other; ``name`` what people call the machine or pod.

    ``address``: where other replicas reach this one's probes, as host:port, or empty. ``workload`` and ``revision``:
    what rolls our code out, and its number for it; empty and 0 where nothing does, or it cannot be seen.
    ``look_up_revision`` asks again. ``after_exit``: what follows the end of this process. ``native`` is there when
    executors are pods. ``mounts``: Secrets and ConfigMaps that may be replaced while we run.
    ``java_options`` go before the user's own for the driver's JVM, which win. ``driver_parts``: how a driver is started
    here. ``unique`` gives texts that were never given before, ``chance`` numbers from 0 to 1. ``told_of_deaths``: whether the evidence
    knows of every replica that has died; where it does not, one that has long been silent is taken for lost.
    """

    holder: str
    name: str
    address: str
    alive: Alive
    evidence: EvidenceFactory
    close: Callable[[], Awaitable[None]]
    workload: str = ""
    revision: int = 0
    after_exit: AfterExit = AfterExit.NOTHING
    native: Native | None = None
    mounts: tuple[Path, ...] = ()
    java_options: str = ""
    driver_parts: DriverParts = field(default_factory=DriverParts)
    clock: HostClock = field(default_factory=BootClock)
    unique: Callable[[], str] = unique
    chance: Callable[[], float] = random.random
    look_up_revision: Callable[[], Awaitable[int]] = field(default=_none_known)
    told_of_deaths: bool = True

    def executors(self, submit: tuple[str, ...]) -> Executors:
        """Those of a job that was given ``submit``. Raises ``SettingsError``."""
        return Executors(submit) if self.native is None else self.native.executors(submit)


class NoEvidence:
    """Of a death on another machine there is none: a machine that cannot be reached and one that is off look the same. So every lease runs out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def run(self) -> None:
        await asyncio.Event().wait()

    def is_dead(self, replica: Replica) -> bool:
        """Whether ``replica`` has run below this very ``--ha-dir``, and is gone: with its processes, or with a boot of this machine that is over.

        Not known of a machine that has lost its ``--ha-dir`` with a restart: then its replica has to become silent, as on a lost machine.
        """
        proof = self._directory / replica.holder
        return all_gone(proof, replica.inode, replica.boot)


def this_machine(settings: RunSettings) -> Host:
    """One that all replicas run on: also the pod of a StatefulSet, whose volume has the documents, and which asks no API server."""

    def evidence(replicas: ReplicaStore, told: EvidenceListener) -> Evidence:
        # a signal comes unannounced here
        return EvidenceWatch(settings.home / "alive", replicas, told.leader, told.on_leader_dead)

    restarts = AfterExit.RESTART if PodIdentity.is_a_statefulsets() else AfterExit.NOTHING
    return replace(_machine(settings, evidence), after_exit=restarts)


def lone_machine(settings: RunSettings) -> Host:
    """A machine that shares nothing with the others but a server. Its own processes die with their supervisor."""

    def evidence(replicas: ReplicaStore, told: EvidenceListener) -> Evidence:
        del replicas, told
        return NoEvidence(settings.home / "alive")

    return replace(_machine(settings, evidence), told_of_deaths=False)


def _machine(settings: RunSettings, evidence: EvidenceFactory) -> Host:
    holder = str(uuid.uuid4())
    alive = Alive(settings.home / "alive" / holder)

    async def close() -> None:
        alive.leave()

    return Host(
        holder, socket.gethostname(), "", alive, evidence, close, java_options=regions(settings.submit, os.environ)
    )


@dataclass(frozen=True, slots=True)
class PodIdentity:
    uid: str
    name: str
    address: str

    @staticmethod
    def is_told() -> bool:
        """Whether the environment says that this is a pod, and which."""
        return bool(os.environ.get("UNDERSTUDY_POD_UID"))

    @classmethod
    def is_a_statefulsets(cls) -> bool:
        """Whether its name ends with an ordinal. Names that Deployments and Jobs give end with five random letters and digits."""
        return cls.is_told() and bool(_ORDINAL.search(os.environ.get("UNDERSTUDY_POD_NAME", "")))

    @classmethod
    def of_environment(cls) -> PodIdentity:
        """Raises ``SettingsError`` for a pod that does not say who it is."""
        uid = _from_pod("UNDERSTUDY_POD_UID", "metadata.uid")
        return cls(uid, _from_pod("UNDERSTUDY_POD_NAME", "metadata.name"), os.environ.get("UNDERSTUDY_POD_IP", ""))


async def this_pod(settings: RunSettings, pod: PodIdentity, api: ApiServer, log: Log) -> Host:
    """What is local to a pod (proof of life for its own processes, scratch, logs) is kept below ``--ha-dir``.

    Raises ``SettingsError`` for executors that cannot be pods, and ``DocumentError`` when the API server does not answer.
    """
    from understudy.supervisor.kubelet import KubeletWatch, holder_id, write_termination_message
    from understudy.supervisor.recorder import EventRecorder
    from understudy.supervisor.workload import Rollout

    start = str(uuid.uuid4())
    holder = holder_id(pod.uid, start)
    recorder = EventRecorder(api, pod.name, pod.uid, log)
    rollout = await Rollout.of(api, pod.name, log)
    native = Native.of(
        settings.submit, api, settings.cluster, start, pod.name, pod.address, rollout.image, settings.standby.executors
    )
    path = Path(os.environ.get("UNDERSTUDY_TERMINATION_LOG", "/dev/termination-log"))
    try:
        write_termination_message(holder, path)
    except OSError as error:  # without it a takeover waits for the lease, and is as safe
        log.say("no-termination-message", f"{path}: {error.strerror}; a takeover from this replica waits for its lease")
    alive = Alive(settings.home / "alive" / start)

    async def close() -> None:
        alive.leave()
        await recorder.close()

    def evidence(replicas: ReplicaStore, told: EvidenceListener) -> Evidence:
        del replicas
        return KubeletWatch(
            api,
            settings.cluster,
            pod.uid,
            told.leader,
            told.on_leader_dead,
            told.on_own_pod_deleted,
            told.on_leader_pod_deleted,
            log,
        )

    return Host(
        holder=holder,
        name=pod.name,
        address=joined(pod.address, 8080) if pod.address else "",
        alive=alive,
        evidence=evidence,
        close=close,
        workload=rollout.workload,
        revision=rollout.revision,
        after_exit=rollout.after_exit,
        look_up_revision=rollout.look,
        native=native,
        mounts=mounted(),
        java_options=f"{WHOLE_HEAP} {regions(settings.submit, os.environ)}",
    )


def _from_pod(variable: str, field: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        raise SettingsError(
            "not set", where=variable, remedy=f"Set it in the pod from the downward API: fieldRef: {field}"
        )
    return value
