"""Many components in one election: the shell around ``components.decide``.

The service is the elector's one candidate. Contenders are called in tasks of their own, so one that raises, hangs or is slow holds up
neither the others nor the elector; what it raises is an event of the log. One component may be *attached* instead: it hears the elector
synchronously, renewals included, as deadlines need it. Its errors end the elector, as its own candidate's always have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar, assert_never

from understudy.clock import Clock
from understudy.election import components
from understudy.election.commands import Grant
from understudy.election.components import (
    Claimed,
    Closed,
    Command,
    Confirmed,
    Granted,
    Input,
    Interrupt,
    Lost,
    MakeElector,
    Phase,
    ReleaseElector,
    SayDropped,
    Started,
    State,
    TellGranted,
    TellRevoked,
    Told,
    WriteComponent,
    WriteEnded,
)
from understudy.election.elector import Candidate, Elector
from understudy.errors import LeadershipLost
from understudy.events import Log
from understudy.protocol.token import Token

T = TypeVar("T")

#: Seconds between two tries to write what a component has confirmed.
_WRITE_AGAIN = 10.0
#: Seconds that contenders have at the end of the process, all of them together.
_CLOSES_WITHIN = 1.0

#: Writes a component's address under a token; whether it stands there then. May raise.
WriteAddress = Callable[[str, Token, str], Awaitable[bool]]


class Contender(Protocol):
    """A component that wants to lead. Called in a task of its own, one call at a time."""

    async def granted(self, token: Token) -> None:
        """It leads under ``token``, which is above every earlier one. Once it serves, it confirms that with its address.

        Cancelled when the grant is over before it returns.
        """

    async def revoked(self, reason: str) -> None:
        """It leads no more. Follows each ``granted``, also one that failed or was cancelled before it began.

        Not waited for by anything but the next grant of this component: the lock may be another process's already.
        """


class LeaderElection:
    """One component's part in the election."""

    def __init__(self, service: LeaderElectionService, name: str) -> None:
        self._service, self._name = service, name

    def start(self, contender: Contender) -> None:
        """Contend. Where this process leads already the contender is told at once.

        Raises ``RuntimeError``: the component has started, or the election is over.
        """
        self._service.begin(self._name, contender)

    def attach(self, candidate: Candidate) -> Elector:
        """Contend, and hear the elector itself: its own calls, in its own loop. The elector, to run, and to ask.

        Raises ``RuntimeError``: another component is attached, or has started before.
        """
        return self._service.attach(self._name, candidate)

    def confirm(self, token: Token, address: str) -> bool:
        """This component serves at ``address`` (host:port, or what followers understand). False, and without effect, where ``token`` is old.

        Not guaranteed: that followers see it before this grant is lost.
        """
        return self._service.confirm(self._name, token, address)

    def has_leadership(self, token: Token) -> bool:
        """Whether the grant of ``token`` is held here, as far as is known now. No fence: the resource refuses a stale writer."""
        return self._service.has_leadership(self._name, token)

    def close(self) -> None:
        """Contend no more. A contender that leads is told that it does not. The last one to close releases the elector. Idempotent."""
        self._service.end(self._name)


