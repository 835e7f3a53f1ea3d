"""Blobs in memory, on a line that may fail: what a bucket is to replicas of a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from understudy.blobs.model import check_name, check_prefix
from understudy.errors import ServerUnreachable

T = TypeVar("T")


@dataclass(slots=True)
class MemoryBlobStore:
    """``stored`` may be shared by several. ``fault`` says what befalls the next request, by its verb: ``""``, ``lost`` (it is not done)
    or ``late`` (it is done, and its answer is lost).
    """

    stored: dict[str, bytes] = field(default_factory=dict)
    fault: Callable[[str], str] = lambda _: ""
    place: str = "memory:"

    async def read(self, name: str) -> bytes | None:
        return await self._do("read", lambda: self.stored.get(check_name(name)))

    async def create(self, name: str, data: bytes) -> bytes:
        return await self._do("create", lambda: self.stored.setdefault(check_name(name), data))

    async def delete(self, name: str) -> None:
        await self._do("delete", lambda: self.stored.pop(check_name(name), None))

    async def names(self, prefix: str) -> list[str]:
        return await self._do("names", lambda: sorted(each for each in self.stored if each.startswith(prefix)))

    async def directories(self, prefix: str) -> list[str]:
        def found() -> list[str]:
            below = [each.removeprefix(check_prefix(prefix)) for each in self.stored if each.startswith(prefix)]
            return sorted({each.partition("/")[0] for each in below if "/" in each})

        return await self._do("directories", found)

    async def discard(self, prefix: str) -> int:
        def discarded() -> int:
            names = [each for each in self.stored if each.startswith(check_prefix(prefix))]
            for name in names:
                del self.stored[name]
            return len(names)

        return await self._do("discard", discarded)

    async def close(self) -> None:
        pass

    async def _do(self, verb: str, change: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        fault = self.fault(verb)
        if fault == "lost":
            raise ServerUnreachable("no answer", where=self.place)
        done = change()
        if fault == "late":
            raise ServerUnreachable("no answer", where=self.place)
        return done
