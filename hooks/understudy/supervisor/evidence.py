"""Evidence on one machine: the leader's proof of life is gone, so every process of its that could write is dead.

One thread per leader waits in flock(2): the kernel wakes it when that leader's supervisor dies, and until then it costs
nothing. Driver and JVM die with their supervisor. Processes that the script has forked do not: they are killed here
before the next replica leads, because the proof of life is free only without them. A supervisor that is frozen keeps
its lock, and its processes.

Such a thread cannot be told to stop, so it is a daemon. There is one for each replica that ever led and still lives,
and it ends when that replica does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from understudy.errors import UnderstudyError
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import all_gone, kill_orphans, supervisor_died, supervisor_lock, tombstone

#: Seconds between two looks at who leads.
_LOOK = 0.2
#: Seconds until a holder is looked up again that has no replica document, or whose proof of life cannot be read.
_AGAIN = 1.0
#: Seconds for which a proof of death is kept: longer than any lease, and than a restart of everything.
_KEPT = 86400.0
#: Seconds in which a dead supervisor's processes are killed; from then on they are only waited for.
_CLEAR_WITHIN = 30.0
#: Seconds between two sweeps through all processes, and between two looks at the lock.
_SWEEP, _POLL = 0.1, 0.002


class EvidenceWatch:
    """Reports the death of the lock's holder to ``dead``, once. ``holder`` returns the present holder, or ``None``."""

    def __init__(
        self, directory: Path, replicas: ReplicaStore, holder: Callable[[], str | None], dead: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._replicas = replicas
        self._holder = holder
        self._dead = dead
        self._watched: set[str] = set()

    async def run(self) -> None:
        self._sweep()
        while True:
            holder = self._holder()
            if holder is not None and holder not in self._watched:
                replica = await self._learn(holder)
                if replica is None:  # an elector of another kind: its lease has to run out
                    await asyncio.sleep(_AGAIN)
                    continue
                arguments = replica, asyncio.get_running_loop()
                threading.Thread(target=self._wait, args=arguments, name="evidence", daemon=True).start()
                self._watched.add(holder)  # once a thread waits: where none can be started, another look tries again
            await asyncio.sleep(_LOOK)

    def is_dead(self, replica: Replica) -> bool:
        """Whether ``replica`` need not be reckoned with any more: for tidying up and for choosing a successor, never for deposing.

        Its processes are all gone, or its proof of life was taken away: then no process of it can start a JVM any more.
        """
        proof = self._directory / replica.holder
        return all_gone(proof, replica.inode, replica.boot) or not (proof.exists() or tombstone(proof).exists())

    def _sweep(self) -> None:
        """Remove tombstones of long ago: a dead holder that the lock still names died a moment ago."""
        for each in self._directory.glob("*.dead"):
            with suppress(OSError):
                if time.time() - each.stat().st_ctime > _KEPT:
                    each.unlink()
                    supervisor_lock(each.with_suffix("")).unlink(missing_ok=True)

    def _wait(self, replica: Replica, loop: asyncio.AbstractEventLoop) -> None:
        gone = False
        with suppress(OSError):  # after any such error the holder is looked up again
            proof = self._directory / replica.holder
            gone = supervisor_died(proof) and self._cleared(replica)
            gone = gone or all_gone(proof, replica.inode, replica.boot, wait=True)
            if gone:
                supervisor_lock(proof).unlink(missing_ok=True)
        with suppress(RuntimeError):  # the event loop is closed: the result is not needed any more
            if gone:
                loop.call_soon_threadsafe(self._gone, replica.holder)
            else:
                loop.call_soon_threadsafe(loop.call_later, _AGAIN, self._watched.discard, replica.holder)

    def _cleared(self, replica: Replica) -> bool:
        """Kill what the supervisor has left behind, and wait for its proof of life. False if something there does not die in time."""
        give_up = time.monotonic() + _CLEAR_WITHIN
        while time.monotonic() < give_up:
            kill_orphans(replica.holder)  # again and again: they may fork
            again = time.monotonic() + _SWEEP
            while time.monotonic() < again:
                if all_gone(self._directory / replica.holder, replica.inode, replica.boot):
                    return True
                time.sleep(_POLL)
        return False

    def _gone(self, holder: str) -> None:
        if self._holder() == holder:
            self._dead(holder)

    async def _learn(self, holder: str) -> Replica | None:
        try:
            return next((each for each in await self._replicas.read() if each.holder == holder), None)
        except UnderstudyError:
            return None
