"""Who leads a component, and where: read from documents. No elector is made for it, so a follower costs the election nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass

from understudy.clock import Clock
from understudy.documents.model import Document, DocumentStore
from understudy.errors import DocumentError
from understudy.protocol.token import Token

#: Seconds between two reads where no watch says that the document has changed.
_LOOK_AGAIN = 15.0
#: Seconds until a watch that broke is begun again.
_WATCH_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class ComponentLeader:
    """``address``: as the component confirmed it; empty for one that has none. ``token`` tells one grant from the next."""

    token: Token
    holder: str
    address: str


#: Of the document as it stands, and of a component's id. May raise ``DocumentError``.
LeaderOf = Callable[[Document | None, str], ComponentLeader | None]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Of the components whose leaders ``leader_of`` finds in document ``name``."""

    store: DocumentStore
    name: str
    leader_of: LeaderOf
    clock: Clock

    async def read(self, component: str) -> ComponentLeader | None:
        """The leader now; ``None`` where there is none. Raises ``DocumentError``."""
        return self.leader_of(await self.store.read(self.name), component)

    async def follow(self, component: str) -> AsyncGenerator[ComponentLeader | None, None]:
        """The leader now, and then each other one. ``None`` where there is none; never the same twice in a row.

        Goes on through errors of the store: the last leader that was read stands until another can be. Not guaranteed: every leader there
        was, nor that the last one still lives. What it says is a hint, and a token that is lower than another seen is stale.
        """
        told: list[ComponentLeader | None] = []
        hints = Hints(self.store, self.name, self.clock)
        try:
            while True:
                with suppress(DocumentError):
                    found = await self.read(component)
                    if told != [found]:
                        told = [found]
                        yield found
                await hints.next()
        finally:
            await hints.close()


class Hints:
    """That a document may have changed: by its watch, and now and then without one."""

    def __init__(self, store: DocumentStore, name: str, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()
        self._watch = asyncio.create_task(self._listen(store, name))

    async def next(self) -> None:
        pause = asyncio.ensure_future(self._clock.sleep(_LOOK_AGAIN))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({pause, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            change.cancel()
        self._changed.clear()

    async def close(self) -> None:
        self._watch.cancel()
        await asyncio.wait({self._watch})

    async def _listen(self, store: DocumentStore, name: str) -> None:
        while True:
            with suppress(DocumentError):  # the next read meets the cause
                async for _ in store.watch(name):
                    self._changed.set()
            await self._clock.sleep(_WATCH_AGAIN)
