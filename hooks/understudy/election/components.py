"""Many components in one election (FLIP-285): what each of them is told, and what the document says of it. Pure.

``decide(state, input) -> (state, commands)``. A process wins or loses for all of its components at once. Each of them hears it in its own
time: one that is slow is told less, never something that is not true any more, and delays no other. ``leader_election.py`` carries
out the commands.

Not guaranteed: that a component hears of a grant that is lost again before its turn.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from understudy.protocol.token import Token


@dataclass(frozen=True, slots=True)
class Telling:
    """A contender is being told of the grant of ``token``, or that there is none; it has not returned yet."""

    token: Token | None
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """``told``: the grant that its contender knows of. ``address``: confirmed under the present grant. ``writing``: the token and address of
    the write that is under way. ``written``: the document has ``address``. ``closing``: it goes once its contender knows of no grant.
    ``attached``: it hears the elector itself, and is told nothing from here.
    """

    id: str
    attached: bool = False
    told: Token | None = None
    telling: Telling | None = None
    address: str | None = None
    writing: tuple[Token, str] | None = None
    written: bool = False
    closing: bool = False


class Phase(enum.Enum):
    """Of the elector: it is made for the first component, ends with the last one, and is never made a second time."""

    NEW = "new"
    MADE = "made"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class State:
    """``token``: of the grant that this process holds, with attempt 0. ``reason``: why it lost the last one. ``claimed``: the job's document
    is held under this grant, so that components may be written into it.
    """

    phase: Phase = Phase.NEW
    token: Token | None = None
    reason: str = ""
    claimed: bool = False
    components: tuple[Component, ...] = ()

    def component(self, name: str) -> Component | None:
        return next((each for each in self.components if each.id == name), None)


# --- inputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """Component ``id`` has a contender. There is none of this id, and the elector has not been released."""

    id: str
    attached: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    id: str


@dataclass(frozen=True, slots=True)
class Granted:
    """This process leads from ``epoch`` on, by another grant or because the one it holds was raised."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Lost:
    reason: str


@dataclass(frozen=True, slots=True)
class Told:
    """The contender of ``id`` has returned, or raised, or was interrupted: it has been told, whichever it was."""

    id: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The contender of ``id`` serves at ``address`` under ``token``."""

    id: str
    token: Token
    address: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """The job's document was claimed under ``epoch``, and says ``addresses`` of the components, by id."""

    epoch: int
    addresses: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WriteEnded:
    """``ok``: it landed. If not, it may have."""

    id: str
    ok: bool


Input = Started | Closed | Granted | Lost | Told | Confirmed | Claimed | WriteEnded


# --- commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeElector:
    pass


@dataclass(frozen=True, slots=True)
class ReleaseElector:
    """Contend no more, and give back the lock, if it is held."""


@dataclass(frozen=True, slots=True)
class TellGranted:
    id: str
    token: Token


@dataclass(frozen=True, slots=True)
class TellRevoked:
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """What the contender of ``id`` is being told is not true any more: end the call."""

    id: str


@dataclass(frozen=True, slots=True)
class WriteComponent:
    id: str
    token: Token
    address: str


@dataclass(frozen=True, slots=True)
class SayDropped:
    """A confirmation came too late."""

    id: str
    token: Token


Command = MakeElector | ReleaseElector | TellGranted | TellRevoked | Interrupt | WriteComponent | SayDropped


# --- decisions --------------------------------------------------------------------------------------------------------


def decide(state: State, given: Input) -> tuple[State, tuple[Command, ...]]:
    """The next state, and what to do, in that order."""
    first: tuple[Command, ...] = ()
    match given:
        case Started(name, attached):
            first = (MakeElector(),) if state.phase is Phase.NEW else ()
            started = (*state.components, Component(name, attached))
            state = replace(state, phase=Phase.MADE, components=started)
        case Closed(name):
            state = _changed(state, name, lambda each: replace(each, closing=True))
        case Granted(epoch):
            state = _granted(state, Token(epoch, 0))
        case Lost(reason):
            state = replace(_granted(state, None), reason=reason)
        case Told(name):
            state = _changed(state, name, _heard)
        case Confirmed(name, token, address):
            state, first = _confirmed(state, name, token, address)
        case Claimed(epoch, addresses):
            state = _claimed(state, epoch, dict(addresses))
        case WriteEnded(name, ok):
            state = _changed(state, name, lambda each: _write_ended(state, each, ok=ok))
        case _:
            assert_never(given)
    return _settled(state, first)


