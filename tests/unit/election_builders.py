"""Builders for election tests: a lock without I/O for the core, and virtual time for the elector.

``Lock`` and ``Replica`` drive the pure core by hand, several of them on one line of time. ``virtually`` runs real electors on
an event loop whose clock jumps to the next timer; nothing in either ever waits.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.config.timings import Timings
from understudy.documents.model import Conflict, Content, Document, LeaderRecord, Outcome, Unknown, Written, merged
from understudy.election.commands import Command, Grant, Granted, Read, ReadMinEpoch, Say, Write
from understudy.election.elector import Elector
from understudy.election.inputs import Answer, Input, MinEpochRead, MinEpochUnknown, Seen, Tick, Unseen
from understudy.election.machine import decide, wakes_at
from understudy.election.multi import KIND, MultiStore
from understudy.election.records import GRANT, Attempt, Corrupt, GrantEntry, lock_state_of
from understudy.election.state import Role, Rules, State
from understudy.events import Event, Log
from understudy.protocol.names import BURIED, LOCK_LABELS

T = TypeVar("T")

NAME = "flights-lock"
TIMINGS = Timings(retry=2.0)  # 15 / 10 / 2 / 2 / 0.5
FAST = Timings(lease=5.0, renew=3.0, retry=0.7, request=0.8, kill=0.4, write_timeout=1.5)


def leader(holder: str = "b", *, lease: float = 15.0, transitions: int = 3, renewed: str = "then") -> LeaderRecord:
    return LeaderRecord(holder, lease, "then", renewed, transitions)


def document(
    grant: GrantEntry | str | None = None,
    record: LeaderRecord | None = None,
    *,
    revision: str = "r1",
    buried: bool = False,
) -> Document:
    text = grant.encode() if isinstance(grant, GrantEntry) else grant
    entries = {} if text is None else {GRANT: text}
    return Document(NAME, entries, record, {BURIED: "true"} if buried else {}, revision)


def held(holder: str = "b", epoch: int = 7, *, nonce: str = "n", revision: str = "r1", lease: float = 15.0) -> Document:
    return document(GrantEntry(epoch, holder, nonce), leader(holder, lease=lease), revision=revision)


def as_sent(attempt: Attempt, *, revision: str = "r2") -> Document:
    """The document that ``attempt`` leaves when it lands."""
    return replace(document(attempt.grant, attempt.leader, revision=revision), labels=dict(LOCK_LABELS))


def released(by: str = "b", epoch: int = 7, *, successor: str | None = None, revision: str = "r1") -> Document:
    grant = GrantEntry(epoch, by, "n", released=True, successor=successor)
    return document(grant, leader("", lease=1.0), revision=revision)


# --- the core, by hand ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Lock:
    """One lock document with compare-and-set, and nothing that takes time."""

    standing: Document | None = None
    unreadable: str = ""
    writes: list[Attempt] = field(default_factory=list)
    revisions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def put(self, new: Document | None) -> None:
        """An operator's hand: a new revision, without regard to its holder."""
        self.unreadable = ""
        self.standing = None if new is None else replace(new, revision=f"r{next(self.revisions)}")

    def damage(self) -> None:
        self.put(document("garbage"))
        self.unreadable = "damaged"

    def swap(self, attempt: Attempt) -> Outcome | Corrupt:
        self.writes.append(attempt)
        seen = None if attempt.seen is None else attempt.seen.revision
        now = None if self.standing is None else self.standing.revision
        if seen != now:
            return Conflict(self.standing)
        self.unreadable = ""
        labels = {} if self.standing is None else self.standing.labels
        content = attempt.content
        self.standing = Document(
            NAME,
            merged({}, content.entries),
            content.leader,
            merged({k: v for k, v in labels.items() if k != BURIED}, content.labels),
            f"r{next(self.revisions)}",
        )
        return Written(self.standing)

    @property
    def epoch(self) -> int:
        return lock_state_of(self.standing).epoch