class LeaderElectionService:
    """One election of one process. ``make`` makes its elector, for the first component that starts; ``write`` puts a component's address
    into the job's document.

    All methods belong to the event loop the elector runs in.
    """

    def __init__(self, make: Callable[[Candidate], Elector], write: WriteAddress, clock: Clock, log: Log) -> None:
        self._make, self._write, self._clock, self._log = make, write, clock, log
        self._state = State()
        self._elector: Elector | None = None
        self._attached: Candidate | None = None
        self._contenders: dict[str, Contender] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._writes: dict[str, asyncio.Task[bool]] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._unwritten = ""  # what was said last of why an address could not be written

    def election(self, name: str) -> LeaderElection:
        """The part of component ``name``. Nothing is made before it starts."""
        return LeaderElection(self, name)

    async def close(self) -> None:
        """Close every component, and end the calls that are under way. Not guaranteed: that one ends which ignores its cancellation."""
        for each in self._state.components:
            self._hear(Closed(each.id))
        for write in self._writes.values():
            write.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSES_WITHIN):
                while self._tasks:
                    await asyncio.wait(list(self._tasks))
        for task in list(self._tasks):
            task.cancel()

    # --- the elector's calls ------------------------------------------------------------------------------------------

    def granted(self, grant: Grant) -> None:
        if self._attached is not None:
            self._attached.granted(grant)
        self._hear(Granted(grant.epoch))

    def renewed(self, sent_at: float) -> None:
        if self._attached is not None:
            self._attached.renewed(sent_at)

    def lost(self, reason: str) -> None:
        if self._attached is not None:
            self._attached.lost(reason)
        self._hear(Lost(reason))

    # --- the job's claim ----------------------------------------------------------------------------------------------

    async def raise_above(self, epoch: int) -> int | None:
        """As ``Elector.raise_above``. Each component then has another grant, of the epoch that was raised."""
        assert self._elector is not None, "it holds a grant"
        raised = await self._elector.raise_above(epoch)
        token = self._state.token
        if raised is not None and token is not None and token.epoch < raised:
            self._hear(Granted(raised))
        return raised

    async def release(self, successor: str | None) -> bool:
        """As ``Elector.release``. Each component that leads is told before that it does not: the elector tells of losses only."""
        assert self._elector is not None, "a component has started"
        self._hear(Lost("the lock is given back"))
        return await self._elector.release(successor)

    def confirmed(self, epoch: int) -> dict[str, str]:
        """The addresses, by component, that a claim of the job under ``epoch`` takes along."""
        return components.confirmed(self._state, epoch)

    def claimed(self, epoch: int, addresses: Mapping[str, str]) -> None:
        """The job is claimed under ``epoch``; its document says ``addresses`` of this process's components."""
        self._hear(Claimed(epoch, tuple(addresses.items())))

    # --- what a component asks ----------------------------------------------------------------------------------------

    def begin(self, name: str, contender: Contender) -> None:
        self._check_new(name)
        self._contenders[name] = contender
        self._start(Started(name))

    def attach(self, name: str, candidate: Candidate) -> Elector:
        self._check_new(name)
        if self._state.phase is not Phase.NEW:
            raise RuntimeError(f"component {name} has to be the first one: the election has begun without it")
        self._start(Started(name, attached=True))
        self._attached = candidate
        assert self._elector is not None, "the first component makes it"
        return self._elector

    def confirm(self, name: str, token: Token, address: str) -> bool:
        current = self.has_leadership(name, token)
        self._hear(Confirmed(name, token, address))
        return current

    def has_leadership(self, name: str, token: Token) -> bool:
        component = self._state.component(name)
        return component is not None and not component.closing and token == self._state.token

    def end(self, name: str) -> None:
        self._hear(Closed(name))

    def _start(self, given: Started) -> None:
        """Where no elector can be made nothing has started: the error is the caller's, and the end has nothing to release."""
        before = self._state
        try:
            self._hear(given)
        except BaseException:
            self._state = before
            raise

    def _check_new(self, name: str) -> None:
        if self._state.phase is Phase.RELEASED:
            raise RuntimeError(
                f"component {name} is too late: a process that has left its election never contends again"
            )
        if self._state.component(name) is not None:
            raise RuntimeError(f"component {name} has started already")

    # --- commands -----------------------------------------------------------------------------------------------------

    def _hear(self, given: Input) -> None:
        self._state, commands = components.decide(self._state, given)
        for command in commands:
            self._do(command)

    def _do(self, command: Command) -> None:
        match command:
            case MakeElector():
                self._elector = self._make(self)
            case ReleaseElector():
                assert self._elector is not None, "the first component made it"
                self._elector.stop()
                self._spawn(self._elector.release(None))
            case TellGranted(name, token):
                self._call(name, partial(self._contenders[name].granted, token))
            case TellRevoked(name, reason):
                self._call(name, partial(self._contenders[name].revoked, reason))
            case Interrupt(name):
                self._calls[name].cancel()
            case WriteComponent(name, token, address):
                self._writes[name] = write = self._spawn(self._written(name, token, address))
                write.add_done_callback(lambda done: self._write_ended(name, done))
            case SayDropped(name, token):
                what = f"component {name} confirmed the grant of {token}, which is over; nothing is written"
                self._log.say("confirmation-dropped", what, component=name, epoch=token.epoch)
            case _:
                assert_never(command)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def _call(self, name: str, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._calls[name] = task = self._spawn(self._tell(name, call))
        # also where it is cancelled before it begins
        task.add_done_callback(lambda _: self._hear(Told(name)))

    async def _tell(self, name: str, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await call()
        except (Exception, LeadershipLost) as error:  # noqa: BLE001 - no error of a component ends the others
            what = f"component {name} failed, and is told of the next grant: {type(error).__name__}: {error}"
            self._log.say("component-failed", what, component=name)

    async def _written(self, name: str, token: Token, address: str) -> bool:
        ok = False
        try:
            ok = await self._write(name, token, address)
        except (Exception, LeadershipLost) as error:  # noqa: BLE001 - it is tried again for as long as the grant is held
            if str(error) != self._unwritten:
                self._unwritten = str(error)
                self._log.say("component-unwritten", f"{name} at {address}: {error}", component=name)
        if not ok:
            await self._clock.sleep(_WRITE_AGAIN)
        return ok

    def _write_ended(self, name: str, write: asyncio.Task[bool]) -> None:
        self._hear(WriteEnded(name, ok=not write.cancelled() and write.result()))
