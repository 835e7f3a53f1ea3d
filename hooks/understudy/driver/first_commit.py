"""The first commit of a driver that leads, as the fence counts it: on every file system alike."""

from __future__ import annotations

import time
from pathlib import Path

from understudy.driver.gate_client import GateClient
from understudy.fencing.counters import CountersPage
from understudy.protocol.counters import path_of
from understudy.protocol.gate import State

#: Seconds between two looks at the page.
_LOOK = 0.02


def first_commit(gate: Path, gate_client: GateClient) -> tuple[str, int] | None:
    """Wait for the first commit under this driver's token: its checkpoint and its batch. ``None`` once leadership is lost."""
    counters = CountersPage(path_of(gate))
    while gate_client.standing() is not State.REVOKED:
        first = counters.read().first
        if first is not None and first.token == int(gate_client.token()):
            return first.root, first.batch
        time.sleep(_LOOK)
    return None