@dataclass(slots=True)
class Replica:
    """One core, driven by hand: its requests are answered at once from ``lock``, or by the faults given.

    ``cut``: nothing is answered. ``deaf``: reads are not. ``min_epoch`` ``None``: it cannot be read.

    ``faults`` (one per write): ``lost-request``, ``lost-answer``, ``late`` (lands at ``land()``), ``ok``.
    """

    holder: str
    lock: Lock
    timings: Timings = TIMINGS
    min_epoch: int | None = 0
    cut: bool = False
    deaf: bool = False
    frozen: bool = False
    faults: list[str] = field(default_factory=list)
    done: list[Command] = field(default_factory=list)
    sent: list[Attempt] = field(default_factory=list)
    late: list[Attempt] = field(default_factory=list)
    reads: int = 0
    now: float = 1000.0
    state: State = field(init=False)
    nonces: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.state = State(Rules(NAME, self.holder, self.timings, "g1"))

    def hear(self, *observations: Input) -> Replica:
        """Hear, and everything that follows from it at this moment."""
        for observation in observations:
            self.state, actions = decide(self.state, observation, self.now)
            self.done += actions
            for action in actions:
                answer = self._answer(action)
                if answer is not None:
                    self.hear(answer)
        return self

    def until(self, now: float) -> Replica:
        together([self], now)
        return self

    def after(self, seconds: float) -> Replica:
        return self.until(self.now + seconds)

    def land(self) -> None:
        for attempt in self.late:
            self.lock.swap(attempt)
        self.late.clear()

    def of(self, kind: type[T]) -> list[T]:
        return [action for action in self.done if isinstance(action, kind)]

    def role(self) -> Role:
        return self.state.role

    @property
    def epochs(self) -> list[int]:
        return [granted.grant.epoch for granted in self.of(Granted)]

    @property
    def said(self) -> list[str]:
        return [said.event for said in self.of(Say)]

    def sentence(self, event: str) -> str:
        return next(said.sentence for said in reversed(self.of(Say)) if said.event == event)

    def _answer(self, action: Command) -> Input | None:
        match action:
            case Read():
                self.reads += 1
                if self.cut or self.deaf:
                    return Unseen("no answer")
                broken = self.lock.unreadable
                return Seen(Corrupt(self.lock.standing, broken) if broken else lock_state_of(self.lock.standing))
            case ReadMinEpoch():
                return MinEpochUnknown("no answer") if self.min_epoch is None else MinEpochRead(self.min_epoch)
            case Write(attempt):
                return self._write(attempt.sealed(f"{self.holder}-{next(self.nonces)}", f"{self.now:.3f}"))
            case _:
                return None

    def _write(self, attempt: Attempt) -> Answer:
        self.sent.append(attempt)
        fault = "lost-request" if self.cut else self.faults.pop(0) if self.faults else "ok"
        match fault:
            case "lost-request":
                return Answer(attempt, Unknown("no answer"))
            case "late":
                self.late.append(attempt)
                return Answer(attempt, Unknown("no answer"))
            case "lost-answer":
                self.lock.swap(attempt)
                return Answer(attempt, Unknown("no answer"))
            case _:
                return Answer(attempt, self.lock.swap(attempt))


def together(replicas: Iterable[Replica], now: float) -> None:
    """Let time pass for several replicas at once, each woken when its core asked for it."""
    alive = list(replicas)
    for _ in range(100_000):
        awake = [r for r in alive if not r.frozen]
        at, first = min(((max(r.now, min(wakes_at(r.state))), i) for i, r in enumerate(awake)), default=(now, -1))
        if at >= now or first < 0:
            break
        for replica in alive:
            replica.now = max(replica.now, at)
        awake[first].hear(Tick())
    else:
        raise AssertionError("the core ticks without end: a wakes_at stands still")
    for replica in alive:
        replica.now = now
        if not replica.frozen:
            replica.hear(Tick())


def leading(holder: str = "a", lock: Lock | None = None, *, timings: Timings = TIMINGS) -> Replica:
    """A replica that has just acquired a new lock."""
    replica = ready(holder, lock, timings=timings).hear(Tick())
    assert replica.role() is Role.LEADING
    return replica


def ready(
    holder: str = "a", lock: Lock | None = None, *, timings: Timings = TIMINGS, min_epoch: int | None = 0
) -> Replica:
    replica = Replica(holder, Lock() if lock is None else lock, timings, min_epoch)
    replica.state = replace(replica.state, ready=True)
    return replica


# --- the elector, in virtual time -------------------------------------------------------------------------------------


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: where a loop would sleep, time jumps."""

    jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout is None:
            raise RuntimeError("every task waits for another, and none for time")
        if not events and timeout:
            self.jumped += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return 1000.0 + self._jumping.jumped


def virtually(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@dataclass(slots=True)
class VirtualClock:
    """A replica's own clock: another start and another speed than everyone else's, and it can be frozen with its process."""

    offset: float = 0.0
    rate: float = 1.0
    thawed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.thawed.set()

    def now(self) -> float:
        return self.offset + self.rate * asyncio.get_running_loop().time()

    def at(self, now: float) -> float:
        """The loop's time at which this clock shows ``now``."""
        return (now - self.offset) / self.rate

    async def sleep(self, seconds: float) -> None:
        # A microsecond more, or floating point may wake us just too early and time would stand still.
        await asyncio.sleep(max(0.0, seconds) / self.rate + 1e-6)
        await self.thawed.wait()


