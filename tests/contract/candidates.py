"""Electors on real servers, whose drivers know until when their gates are open."""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from understudy.clock import BootClock
from understudy.config.timings import PROFILES, Timings
from understudy.documents.model import DocumentStore
from understudy.election.commands import Grant
from understudy.election.elector import Elector
from understudy.election.state import Role
from understudy.events import Log

NAME = "flights-lock"
FAST = PROFILES["fast"]


@dataclass
class Candidate:
    """A driver that knows until when its gate is open. ``overlaps``: who else had theirs open at a grant."""

    holder: str
    clock: BootClock
    others: list[Candidate]
    timings: Timings
    epochs: list[int] = field(default_factory=list)
    renewed_at: float = 0.0
    open_until: float = 0.0
    losses: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.clock.now() < self.open_until

    def granted(self, grant: Grant) -> None:
        self.epochs.append(grant.epoch)
        self.overlaps += [each.holder for each in self.others if each is not self and each.is_open]

    def renewed(self, sent_at: float) -> None:
        self.renewed_at, self.open_until = sent_at, sent_at + self.timings.renew

    def lost(self, reason: str) -> None:
        self.losses.append(reason)
        self.open_until = 0.0


class Wire(Protocol):
    def cut(self) -> None:
        """Nothing passes any more, and nothing says so."""
        ...


async def _nothing() -> None:
    pass


@dataclass
class Member:
    """One elector, whose way to each server is a wire of its own."""

    candidate: Candidate
    elector: Elector
    wires: list[Wire]
    task: asyncio.Task[None]
    close: Callable[[], Awaitable[None]] = _nothing

    async def until(self, role: Role, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while self.elector.view.role is not role:  # noqa: ASYNC110 - it changes by itself
                await asyncio.sleep(0.02)

    def cut(self) -> None:
        for each in self.wires:
            each.cut()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.close()


async def nothing_granted() -> int:
    return 0


def contend(
    store: DocumentStore,
    lock_kind: str,
    holder: str,
    all_of_them: list[Candidate],
    wires: list[Wire],
    timings: Timings,
) -> Member:
    """One more candidate for the lock, as a running task."""
    clock, nonces = BootClock(), itertools.count()
    candidate = Candidate(holder, clock, all_of_them, timings)
    all_of_them.append(candidate)
    elector = Elector(
        store,
        NAME,
        holder,
        timings,
        clock,
        candidate,
        Log(stream=io.StringIO()),
        min_epoch=nothing_granted,
        lock_kind=lock_kind,
        nonce=lambda: f"{holder}-{next(nonces)}",
    )
    elector.ready(True)
    return Member(candidate, elector, wires, asyncio.ensure_future(elector.run()))


class Servers(Protocol):
    """What an election is held on; ``examples/understudy-etcd`` runs these tests on servers of another kind."""

    @property
    def leader(self) -> Any:
        """The server that the others follow. It can ``kill`` and ``freeze``."""
        ...

    async def join(self, holder: str, all_of_them: list[Candidate], timings: Timings = FAST) -> Member: ...
