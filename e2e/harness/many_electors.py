"""Many bare electors, one for each of many elections: ``python -m e2e.harness.many_electors NAMESPACE HOLDER FIRST LAST PROFILE``.

Prints one JSON object per line: what each elector says, and, when told to end by SIGTERM, how its renewals went.
"""

from __future__ import annotations

import asyncio
import io
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from understudy.clock import BootClock
from understudy.config.timings import PROFILES
from understudy.documents.api_server import ApiServer
from understudy.documents.model import Content, Document, DocumentStore, Outcome
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.events import Log
from understudy.services.kubernetes import lock_store


def say(**facts: Any) -> None:
    sys.stdout.write(f"{json.dumps({'t': time.time(), **facts})}\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Timed:
    """A store that notes how long its writes took, in seconds."""

    store: DocumentStore
    took: list[float] = field(default_factory=list)

    async def read(self, name: str) -> Document | None:
        return await self.store.read(name)

    async def create(self, name: str, content: Content) -> Outcome:
        return await self.store.create(name, content)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        began = time.monotonic()
        try:
            return await self.store.replace(seen, content)
        finally:
            self.took.append(time.monotonic() - began)

    async def bury(self, seen: Document) -> Outcome:
        return await self.store.bury(seen)

    def watch(self, name: str) -> AsyncIterator[Document | None]:
        return self.store.watch(name)


@dataclass(slots=True)
class Candidate:
    name: str

    def granted(self, grant: Grant) -> None:
        say(name=self.name, said="leads", epoch=grant.epoch)

    def renewed(self, sent_at: float) -> None:
        del sent_at

    def lost(self, reason: str) -> None:
        say(name=self.name, said="lost", reason=reason)


async def nothing_granted() -> int:
    return 0


async def elect(namespace: str, who: str, number: int, profile: str, told: asyncio.Event) -> None:
    name, timings = f"electors-{number}", PROFILES[profile]
    async with await ApiServer.connect(timings.request, namespace) as api:
        store = Timed(lock_store(api, "lease"))
        log = Log({}, stream=io.StringIO(), listeners=[lambda event: say(name=name, said=event.event)])
        candidate = Candidate(name)
        elector = Elector(
            store,
            name,
            f"{who}-{number}",
            timings,
            BootClock(),
            candidate,
            log,
            min_epoch=nothing_granted,
            lock_kind="lease",
        )
        running = asyncio.create_task(elector.run())
        elector.ready(True)
        await told.wait()
        say(name=name, said="renewals", took=[round(each, 4) for each in store.took], sent=api.sent)
        running.cancel()


async def main(namespace: str, who: str, first: int, last: int, profile: str) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with asyncio.TaskGroup() as electors:
        for number in range(first, last):
            electors.create_task(elect(namespace, who, number, profile, told))
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    namespace, who, first, last, profile = sys.argv[1:]
    asyncio.run(main(namespace, who, int(first), int(last), profile))
