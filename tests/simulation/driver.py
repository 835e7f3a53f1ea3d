"""A driver without a JVM: what the supervisor starts, shows its gate and talks to. Everything around it is production's own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.checkpoint import COMMITS, OFFSETS, SINK, Entry
from tests.simulation.parts import SCRATCH, Desk, Gate
from tests.simulation.saving import save
from understudy.errors import DocumentError
from understudy.fencing.claim import Refused, claim, standing_claim
from understudy.protocol.claim import Claim
from understudy.protocol.driver_spec import DriverSpec
from understudy.protocol.gate import State, View
from understudy.protocol.messages import (
    Attached,
    ClaimRefused,
    Committed,
    Drain,
    Drained,
    Ended,
    Granted,
    Held,
    Hold,
    LetGo,
    Message,
    Quiesce,
    Quiesced,
    Reclaim,
    RehearsalReport,
    Roots,
    Save,
    Started,
    Starting,
    decode,
    encode,
)
from understudy.protocol.token import Token

if TYPE_CHECKING:
    from tests.simulation.pod import Pod

T = TypeVar("T")

ROOT = "checkpoint"
_KILLED, _LOST = -signal.SIGKILL, 75

#: How often a rightful leader starts again that met a predecessor's late write.
_CONFLICTS = 2


class _EndedAs(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class SimulatedDriver:
    """Takes the seat of ``understudy.supervisor.driver_process.DriverProcess``. ``alive.pod`` is where it lives."""

    def __init__(
        self,
        spec: DriverSpec,
        gate: Gate,
        workspace: Desk,
        alive: Any,
        on_message: Callable[[Any, Message], None],
        on_exit: Callable[[Any, int], None],
    ) -> None:
        del workspace
        alive.pod.world.failures.at("a driver's start")
        self.spec, self.gate = spec, gate
        self.ended: Ended | None = None
        self.killed_because = ""
        self.pod: Pod = alive.pod
        self.world = self.pod.world
        self.world.holds.starts(self.pod)
        self._gone: asyncio.Future[None] = self.world.loop.create_future()
        self._on_message, self._on_exit = on_message, on_exit
        self._granted, self._reclaim = asyncio.Event(), asyncio.Event()
        self._quiesced: float | None = None
        self._held = ""  # the request for which everything is held
        self._roots_to_drain: list[str] = []  # of a hold that is for a drain
        self._drains: str | None = None  # the request for which the query is drained
        self.busy = self._batch_runs = self._buried = False
        self._nonce = 0
        self.handler: float | None = None  # seconds that the script's own handler of SIGTERM takes
        self.handled = False
        self.hangs = False  # in the kernel: SIGKILL does not end it
        self.pid = len(self.pod.drivers)
        self.process = self.pod.process(f"driver-{len(self.pod.drivers)}")
        self.pod.drivers.append(self)
        self.line = self.world.line(self.process, self.world.objects, bounded=True)
        self._roots = self.world.store(self.line)
        if self.world.scratch is not None:
            self.world.scratch.stored[f"{self.scratch}q0.0/state"] = b""
        self._inside(lambda: self.world.loop.create_task(self._live()))

    @property
    def scratch(self) -> str:
        """Where it rehearses, as a prefix in the scratch that all share."""
        return f"{self.spec.scratch.partition(f'/{SCRATCH}/')[2]}/"

    # --- the supervisor's side ----------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        self.world.loop.later(self.process, 0.001, self._hear, message)

    def show(self, view: View) -> None:
        self.gate.publish(view)
        if view.state is State.OPEN:
            self.world.holds.opened(self)
            for process in (self.pod.supervisor, self.process):  # the kill timer, and the JVM's halting thread
                self._look_at(process, view.kill.boottime_ns, view)

    async def end_by_handler(self, within: float) -> bool:
        if self.handler is None or not self.process.alive:
            return False
        if self.gate.view.state is State.OPEN:
            self.show(replace(self.gate.view, state=State.CLOSED))
        await asyncio.sleep(min(self.handler, within))
        self.handled = self.handler <= within
        return True

    async def come_to_its_end(self, within: float) -> None:
        if self.ended is not None and self.ended.code == 0:
            await asyncio.wait({self._gone}, timeout=within)

    def kill_now(self, reason: str) -> None:
        self.killed_because = self.killed_because or reason
        self.world.loop.later(None, 0.001, lambda: self.die(_KILLED))

    #: Nothing is known of memory here, and at its deadlines a JVM halts by itself.
    memory_was_short = past_deadline = False

    def lift_priority(self) -> None:
        pass

    take_the_lead = lift_priority

    async def terminate_and_reap(self) -> None:
        self.show(View(State.REVOKED, self.gate.view.token))
        self._buried = True
        self.kill_now("buried")
        while self.process.alive or self.hangs:  # noqa: ASYNC110 - here time costs nothing
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.world.chance.uniform(0.0, 0.05))

    def die(self, status: int) -> None:
        """SIGKILL, or its own end. The supervisor hears of it by the kernel."""
        if not self.process.alive:
            return
        self.world.loop.kill(self.process)
        self.pod.settle()

        def reap() -> None:
            self._gone.set_result(None)
            if not self._buried:
                self._on_exit(self, status)

        self.world.loop.later(self.pod.supervisor, 0.005, reap)

    @property
    def open(self) -> bool:
        """Whether its gate lets anything pass now, by its own clock."""
        return self.process.alive and self._inside(self._passes)

    # --- the driver's side --------------------------------------------------------------------------------------------

    def _inside(self, call: Callable[[], Any]) -> Any:
        return self.world.loop.inside(self.process, call)

    def _tell(self, said: Message) -> None:
        message = decode(encode(said))

        def hear() -> None:
            if isinstance(message, Ended):
                self.ended = message
            if not self._buried:
                self._on_message(self, message)

        self.world.loop.later(self.pod.supervisor, 0.001, hear)

    def _hear(self, message: Message) -> None:
        match message:
            case Granted(draining=draining):
                self._held = "draining" if draining else self._held
                self._granted.set()
            case Reclaim():
                self._reclaim.set()
            case Quiesce(patience):
                self._quiesced = patience
                if self._batch_runs:
                    self.world.loop.call_later(patience, self._tell, Quiesced(False))
                else:
                    self._tell(Quiesced(True))

            case Hold(request, timeout, drain):
                self._held = request
                self._roots_to_drain = [ROOT] if drain else []
                if self._batch_runs:
                    self.world.loop.call_later(timeout, self._give_up, request)
                else:
                    self._tell(Held(request, "", roots=self._roots_to_drain))
            case LetGo():
                self._held = ""
            case Drain(request):
                self._drains = request
            case Save(request):
                saves = save(self.world, ROOT, message, lambda: self._let_go(request), self._tell)
                self._inside(lambda: self.world.loop.create_task(saves))

    def _let_go(self, request: str) -> None:
        if self._held == request:
            self._held = ""

    def _give_up(self, request: str) -> None:
        if self._held == request and self._batch_runs:
            self._held = ""
            self._tell(Held(request, "a batch"))

    def _look_at(self, process: Any, due_ns: int, view: View) -> None:
        def look() -> None:
            if self.gate.view is view and view.kill_due(self.pod.clock.instant(), busy=self.busy):
                self.die(_KILLED)
            elif self.gate.view is view and not self.busy and due_ns == view.kill.boottime_ns:
                self._look_at(process, view.park.boottime_ns, view)

        loop = self.world.loop
        loop.inside(process, lambda: loop.call_later(max(0.0, due_ns / 1e9 - loop.time()) + 0.001, look))

    def _passes(self) -> bool:
        return self.gate.view.standing(self.pod.clock.instant()) is State.OPEN

    async def _live(self) -> None:
        try:
            await self._script()
        except _EndedAs as end:
            self._tell(Ended(end.code, "" if end.code == 0 else str(end), asked=True))
            await asyncio.sleep(0.002)
            self.die(end.code)

    async def _script(self) -> None:
        chance, world = self.world.chance, self.world
        await asyncio.sleep(chance.uniform(0.2, world.starts_within))
        self._tell(Attached("simulated", 1))
        await self._lead()
        began = world.loop.time()
        await self._claim()
        self._tell(Roots([f"s3a://bucket/{ROOT}"]))
        self._tell(Started(1, 0.0, world.loop.time() - began))
        first, conflicts = True, 0
        while True:
            if world.batches is not None and world.checkpoint.last(COMMITS) + 1 >= world.batches:
                raise _EndedAs(0, "")
            if chance.random() < world.fails:
                raise _EndedAs(1, world.failure)
            try:
                await self._batch()
            except FileExistsError as conflict:
                conflicts += 1
                if conflicts > _CONFLICTS:
                    raise _EndedAs(1, f"{conflict}: another writer, outside the election, writes there") from conflict
                continue
            if first:
                self._tell(Committed(ROOT, world.checkpoint.last(COMMITS), world.loop.time() - began))
                first = False
            if self._quiesced is not None:
                self._tell(Quiesced(True))
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(chance.uniform(0.05, world.trigger))

    async def _lead(self) -> None:
        """Return when it was granted the lead and is about to claim."""
        if self._granted.is_set():
            return
        self._inside(lambda: self.world.loop.create_task(self._rehearse()))
        await self._granted.wait()
        self._tell(Starting(1))
        if self.world.stuck:
            await asyncio.get_running_loop().create_future()

    async def _rehearse(self) -> None:
        for rounds in range(1, 4):
            await asyncio.sleep(self.world.chance.uniform(0.1, 2.0))
            if self._granted.is_set():
                return
            good = self.world.chance.random() < self.world.rehearses
            self._tell(
                RehearsalReport("job.py:1", good, "live" if good else "", rounds, 0.1, "" if good else "no data")
            )

    async def _claim(self) -> None:
        while True:
            token = self.gate.view.token
            own = Claim(token, self.spec.holder, self.spec.cluster, self.spec.job, self.spec.lock_kind)
            await self._admitted(token)
            try:
                answer = await claim(self._roots, ROOT, own, self.world.unique)
            except DocumentError:
                await asyncio.sleep(0.2)
                continue
            if not isinstance(answer, Refused):
                self._token = token
                self.world.holds.claims(self, token)
                return
            self._reclaim.clear()
            self._tell(ClaimRefused(ROOT, answer.reason, 0 if answer.current is None else int(answer.current.token)))
            await self._reclaim.wait()

    async def _admitted(self, token: Token | None = None) -> None:
        """The gate: waits while it is closed, ends the driver when it is revoked."""
        while not self._passes():
            if self.gate.view.state is State.REVOKED:
                raise _EndedAs(_LOST, "the gate is revoked")
            await asyncio.sleep(0.1)
        if token is not None and self.gate.view.token < token:
            raise _EndedAs(_LOST, "the gate shows a lower token")

    async def _publish(self, log: str, batch: int, first: int, end: int, *, drains: bool = False) -> None:
        """Gate, claim, gate, conditional PUT: as the fence does it."""
        # guard: gate-before-the-claim-is-read
        await self._admitted()
        self._nonce += 1
        entry = Entry(self._token, first, end, f"{self.process.name}/{self._nonce}", drains)
        found = await self._within(self._roots.read(ROOT))
        standing = None if found is None else standing_claim(found)
        # guard: claim-before-each-write
        if standing is None or standing.token != self._token or standing.holder != self.spec.holder:
            raise _EndedAs(_LOST, "a higher claim stands")
        # guard: gate-again-before-the-write
        if not self._passes():
            await self._admitted()  # what was read of the claim is old by now, and it still guards what is sent next
        checkpoint = self.world.checkpoint
        landed = await self._within(self.line.tell(lambda: checkpoint.put_new(log, batch, entry), None))
        if not landed:
            stands = await self._within(self.line.ask(lambda: checkpoint.logs[log].get(batch)))
            if stands is None:
                raise _EndedAs(1, f"{log}/{batch}: it is not known whether it was written")
            landed = stands.nonce == entry.nonce
        if not landed:
            raise FileExistsError(f"{log}/{batch}")

    async def _batch(self) -> None:
        checkpoint, line, chance = self.world.checkpoint, self.line, self.world.chance
        planned, done = await self._within(line.ask(lambda: (checkpoint.last(OFFSETS), checkpoint.last(COMMITS))))
        entry = await self._within(line.ask(lambda: checkpoint.logs[OFFSETS].get(planned)))
        # guard: held-driver-begins-no-batch
        if self._held and self._drains is None:
            return
        drains = False
        if planned > done:
            assert entry is not None
            batch, first, end, drains = planned, entry.first, entry.end, entry.drains
        elif self._drains is not None:
            if entry is None or entry.drains:
                self._tell(Drained(self._drains, ""))
                await asyncio.get_running_loop().create_future()
            assert entry is not None
            batch, first, end, drains = planned + 1, entry.end, entry.end, True
            await self._publish(OFFSETS, batch, first, end, drains=True)
        else:
            if self._quiesced is not None:
                return
            batch, first = planned + 1, entry.end if entry else 0
            end = first + chance.randint(1, 5)
            self._batch_runs = True
            await self._publish(OFFSETS, batch, first, end)
        self._batch_runs = True
        if self.world.user_code:
            await self._admitted()
            self.busy = True
            self.world.holds.user_code_runs(self)
            await asyncio.sleep(chance.uniform(0.0, self.world.user_code_lasts()))
            row = Entry(self._token, first, end, "")
            if await self._within(line.tell(lambda: checkpoint.upsert(batch, row), None)) is False:
                raise _EndedAs(_LOST, "the table has seen a higher token")
            self.busy = False
        # as Spark's file sink: a batch whose entry is there is not written again
        if not await self._within(line.ask(lambda: batch in checkpoint.logs[SINK])):
            await self._publish(SINK, batch, first, end, drains=drains)
        await self._publish(COMMITS, batch, first, end, drains=drains)
        self._batch_ends()

    def _batch_ends(self) -> None:
        self._batch_runs = False
        if self._held and self._drains is None:
            self._tell(Held(self._held, "", roots=self._roots_to_drain))

    @staticmethod
    async def _within(request: Awaitable[T]) -> T:
        """A query whose store does not answer fails, and its script with it."""
        try:
            return await request
        except DocumentError as error:
            raise _EndedAs(1, str(error)) from error
