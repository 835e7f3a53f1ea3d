"""An API server and an object store as a client meets them: requests that get lost, come late, come twice, or are refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from tests.doubles.memory import MemoryServer
from tests.simulation.loop import Handle, Process, SimulatedLoop
from understudy.documents.model import Content, Document, Outcome, Unknown, check_size, merged
from understudy.documents.record import Record
from understudy.errors import DocumentError, DocumentUnreadable

T = TypeVar("T")

#: What a request may meet, beside nothing. ``hangs`` is never answered.
READ_FAULTS = ("lost", "no-answer", "refused", "hangs")
WRITE_FAULTS = ("lost", "no-answer", "late", "refused", "reset", "twice", "hangs")

_UNKNOWN: Outcome = Unknown("no answer")

#: What a server says that does not take a request: it certainly has no effect.
_REFUSALS = ("401 Unauthorized", "403 Forbidden", "429 Too Many Requests", "503 Service Unavailable")


@dataclass(slots=True, eq=False)
class Site:
    """A server on the network, for everybody: ``down`` answers nothing, ``slow`` takes that many seconds more."""

    documents: MemoryServer = field(default_factory=MemoryServer)
    down: bool = False
    slow: float = 0.0
    _under_way: list[Callable[[], object]] = field(default_factory=list)

    def late(self, loop: SimulatedLoop, delay: float, land: Callable[[], object]) -> None:
        """A request that takes its time; ``land_all`` is the last moment for it."""

        def arrive() -> None:
            if land in self._under_way:
                self._under_way.remove(land)
                land()

        self._under_way.append(land)
        loop.later(None, delay, arrive)

    def land_all(self) -> None:
        while self._under_way:
            self._under_way.pop(0)()


@dataclass(slots=True, eq=False)
class Line:
    """One process's way to one site. ``trouble`` is the share of requests that something befalls."""

    loop: SimulatedLoop
    process: Process
    site: Site
    chance: random.Random
    request: float
    trouble: float = 0.0
    cut: bool = False
    #: The longest that a request may be under way before it lands, in seconds.
    late: float = 30.0
    #: Requests of clients that bound their own time are never left without an end.
    bounded: bool = True

    async def ask(self, look: Callable[[], T]) -> T:
        """A read. Raises ``DocumentError`` when there is no answer, or the server refuses."""
        answer: asyncio.Future[T] = self.loop.create_future()
        match self._fault(READ_FAULTS):
            case "":
                self._arrive(lambda: self._land(look, answer))
            case "refused":
                self._answer(answer, DocumentError(self.chance.choice(_REFUSALS)), self._delay())
            case "hangs" if not self.bounded:
                return await answer
        return await self._ended(answer, DocumentError(f"no answer within {self.request} s"))

    async def tell(self, change: Callable[[], T], unknown: T) -> T:
        """A write; ``unknown`` without an answer, and then it may land for a while yet."""
        answer: asyncio.Future[T] = self.loop.create_future()
        match self._fault(WRITE_FAULTS):
            case "":
                self._arrive(lambda: self._land(change, answer))
            case "twice":  # a client that repeats what it thinks was lost, and is told of a conflict with itself
                self._arrive(lambda: self._land(change, None), lambda: self._land(change, answer))
            case "no-answer":
                self._arrive(lambda: self._land(change, None))
            case "reset":
                self._arrive(lambda: self._land(change, None), lambda: self._answer(answer, unknown, 0.0))
            case "late":
                self.site.late(self.loop, self.chance.uniform(0.1, self.late), lambda: self._land(change, None))
            case "refused":
                self._answer(answer, DocumentError(self.chance.choice(_REFUSALS)), self._delay())
            case "hangs":
                self._arrive(lambda: self._land(change, None))
                if not self.bounded:
                    return await answer
        return await self._ended(answer, unknown)

    async def _ended(self, answer: asyncio.Future[T], otherwise: T | Exception) -> T:
        """The client's own time-out."""
        timer = self._answer(answer, otherwise, self.request)
        try:
            return await answer
        finally:
            timer.cancel()

    # --- how it goes --------------------------------------------------------------------------------------------------

    def _fault(self, faults: tuple[str, ...]) -> str:
        if self.cut or self.site.down:
            return "lost"
        return self.chance.choice(faults) if self.trouble and self.chance.random() < self.trouble else ""

    def _delay(self) -> float:
        return self.site.slow + self.chance.expovariate(200.0)

    def _arrive(self, *landings: Callable[[], object]) -> None:
        """One after the other, at once."""
        delay = self._delay()
        for land in landings:
            self.loop.later(None, delay, land)

    def _land(self, call: Callable[[], T], answer: asyncio.Future[T] | None) -> None:
        try:
            result: T | Exception = call()
        except (DocumentError, DocumentUnreadable) as error:
            result = error
        if answer is not None and not self.cut and not self.site.down:
            self._answer(answer, result, self._delay())

    def _answer(self, answer: asyncio.Future[T], result: T | Exception, delay: float) -> Handle:
        """In the client's process: one that is frozen hears it when it thaws."""

        def hear() -> None:
            if answer.done():
                return
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        return self.loop.later(self.process, delay, hear)


