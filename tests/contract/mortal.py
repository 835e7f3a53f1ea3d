"""Clients of a process that is killed at a request of a given number: before it was sent, or after it was done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from understudy.blobs.model import BlobStore
from understudy.documents.model import Content, Document, DocumentStore, Outcome


class Killed(BaseException):
    """The process is gone: no line of it is run any more."""


@dataclass(slots=True)
class Life:
    """``taken``: how many requests were made."""

    number: int
    done: bool
    taken: int = 0

    async def request(self, send: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        self.taken += 1
        if self.taken == self.number and not self.done:
            raise Killed
        answer = await send()
        if self.taken == self.number:
            raise Killed
        return answer


@dataclass(slots=True)
class MortalBlobs:
    store: BlobStore
    life: Life
    place: str = "a bucket"

    async def read(self, name: str) -> bytes | None:
        return await self.life.request(lambda: self.store.read(name))

    async def create(self, name: str, data: bytes) -> bytes:
        return await self.life.request(lambda: self.store.create(name, data))

    async def delete(self, name: str) -> None:
        await self.life.request(lambda: self.store.delete(name))

    async def names(self, prefix: str) -> list[str]:
        return await self.life.request(lambda: self.store.names(prefix))

    async def directories(self, prefix: str) -> list[str]:
        return await self.life.request(lambda: self.store.directories(prefix))

    async def discard(self, prefix: str) -> int:
        return await self.life.request(lambda: self.store.discard(prefix))

    async def close(self) -> None:
        await self.store.close()


@dataclass(slots=True)
class MortalDocuments:
    store: DocumentStore
    life: Life

    async def read(self, name: str) -> Document | None:
        return await self.life.request(lambda: self.store.read(name))

    async def create(self, name: str, content: Content) -> Outcome:
        return await self.life.request(lambda: self.store.create(name, content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self.life.request(lambda: self.store.replace(seen, content))

    async def bury(self, seen: Document) -> Outcome:
        return await self.life.request(lambda: self.store.bury(seen))

    def watch(self, name: str) -> AsyncIterator[Document | None]:
        return self.store.watch(name)
