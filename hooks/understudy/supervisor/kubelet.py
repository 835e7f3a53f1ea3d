"""Evidence in a cluster: the kubelet's word that the leader's container has ended, with every process in it; and that our own will.

The container's main process wrote its holder id to the termination message when it started. A ``terminated`` state that carries
this very id is a statement about this very process: not about its successor in the same container, not about a pod of the same
name. A pod's phase, its absence, a node's condition or a restart count proves no such thing, and deposes no leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from understudy.documents.api_server import ApiServer, Json
from understudy.errors import UnderstudyError
from understudy.events import Log
from understudy.ha.replicas import Replica
from understudy.protocol.names import CLUSTER_LABEL

#: Reasons under which a kubelet reports a container it has lost sight of: its processes may live.
_UNSEEN = frozenset({"ContainerStatusUnknown"})
#: Seconds between two attempts to watch.
_AGAIN = 1.0


def holder_id(pod_uid: str, start: str) -> str:
    """Who holds a lock: the pod, and which start of a supervisor in it."""
    return f"{pod_uid}_{start}"


def terminated(pod: Json, holder: str) -> bool:
    """Whether ``pod`` reports that the container whose main process was ``holder`` has ended, with everything in it."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("hostPID") or spec.get("shareProcessNamespace"):
        return False  # the container's end is not the end of its processes
    if not holder.startswith(f"{pod['metadata']['uid']}_"):
        return False
    for container in status.get("containerStatuses") or []:
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            end = state.get("terminated")
            if end and end.get("reason") not in _UNSEEN and str(end.get("message", "")).strip() == holder:
                return True
    return False


class KubeletWatch:
    """Reports the end of the lock's holder to ``dead``, once. ``holder`` returns the present holder, or ``None``.

    ``on_own_pod_deleted`` is called once when the pod of uid ``own`` is being deleted. A deletion cannot be taken back,
    and the kubelet sends SIGTERM only once it has heard of it, too (0.2 s later, seen). ``on_leader_pod_deleted`` is
    called once per other holder whose pod is being deleted.
    """

    def __init__(
        self,
        api: ApiServer,
        cluster: str,
        own: str,
        holder: Callable[[], str | None],
        dead: Callable[[str], None],
        on_own_pod_deleted: Callable[[str], None],
        on_leader_pod_deleted: Callable[[], None],
        log: Log,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._holder = holder
        self._dead = dead
        self._own = own
        self._on_own_pod_deleted, self._on_leader_pod_deleted = on_own_pod_deleted, on_leader_pod_deleted
        self._told: set[str] = set()  # uids of pods
        self._log = log
        self._pods: dict[str, Json] | None = None  # by uid; None before the first list
        self._reported: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_looking())
            group.create_task(self._keep_watching())

    async def _keep_looking(self) -> None:
        """Who leads may become known after the news of its end."""
        while True:
            await asyncio.sleep(_AGAIN)
            with suppress(UnderstudyError, OSError, LookupError, TypeError, AttributeError):  # an answer that is no pod
                await self._look()

    async def _keep_watching(self) -> None:
        broken = ""
        while True:
            try:
                await self._watch()
                broken = ""
            except Exception as error:  # noqa: BLE001 - after any answer of a server or a proxy the watch begins again
                if str(error) != broken:
                    broken = str(error)
                    cause = broken or type(error).__name__
                    self._log.say("evidence-blind", f"pods cannot be watched, so leases have to run out: {cause}")
            await asyncio.sleep(_AGAIN)

    def is_dead(self, replica: Replica) -> bool:
        """Whether ``replica`` can be disregarded: for tidying up and for choosing a successor, never for deposing."""
        if self._pods is None:
            return False
        pod = self._pods.get(replica.holder.partition("_")[0])
        return pod is None or terminated(pod, replica.holder)

    async def _watch(self) -> None:
        path, selector = self._api.path("pods"), f"{CLUSTER_LABEL}={self._cluster}"
        answer = await self._api.request("GET", path, labelSelector=selector)
        if answer.status != 200:
            raise OSError(answer.reason)
        self._pods = {pod["metadata"]["uid"]: pod for pod in answer.body["items"]}
        self._look_at_deletions()
        await self._look()
        version = answer.body["metadata"]["resourceVersion"]
        async for event in self._api.watch(path, labelSelector=selector, resourceVersion=version):
            pod = event["object"]
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    self._pods[pod["metadata"]["uid"]] = pod
                    self._look_at_deletions()
                    await self._look()
                case "DELETED":
                    # its last state may be the only word of its end there ever is
                    self._pods[pod["metadata"]["uid"]] = pod
                    await self._look()
                    del self._pods[pod["metadata"]["uid"]]

    def _look_at_deletions(self) -> None:
        leader = (self._holder() or "").partition("_")[0]
        for uid in (self._own, leader):
            pod = (self._pods or {}).get(uid)
            if pod is None or "deletionTimestamp" not in pod["metadata"] or uid in self._told:
                continue
            self._told.add(uid)
            if uid == self._own:
                self._on_own_pod_deleted("the deletion of its pod")
            else:
                self._on_leader_pod_deleted()

    async def _look(self) -> None:
        holder = self._holder()
        if holder is None or holder in self._reported or self._pods is None:
            return
        pod = self._pods.get(holder.partition("_")[0])
        if pod is None or not terminated(pod, holder):
            return
        if await self._confirmed(pod, holder):
            self._reported.add(holder)
            self._dead(holder)

    async def _confirmed(self, pod: Json, holder: str) -> bool:
        """Ask the server's quorum: a watch may replay the past, or show a status that was forged and taken back."""
        with suppress(OSError):
            answer = await self._api.request("GET", self._api.path("pods", pod["metadata"]["name"]))
            if answer.status == 200:
                return terminated(answer.body, holder)
            return answer.status == 404 and "deletionTimestamp" in pod["metadata"]
        return False


def write_termination_message(holder: str, path: Path) -> None:
    """Say who this container's main process is, for the kubelet to repeat when it has ended. Raises ``OSError``."""
    path.write_text(holder, encoding="ascii")