@dataclass(slots=True, eq=False)
class SimulatedStore:
    """Documents behind a ``Line``: a client of an API server. A watch drops, repeats, reorders and ends, as theirs do."""

    line: Line
    #: Of watch events, the share that is lost.
    deaf: float = 0.0
    #: Where the documents are, if not the site's first.
    other: MemoryServer | None = None
    #: Whether a document of this name, which is not there, may be created: or the server answers 403.
    may_create: Callable[[str], bool] = lambda _: True

    async def read(self, name: str) -> Document | None:
        return await self.line.ask(lambda: self._server.document(name))

    async def create(self, name: str, content: Content) -> Outcome:
        _check_size(name, {}, content)

        def create() -> Outcome:
            if not self.may_create(name):
                raise DocumentError("403 Forbidden: this service account may not create", where=name)
            return self._server.write(name, None, lambda old: old.changed(content))

        return await self.line.tell(create, _UNKNOWN)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        _check_size(seen.name, seen.entries, content)
        return await self.line.tell(
            lambda: self._server.write(seen.name, seen, lambda old: old.changed(content)), _UNKNOWN
        )

    async def bury(self, seen: Document) -> Outcome:
        return await self.line.tell(lambda: self._server.write(seen.name, seen, Record.buried), _UNKNOWN)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        line, told = self.line, asyncio.Queue[Document | None]()
        stale: list[Document | None] = []

        def listen(which: str) -> None:
            if not line.process.alive:  # and so it will never say itself that it is gone
                self._server.listeners.remove(listen)
                return
            if which != name or line.cut or line.site.down or line.chance.random() < self.deaf:
                return
            try:
                document = self._server.document(name)
            except DocumentUnreadable:
                document = None
            stale.append(document)
            for _ in range(2 if line.chance.random() < self.deaf else 1):
                # each on a way of its own: some overtake others, some come from a cache that is behind
                shown = line.chance.choice(stale[-3:]) if line.chance.random() < self.deaf else document
                line.loop.later(None, line.chance.expovariate(50.0), lambda shown=shown: self._deliver(told, shown))

        self._server.listeners.append(listen)
        ends = line.loop.time() + line.chance.uniform(5.0, 60.0)
        try:
            while True:
                document = await told.get()
                if line.loop.time() > ends:
                    raise DocumentError("410 Gone: too old a revision", where=name)
                yield document
        finally:
            with suppress(ValueError):
                self._server.listeners.remove(listen)

    @property
    def _server(self) -> MemoryServer:
        return self.line.site.documents if self.other is None else self.other

    def _deliver(self, told: asyncio.Queue[Document | None], document: Document | None) -> None:
        self.line.loop.later(self.line.process, 0.0, told.put_nowait, document)


def _check_size(name: str, entries: Mapping[str, str], content: Content) -> None:
    """As the backends do, before anything is sent."""
    check_size(name, sum(len(key) + len(value) for key, value in merged(entries, content.entries).items()))
