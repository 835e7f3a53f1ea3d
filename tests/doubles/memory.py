"""Documents in memory, with the manners of an API server: for tests and simulations.

Any number of clients (``MemoryDocumentStore``) share one ``MemoryServer``, from one event loop or from many threads. The server
holds bytes, as a real one does, so that damaged and foreign content can be put there. Clients can be told to lose requests and
answers, or to have a request arrive late; nothing happens by chance.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from testkit.faults import Fault
from understudy.clock import Clock
from understudy.documents import record
from understudy.documents.model import (
    Conflict,
    Content,
    Document,
    Outcome,
    Unknown,
    Written,
    check_name,
)
from understudy.documents.record import Record
from understudy.documents.size import SizeCheck
from understudy.errors import DocumentError, DocumentUnreadable
from understudy.events import Log


@dataclass(slots=True)
class MemoryServer:
    """The one owner of all documents. Revisions come from one counter for all names, as an API server's do."""

    counter: int = 0
    stored: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    delayed: deque[Callable[[], object]] = field(default_factory=deque)
    listeners: list[Callable[[str], None]] = field(default_factory=list)
    guard: threading.RLock = field(default_factory=threading.RLock)
    _parsed: dict[str, tuple[int, Record]] = field(default_factory=dict)

    def look(self, name: str) -> tuple[int, bytes] | None:
        with self.guard:
            return self.stored.get(name)

    def document(self, name: str) -> Document | None:
        """What stands there now. Raises ``DocumentUnreadable``."""
        known = self._known(name)
        return None if known is None else known[1].document(name, str(known[0]))

    def base(self, name: str) -> Record:
        """What a write builds on; nothing of an unreadable document can be kept, and only its rightful holder comes here."""
        try:
            known = self._known(name)
        except DocumentUnreadable:
            known = None
        return Record() if known is None else known[1]

    def _known(self, name: str) -> tuple[int, Record] | None:
        """What stands there, parsed once."""
        standing = self.look(name)
        if standing is None:
            return None
        revision, data = standing
        if (known := self._parsed.get(name)) is None or known[0] != revision:
            known = revision, record.load(name, data, where=name, revision=str(revision))
            self._parsed[name] = known
        return known

    def write(self, name: str, seen: Document | None, change: Callable[[Record], Record]) -> Written | Conflict:
        """One write, arriving now. Raises ``DocumentUnreadable`` for a conflict with something unreadable."""
        with self.guard:
            standing = self.look(name)
            revision = None if standing is None else standing[0]
            if (None if revision is None else str(revision)) != (None if seen is None else seen.revision):
                return Conflict(self.document(name))
            new = change(self.base(name))
            return Written(new.document(name, str(self.overwrite(name, record.dump(name, new)))))

    def overwrite(self, name: str, data: bytes) -> int:
        """These bytes stand there from now on: an operator's hand."""
        with self.guard:
            self.counter += 1
            self.stored[name] = self.counter, data
            self._tell(name)
            return self.counter

    def remove(self, name: str) -> None:
        """Deleted behind everyone's back, in tests."""
        with self.guard:
            self.stored.pop(name, None)
            self._tell(name)

    def land(self) -> None:
        """Every delayed request arrives now, in the order sent."""
        while self.delayed:
            with suppress(DocumentUnreadable):  # the answer is not waited for any more
                self.delayed.popleft()()

    def _tell(self, name: str) -> None:
        for listener in list(self.listeners):
            listener(name)


class MemoryDocumentStore:
    """One client of a ``MemoryServer``.

    While ``reachable`` is false reads raise ``DocumentError`` and writes are ``Unknown`` without effect. With a ``clock`` a
    request that gets no answer takes ``request_timeout`` seconds of its time; without one it takes none.
    """

    def __init__(
        self,
        server: MemoryServer,
        *,
        request_timeout: float = 2.0,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        self.server = server
        self.reachable = True
        self._faults: deque[Fault | None] = deque()
        self._request_timeout, self._clock = request_timeout, clock
        self._size = SizeCheck(log)

    def inject(self, *faults: Fault | None) -> None:
        """What happens to this client's next writes, in order; ``None`` lets one through."""
        self._faults.extend(faults)

    async def read(self, name: str) -> Document | None:
        check_name(name)
        await asyncio.sleep(0)
        if not self.reachable:
            await self._wait()
            raise DocumentError("no answer", where=name, remedy="Is the server reachable?")
        return self.server.document(name)

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._write(check_name(name), None, lambda old: old.changed(content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._write(check_name(seen.name), seen, lambda old: old.changed(content))

    async def bury(self, seen: Document) -> Outcome:
        return await self._write(check_name(seen.name), seen, Record.buried)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        """The document now and after changes; changes in quick succession are told once."""
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def listen(which: str) -> None:
            if which == name:
                loop.call_soon_threadsafe(changed.set)

        self.server.listeners.append(listen)
        told: str | None = ""
        try:
            while True:
                changed.clear()
                try:
                    document = await self.read(name)
                except DocumentError:
                    pass  # only a hint: who needs to know why reads, and is told
                else:
                    revision = None if document is None else document.revision
                    if revision != told:
                        told = revision
                        yield document
                await changed.wait()
        finally:
            self.server.listeners.remove(listen)

    async def _write(self, name: str, seen: Document | None, change: Callable[[Record], Record]) -> Outcome:
        await asyncio.sleep(0)
        fault = self._faults.popleft() if self._faults else None
        if not self.reachable:
            fault = Fault.LOST_REQUEST
        self._size.check(name, len(record.dump(name, change(self.server.base(name)))))
        match fault:
            case None:
                return self.server.write(name, seen, change)
            case Fault.LOST_ANSWER:
                with suppress(DocumentUnreadable):
                    self.server.write(name, seen, change)
            case Fault.DELAYED:
                self.server.delayed.append(lambda: self.server.write(name, seen, change))
            case Fault.LOST_REQUEST:
                pass
        await self._wait()
        return Unknown(f"no answer within {self._request_timeout} s")

    async def _wait(self) -> None:
        if self._clock is not None:
            await self._clock.sleep(self._request_timeout)