@dataclass(slots=True)
class Driver:
    """A candidate that records what it is told and knows until when its gate is open, in the loop's time."""

    holder: str
    clock: VirtualClock
    timings: Timings
    heard: list[str] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    open_until: float = float("-inf")
    opened: list[Callable[[Driver], None]] = field(default_factory=list)

    def granted(self, grant: Grant) -> None:
        self.heard.append("granted")
        self.epochs.append(grant.epoch)

    def renewed(self, sent_at: float) -> None:
        self.heard.append("renewed")
        self.sent.append(sent_at)
        self.open_until = self.clock.at(sent_at + self.timings.renew)
        for tell in self.opened:
            tell(self)

    def lost(self, reason: str) -> None:
        self.heard.append("lost")
        self.losses.append(reason)
        self.reaped()

    def reaped(self) -> None:
        self.open_until = float("-inf")

    def is_open(self) -> bool:
        return asyncio.get_running_loop().time() < self.open_until


Call = Callable[[], Awaitable[T]]


class Wire:
    """A store behind a network that does what ``write`` and ``fetch`` say, and through which a frozen process does nothing."""

    def __init__(self, inner: MemoryDocumentStore, clock: VirtualClock) -> None:
        self.inner, self.clock = inner, clock
        self.write: Callable[[Call[Outcome]], Awaitable[Outcome]] = lambda call: call()
        self.fetch: Callable[[Call[Document | None]], Awaitable[Document | None]] = lambda call: call()
        self.writes = self.reads = 0

    async def read(self, name: str) -> Document | None:
        self.reads += 1
        await self.clock.thawed.wait()
        result = await self.fetch(lambda: self.inner.read(name))
        await self.clock.thawed.wait()
        return result

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._write(lambda: self.inner.create(name, content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._write(lambda: self.inner.replace(seen, content))

    async def bury(self, seen: Document) -> Outcome:
        return await self._write(lambda: self.inner.bury(seen))

    def watch(self, name: str) -> AsyncIterator[Document | None]:
        return self.inner.watch(name)

    async def _write(self, call: Call[Outcome]) -> Outcome:
        self.writes += 1
        await self.clock.thawed.wait()
        result = await self.write(call)
        await self.clock.thawed.wait()
        return result


@dataclass(slots=True)
class Member:
    """One elector with its store, clock and candidate, started on the running loop."""

    holder: str
    wire: Wire
    clock: VirtualClock
    driver: Driver
    elector: Elector
    said: list[Event]
    task: asyncio.Task[None]
    second: Wire | None = None

    @property
    def wires(self) -> list[Wire]:
        return [self.wire] if self.second is None else [self.wire, self.second]

    def role(self) -> Role:
        return self.elector.view.role

    @property
    def events(self) -> list[str]:
        return [event.event for event in self.said]

    async def until(self, role: Role, *, within: float = 120.0) -> None:
        """Virtual time passes until this member has ``role``."""
        end = asyncio.get_running_loop().time() + within
        while self.elector.view.role is not role:
            assert asyncio.get_running_loop().time() < end, f"{self.holder} is {self.elector.view}, not {role}"
            await asyncio.sleep(0.01)

    def die(self) -> None:
        """SIGKILL of everything: nothing of it runs any more."""
        self.task.cancel()
        self.driver.reaped()

    async def step_down(self, successor: str | None) -> bool:
        self.driver.reaped()
        return await self.elector.release(successor)


def join(
    server: MemoryServer,
    holder: str,
    *,
    timings: Timings = FAST,
    is_ready: bool = True,
    min_epoch: Callable[[], Awaitable[int]] | None = None,
    offset: float = 0.0,
    rate: float = 1.0,
    jitter: Callable[[], float] = lambda: 0.5,
    second: MemoryServer | None = None,
) -> Member:
    """With a ``second`` server the lock is ``multi``."""

    async def nothing_granted() -> int:
        return 0

    said: list[Event] = []
    clock = VirtualClock(offset, rate)
    wire, driver = Wire(MemoryDocumentStore(server), clock), Driver(holder, clock, timings)
    other = None if second is None else Wire(MemoryDocumentStore(second), clock)
    nonces = itertools.count()
    elector = Elector(
        wire if other is None else MultiStore(wire, other),
        NAME,
        holder,
        timings,
        clock,
        driver,
        Log(stream=io.StringIO(), listeners=[said.append]),
        min_epoch=nothing_granted if min_epoch is None else min_epoch,
        lock_kind="file" if other is None else KIND,
        jitter=jitter,
        nonce=lambda: f"{holder}-{next(nonces)}",
        stamp=lambda: f"{clock.now():.6f}",
    )
    elector.ready(is_ready)
    return Member(holder, wire, clock, driver, elector, said, asyncio.ensure_future(elector.run()), other)
