"""Evidence on one machine: the leader's proof of life is gone, so every process of its that could write is dead.

The waiting is a look every few hundredths of a second, a handful of system calls each, rather than a blocked lock: a thread
that waits in flock(2) cannot be told to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from understudy.errors import UnderstudyError
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import all_gone

_LOOK = 0.04


class EvidenceWatch:
    """Reports the death of whoever holds the lock, once, to ``dead``. ``holder`` tells who that is now, or nobody."""

    def __init__(
        self, directory: Path, replicas: ReplicaStore, holder: Callable[[], str | None], dead: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._replicas = replicas
        self._holder = holder
        self._dead = dead
        self._known: dict[str, Replica] = {}
        self._reported: set[str] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            holder = self._holder()
            if holder is None or holder in self._reported:
                continue
            if holder not in self._known:
                await self._learn()
                if holder not in self._known:
                    await asyncio.sleep(
                        1.0
                    )  # says nothing of itself (an elector of another kind): its lease has to run out
                    continue
            if self.is_dead(self._known[holder]):
                self._reported.add(holder)
                self._dead(holder)

    def is_dead(self, replica: Replica) -> bool:
        return all_gone(self._directory / replica.holder, replica.inode, replica.boot)

    async def _learn(self) -> None:
        try:
            self._known = {replica.holder: replica for replica in await self._replicas.read()}
        except UnderstudyError:
            return
