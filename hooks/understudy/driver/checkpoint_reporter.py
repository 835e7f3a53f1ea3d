"""Tells the supervisor which batch each of a leader's queries has committed: what the job's document says of its checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError

from understudy.driver.fence_client import FenceClient, key_of
from understudy.driver.gate_client import GateClient
from understudy.driver.query_registry import QueryRegistry
from understudy.protocol.gate import State
from understudy.protocol.messages import Checkpoints, CommittedBatch, Message

#: Seconds between two reports. The job's document is written once a minute.
_EVERY = 20.0


@dataclass(slots=True, eq=False, kw_only=True)
class CheckpointReporter:
    gate_client: GateClient
    registry: QueryRegistry
    fence: FenceClient
    send: Callable[[Message], None]
    # guards _told, so that no older report is sent after a newer one
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _told: Checkpoints = field(default_factory=lambda: Checkpoints([]), init=False)

    def report(self) -> None:
        """Send ``Checkpoints`` if it says more than the last one."""
        with self._lock:
            try:
                committed = self.fence.committed()
            except (Py4JError, OSError):
                return  # the JVM is gone; the supervisor sees to it
            queries = {each.checkpoint: each for each in self.registry.queries() if each.checkpoint is not None}
            batches = [
                CommittedBatch(root, query.name, query.sink.kind, committed[key])
                for root, query in queries.items()
                if (key := key_of(root)) in committed
            ]
            if (now := Checkpoints(batches)) != self._told:
                self._told = now
                self.send(now)

    def follow(self) -> None:
        """Report again and again, until leadership is lost."""
        while self.gate_client.standing() is not State.REVOKED:
            time.sleep(_EVERY)
            self.report()
