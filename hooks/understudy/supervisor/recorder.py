"""Kubernetes Events: what an operator sees in ``kubectl describe pod`` of grants, losses and refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from understudy.documents.api_server import ApiServer, Json
from understudy.events import Event, Log
from understudy.protocol.names import REPORTING_CONTROLLER

#: Sentences of the log that are worth an Event: its type and its reason.
ANNOUNCED: Mapping[str, tuple[str, str]] = {
    "claimed": ("Normal", "LeadershipGranted"),
    "first-commit": ("Normal", "TookOver"),
    "released": ("Normal", "LeadershipReleased"),
    "job-ended": ("Normal", "JobEnded"),
    "lost": ("Warning", "LeadershipLost"),
    "parked": ("Warning", "LeadershipParked"),
    "request": ("Normal", "RequestTakenUp"),
    "suspended": ("Normal", "JobSuspended"),
    "resumed": ("Normal", "JobResumed"),
    "request-failed": ("Warning", "RequestFailed"),
    "request-withdrawn": ("Normal", "RequestWithdrawn"),
    "driver-died": ("Warning", "DriverDied"),
    "query-failed": ("Warning", "QueryFailed"),
    "stale-write-refused": ("Warning", "StaleWriteRefused"),
    "refused": ("Warning", "LockRefused"),
    "superseded": ("Warning", "GenerationSuperseded"),
    "stopped-for": ("Warning", "ReplicaRefused"),
    "unreachable": ("Warning", "LockUnreachable"),
    "status-write-failed": ("Warning", "DocumentNotWritten"),
    "unpublished": ("Warning", "DocumentNotWritten"),
    "task-failed": ("Warning", "TaskFailed"),
    "document-large": ("Warning", "DocumentLarge"),
}
#: The API server's limit for a note, in characters.
_NOTE = 1024
#: So many may wait for an API server that does not answer; more are dropped, for the log has them all.
_WAITING = 64
#: How long a process that ends waits for its last Events to be sent, in seconds.
_LAST = 1.0


class EventRecorder:
    """Hears the log and sends Events about the own pod. Nothing waits for it, and nothing depends on it."""

    def __init__(self, api: ApiServer, pod_name: str, pod_uid: str, log: Log) -> None:
        self._api, self._pod, self._uid, self._log = api, pod_name, pod_uid, log
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[Json] = asyncio.Queue(_WAITING)
        self._sending = asyncio.create_task(self._send())
        log.listeners.append(self._hear)

    async def close(self) -> None:
        self._log.listeners.remove(self._hear)
        await asyncio.sleep(0)  # what was said last is in the queue after this
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                await self._waiting.join()
        self._sending.cancel()

    def _hear(self, event: Event) -> None:
        if event.event in ANNOUNCED:
            with suppress(RuntimeError):  # the loop is closed: what is said so late has the log alone
                self._loop.call_soon_threadsafe(self._put, self._object(event))

    def _put(self, event: Json) -> None:
        if not self._waiting.full():
            self._waiting.put_nowait(event)

    def _object(self, event: Event) -> Json:
        kind, reason = ANNOUNCED[event.event]
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{self._pod}.{time.time_ns():x}", "namespace": self._api.namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": kind,
            "reason": reason,
            "action": event.event,
            "note": event.sentence[:_NOTE],
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self._pod,
                "namespace": self._api.namespace,
                "uid": self._uid,
            },
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self._pod,
        }

    async def _send(self) -> None:
        silent = False
        while True:
            event = await self._waiting.get()
            try:
                answer = await self._api.request("POST", self._api.path("events", group="events.k8s.io/v1"), event)
                problem = "" if answer.status in (200, 201) else answer.reason
            except Exception as error:  # noqa: BLE001 - after any answer of a proxy, later Events are sent
                problem = str(error) or type(error).__name__
            finally:
                self._waiting.task_done()
            if problem and not silent:
                self._log.say("no-events", f"Events cannot be written: {problem}")
            silent = bool(problem)