def confirmed(state: State, epoch: int) -> dict[str, str]:
    """What a claim of the job under ``epoch`` takes along: the address of each component that has confirmed its grant."""
    # guard: claim-takes-along-its-own-grant
    if state.token is None or state.token.epoch != epoch:
        return {}
    return {each.id: each.address for each in state.components if each.address is not None and not each.closing}


def _granted(state: State, token: Token | None) -> State:
    components = state.components
    # guard: each-grant-is-confirmed-by-itself
    components = tuple(replace(each, address=None, written=False) for each in components)
    return replace(state, token=token, claimed=False, components=components)


def _heard(component: Component) -> Component:
    assert component.telling is not None, "it was told something"
    return replace(component, told=component.telling.token, telling=None)


def _confirmed(state: State, name: str, token: Token, address: str) -> tuple[State, tuple[Command, ...]]:
    component = state.component(name)
    # guard: old-confirmation-is-dropped
    if component is None or component.closing or token != state.token:
        return state, (SayDropped(name, token),)
    written = component.written and component.address == address
    return _changed(state, name, lambda each: replace(each, address=address, written=written)), ()


def _claimed(state: State, epoch: int, addresses: dict[str, str]) -> State:
    # guard: claim-of-another-grant-counts-for-nothing
    if state.token is None or state.token.epoch != epoch:
        return state
    components = tuple(
        replace(each, written=each.address is not None and addresses.get(each.id) == each.address)
        for each in state.components
    )
    return replace(state, claimed=True, components=components)


def _write_ended(state: State, component: Component, *, ok: bool) -> Component:
    current = (state.token, component.address)
    # guard: write-of-another-address-settles-nothing
    ok = ok and component.writing == current
    return replace(component, writing=None, written=component.written or ok)


def _changed(state: State, name: str, change: Callable[[Component], Component]) -> State:
    """Unchanged where the component has gone."""
    return replace(state, components=tuple(change(each) if each.id == name else each for each in state.components))


def _settled(state: State, first: tuple[Command, ...]) -> tuple[State, tuple[Command, ...]]:
    """What follows for each component, and for the elector."""
    kept: list[Component] = []
    commands = [*first]
    for each in state.components:
        settled, told = _told(state, each)
        settled, written = _written(state, settled)
        commands += [*told, *written]
        if not (settled.closing and settled.told is None and settled.telling is None and settled.writing is None):
            kept.append(settled)
    state = replace(state, components=tuple(kept))
    # guard: elector-ends-with-the-last-component
    if state.phase is Phase.MADE and all(each.closing for each in kept):
        return replace(state, phase=Phase.RELEASED), (*commands, ReleaseElector())
    return state, tuple(commands)


def _told(state: State, component: Component) -> tuple[Component, tuple[Command, ...]]:
    """One thing at a time, and a loss before the next grant. A grant that is over is interrupted; a loss never is, for it may take its time."""
    wanted = state.token
    # guard: closed-component-is-granted-nothing
    if component.closing or component.attached:
        wanted = None
    # guard: contender-is-told-one-thing-at-a-time
    if (telling := component.telling) is not None:
        # guard: what-is-not-true-any-more-is-interrupted
        if telling.token not in {None, wanted} and not telling.interrupted:
            return replace(component, telling=replace(telling, interrupted=True)), (Interrupt(component.id),)
        return component, ()
    if component.told == wanted:
        return component, ()
    # guard: loss-is-told-before-the-next-grant
    if component.told is not None:
        return replace(component, telling=Telling(None)), (TellRevoked(component.id, state.reason),)
    assert wanted is not None
    return replace(component, telling=Telling(wanted)), (TellGranted(component.id, wanted),)


def _written(state: State, component: Component) -> tuple[Component, tuple[Command, ...]]:
    """One write at a time; none where the document says so already, or is not this grant's."""
    token, address = state.token, component.address
    if token is None or address is None or component.closing or component.written or component.writing is not None:
        return component, ()
    # guard: component-is-written-under-a-claim
    if not state.claimed:
        return component, ()
    return replace(component, writing=(token, address)), (WriteComponent(component.id, token, address),)
