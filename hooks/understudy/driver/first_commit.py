"""The first commit of a driver that leads, as the fence counts it: on every file system alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.driver.checkpoint_reporter import CheckpointReporter
from understudy.driver.gate_client import GateClient
from understudy.driver.stale_snapshot import StaleSnapshotReporter
from understudy.fencing.counters import CountersPage
from understudy.protocol.counters import path_of
from understudy.protocol.gate import State
from understudy.protocol.messages import Committed, Message

#: Seconds between two looks at the page.
_LOOK = 0.02


@dataclass(slots=True, eq=False, kw_only=True)
class FirstCommit:
    """``gate`` is the path of the gate's page; that of the counters stands next to it."""

    gate: Path
    gate_client: GateClient
    stale_snapshot: StaleSnapshotReporter
    checkpoints: CheckpointReporter
    send: Callable[[Message], None]

    def report(self, began: float) -> None:
        """Wait for the first commit since ``began`` (``time.monotonic()``) and report it; from then on, what is committed.

        Returns once leadership is lost.
        """
        if (landed := self._wait()) is not None:
            self.stale_snapshot.committed()
            took = time.monotonic() - began
            self.checkpoints.report()
            self.send(Committed(*landed, took))
            self.checkpoints.follow()

    def _wait(self) -> tuple[str, int] | None:
        """The checkpoint and the batch of the first commit under this driver's token; ``None`` once leadership is lost."""
        counters = CountersPage(path_of(self.gate))
        while self.gate_client.standing() is not State.REVOKED:
            first = counters.read().first
            if first is not None and first.token == int(self.gate_client.token()):
                return first.root, first.batch
            time.sleep(_LOOK)
        return None
