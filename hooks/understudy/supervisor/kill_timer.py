"""The timer that kills a driver's session when its lease cannot be renewed. A thread of its own, doing no I/O until it kills.

It must not depend on the event loop: a loop that waits for a hung disk is exactly when the timer is needed. The JVM's halting
thread does the same from the other side, in case this whole process is frozen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from understudy.clock import instant
from understudy.fencing.activity import Activity
from understudy.fencing.gate import GateWriter
from understudy.protocol.gate import State

#: Seconds between two looks: near a deadline, and while none is nearer than ``_NEAR``.
_LOOK, _LOOK_FAR = 0.05, 0.2
_NEAR = 0.5


class KillTimer:
    def __init__(self, gate: GateWriter, activity: Activity, kill: Callable[[str], None]) -> None:
        self._gate = gate
        self._activity = activity
        self._kill = kill
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kill-timer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        look = _LOOK
        while not self._stopped.wait(look):
            view = self._gate.view
            now = instant()
            near = view.state in {State.OPEN, State.CLOSED} and view.kill_due(now.plus(_NEAR), busy=True)
            look = _LOOK if near else _LOOK_FAR
            if not near:
                continue
            busy = self._activity.running > 0
            if view.kill_due(now, busy=busy):
                self._kill(
                    "user code was running when the lease could not be renewed" if busy else "parked for too long"
                )
                return
