"""client-go's algorithm as a candidate, for the bench of ``tests.simulation.peers``: what ``tools/leaderelection`` of 0.36 does.

Written after its documentation and its tests, not its code line by line: a renewal without a read first (since 0.30), a renewal's
deadline that bounds its requests, the lease counted from when a change was observed, on a clock that no one sets.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any, Protocol

from kubernetes import client

from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Line
from understudy.errors import DocumentError

#: Between two tries of a follower there is up to so many times the retry period.
_JITTER = 1.2
_KEY = "leader"
#: After so many seconds HTTP/2's pings have told that a connection is dead; the requests themselves have no time-out.
_PINGS = 45.0


class Conflicted(Exception):
    """Another revision, or no object at all."""


class Objects(Protocol):
    """What the API server keeps."""

    def copied(self, name: str) -> Any: ...

    def swapped(self, name: str, body: Any) -> Any: ...


class Bench(Protocol):
    loop: SimulatedLoop
    chance: random.Random

    @property
    def objects(self) -> Objects: ...


class ClientGo:
    def __init__(
        self, bench: Bench, process: Process, line: Line, name: str, lease: float, renew: float, retry: float
    ) -> None:
        self.process, self._bench, self._line, self._name = process, bench, line, name
        self._lease, self._renew, self._retry = lease, renew, retry
        self._leads = False
        self._object: Any = None
        self._observed: dict[str, Any] = {}
        self._observed_at = 0.0
        line.request = _PINGS
        bench.loop.inside(process, lambda: bench.loop.create_task(self._run()))

    def leads(self) -> bool:
        return self._leads

    def over(self) -> str:
        return ""

    def end(self) -> None:
        pass

    async def _run(self) -> None:
        while not await self._try():  # noqa: ASYNC110 - a poll is what it is
            await asyncio.sleep(self._retry * self._bench.chance.uniform(1.0, _JITTER))
        self._leads = True
        while await self._renewed():  # noqa: ASYNC110
            await asyncio.sleep(self._retry)
        self._leads = False  # and the program ends, or starts another elector

    async def _renewed(self) -> bool:
        """Within the renew deadline, tried again every retry period."""
        try:
            async with asyncio.timeout(self._renew):
                while not await self._try():  # noqa: ASYNC110
                    await asyncio.sleep(self._retry)
        except TimeoutError:
            return False
        return True

    async def _try(self) -> bool:
        try:
            return await self._try_acquire_or_renew()
        except (DocumentError, Conflicted, ValueError):
            return False

    async def _try_acquire_or_renew(self) -> bool:
        mine = self._observed.get("holderIdentity") == self.process.name
        if mine and self._is_valid():
            try:
                return await self._write(self._record(self._observed))
            except Conflicted:
                pass  # another writer changed the object: look at it first
        found = await self._line.ask(lambda: self._bench.objects.copied(self._name))
        if found is None:
            self._object = None
            return await self._write(self._record({}))
        self._object = found
        self._observe(json.loads(found.metadata.annotations[_KEY]))
        holder = self._observed.get("holderIdentity")
        if holder and holder != self.process.name and self._is_valid():
            return False
        return await self._write(self._record(self._observed))

    def _record(self, old: dict[str, Any]) -> dict[str, Any]:
        now = self._bench.loop.time()
        kept = old.get("holderIdentity") == self.process.name
        transitions = old.get("leaderTransitions", 0) + (bool(old) and not kept)
        acquired = old.get("acquireTime") if kept else now
        return {
            "holderIdentity": self.process.name,
            "leaseDurationSeconds": self._lease,
            "acquireTime": acquired,
            "renewTime": now,
            "leaderTransitions": transitions,
        }

    async def _write(self, record: dict[str, Any]) -> bool:
        body = self._object or client.V1ConfigMap(metadata=client.V1ObjectMeta(name=self._name))
        body.metadata.annotations = {_KEY: json.dumps(record)}
        written = await self._line.tell(lambda: self._bench.objects.swapped(self._name, body), None)
        if written is None:
            raise DocumentError("no answer")
        if written is False:
            raise Conflicted
        self._object = written
        self._observe(record)
        return True

    def _observe(self, record: dict[str, Any]) -> None:
        if record != self._observed:
            self._observed, self._observed_at = record, self._bench.loop.time()

    def _is_valid(self) -> bool:
        return self._observed_at + self._observed.get("leaseDurationSeconds", 0) > self._bench.loop.time()
