"""Every interleaving of two or three cores, up to a number of faults and for as long as there is time; breadth first.

The core is production's own. Around it there is one lock document, one request at most per replica, and a clock that jumps to
all that is due next. At every step one thing happens, and everything that can happen is tried: a request is answered, or lost,
or its answer is, or it is delayed and lands later; a replica crashes, is frozen, or thaws; a death becomes known; the lock is
deleted; time passes.

Two states are one when they differ in nothing a decision can tell: times are taken relative to now, revisions and nonces by the
order in which they appear.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from understudy.config.timings import Timings
from understudy.documents.model import Conflict, Document, Unknown, Written
from understudy.election.commands import Command, Granted, Lost, Read, ReadMinEpoch, Renewed, Write
from understudy.election.inputs import (
    Answer,
    Evidence,
    Input,
    MinEpochRead,
    MinEpochUnknown,
    ReleaseAsked,
    Seen,
    StopAsked,
    Tick,
    Unseen,
)
from understudy.election.machine import decide, wakes_at
from understudy.election.records import Attempt, lock_state_of
from understudy.election.state import Role, Rules, State

#: In whole seconds, so that states meet again.
TIMINGS = Timings(lease=12.0, renew=5.0, retry=2.0, request=2.0, kill=1.0, write_timeout=4.0)
_TIMES = frozenset(
    {"changed_at", "read_at", "asked_at", "next_at", "not_before", "lost_at", "confirmed_at", "until", "sent_at"}
)
_NAMES = frozenset({"revision", "nonce"})


@dataclass(frozen=True, slots=True)
class Actor:
    """One replica: its core, the request it waits for, and until when its gate is open by its own reckoning.

    ``fails_at``: when the request, which will not be answered, is given up.
    """

    state: State
    request: Read | ReadMinEpoch | Write | None = None
    fails_at: float | None = None
    frozen: bool = False
    dead: bool = False
    open_until: float = float("-inf")
    written: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """``under_way`` are writes that land later, if ever; ``faults`` are left; ``granted`` is the highest epoch there was."""

    now: float
    lock: Document | None
    actors: tuple[Actor, ...]
    under_way: tuple[Attempt, ...] = ()
    faults: int = 0
    revision: int = 0
    granted: int = 0
    broken: str = ""


def begin(replicas: int, faults: int) -> Moment:
    actors = tuple(
        Actor(State(Rules("lock", f"r{number}", TIMINGS), ready=True, changed_at=0.0)) for number in range(replicas)
    )
    moment = Moment(0.0, None, actors, faults=faults)
    for number in range(replicas):
        moment = _heard(moment, number, Tick())
    return moment


def nexts(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """Everything that can happen now, and what it is called."""
    waiting = False
    for number, actor in enumerate(moment.actors):
        if actor.dead:
            continue
        name = actor.state.rules.holder
        if actor.frozen:
            yield f"{name} thaws", _with(moment, number, replace(actor, frozen=False))
            continue
        if actor.request is not None and actor.fails_at is None:
            waiting = True
            yield f"{name} is answered", _answered(moment, number)
            if moment.faults:
                yield from _failing(moment, number)
        if moment.faults:
            less = replace(moment, faults=moment.faults - 1)
            yield f"{name} crashes", _with(less, number, replace(actor, dead=True, request=None, open_until=moment.now))
            yield f"{name} is frozen", _with(less, number, replace(actor, frozen=True))
            if not actor.state.stopping:
                yield f"{name} is told to stop", _stopping(less, number)
    for index, attempt in enumerate(moment.under_way):
        rest = moment.under_way[:index] + moment.under_way[index + 1 :]
        yield f"a write of {attempt.grant.holder} lands", _landed(replace(moment, under_way=rest), attempt)[0]
    yield from _deaths(moment)
    yield from _deleted(moment)
    if not waiting:  # an answer takes no time, unless it takes all there is
        yield from _later(moment)


def _deleted(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """Not while a create is about to be answered: one that was decided on before the lock was made wins on its absence.

    No store can tell that from the first. The claims do: it is the same epoch, and the job's document gives each its own attempt.
    """
    requests = [actor.request for actor in moment.actors if actor.fails_at is None and not actor.dead]
    creates = any(isinstance(request, Write) and request.attempt.seen is None for request in requests)
    if moment.faults and moment.lock is not None and not creates:
        yield "the lock is deleted", replace(moment, lock=None, faults=moment.faults - 1)


def _failing(moment: Moment, number: int) -> Iterator[tuple[str, Moment]]:
    actor = moment.actors[number]
    less = replace(moment, faults=moment.faults - 1)
    lost = replace(actor, fails_at=moment.now + TIMINGS.request)
    name = actor.state.rules.holder
    yield f"{name}'s request is lost", _with(less, number, lost)
    if isinstance(actor.request, Write):
        attempt = _sealed(actor, actor.request)
        lost = replace(lost, request=Write(attempt), written=actor.written + 1)
        yield f"{name}'s answer is lost", _with(_landed(less, attempt)[0], number, lost)
        yield f"{name}'s write is delayed", _with(replace(less, under_way=(*less.under_way, attempt)), number, lost)


def _stopping(moment: Moment, number: int) -> Moment:
    """Its driver is buried first, so its gate is closed; then the lock is given back, if it is held."""
    moment = _with(moment, number, replace(moment.actors[number], open_until=moment.now))
    moment = _heard(moment, number, StopAsked())
    if moment.actors[number].state.held_lease is None:
        return moment
    return _heard(moment, number, ReleaseAsked(None))


def _deaths(moment: Moment) -> Iterator[tuple[str, Moment]]:
    gone = [actor.state.rules.holder for actor in moment.actors if actor.dead]
    for number, actor in enumerate(moment.actors):
        for holder in gone:
            if not actor.dead and not actor.frozen and holder not in dict(actor.state.dead):
                yield (
                    f"{actor.state.rules.holder} hears that {holder} is dead",
                    _heard(moment, number, Evidence(holder)),
                )


def _later(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """Time passes until the next thing is due; of several at once, each may be first."""
    dues = [(_due(actor), number) for number, actor in enumerate(moment.actors) if not actor.dead and not actor.frozen]
    if not dues:
        return
    at = max(moment.now, min(dues)[0])
    if at == float("inf"):
        return
    for due, number in dues:
        if due <= at:
            passed = replace(moment, now=at)
            actor = passed.actors[number]
            if actor.fails_at is not None and actor.fails_at <= at:
                yield f"{actor.state.rules.holder} gives up", _given_up(passed, number)
            else:
                yield f"{at - moment.now:g} s pass for {actor.state.rules.holder}", _heard(passed, number, Tick())


def _due(actor: Actor) -> float:
    failing = float("inf") if actor.fails_at is None else actor.fails_at
    return min(failing, *wakes_at(actor.state))


# --- what a step does -------------------------------------------------------------------------------------------------


def _with(moment: Moment, number: int, actor: Actor) -> Moment:
    return replace(moment, actors=(*moment.actors[:number], actor, *moment.actors[number + 1 :]))


def _heard(moment: Moment, number: int, observation: Input) -> Moment:
    actor = moment.actors[number]
    state, actions = decide(actor.state, observation, moment.now)
    actor = replace(actor, state=state)
    for action in actions:
        moment, actor = _done(moment, actor, action)
    moment = _with(moment, number, actor)
    open_now = [each.state.rules.holder for each in moment.actors if not each.dead and moment.now < each.open_until]
    return replace(moment, broken=f"the gates of {open_now} are open") if len(open_now) > 1 else moment


def _done(moment: Moment, actor: Actor, action: Command) -> tuple[Moment, Actor]:
    match action:
        case Read() | ReadMinEpoch() | Write():
            return moment, replace(actor, request=action, fails_at=None)
        case Granted(grant):
            if grant.epoch <= moment.granted:
                moment = replace(moment, broken=f"epoch {grant.epoch} is granted after {moment.granted}")
            return replace(moment, granted=max(moment.granted, grant.epoch)), actor
        case Renewed(sent_at):
            # who has been told to stop has no driver any more whose gate could open
            opened = moment.now if actor.state.stopping else sent_at + TIMINGS.renew
            return moment, replace(actor, open_until=opened)
        case Lost():
            return moment, replace(actor, open_until=moment.now)
        case _:
            return moment, actor


def _sealed(actor: Actor, write: Write) -> Attempt:
    return write.attempt.sealed(f"{actor.state.rules.holder}-{actor.written}", "")


def _answered(moment: Moment, number: int) -> Moment:
    actor = moment.actors[number]
    request = actor.request
    free = _with(moment, number, replace(actor, request=None))
    match request:
        case Read():
            return _heard(free, number, Seen(lock_state_of(moment.lock)))
        case ReadMinEpoch():
            return _heard(free, number, MinEpochRead(moment.granted))
        case Write():
            attempt = _sealed(actor, request)
            landed, outcome = _landed(moment, attempt)
            free = _with(landed, number, replace(actor, request=None, written=actor.written + 1))
            return _heard(free, number, Answer(attempt, outcome))
        case None:
            raise AssertionError


def _given_up(moment: Moment, number: int) -> Moment:
    actor = moment.actors[number]
    request = actor.request
    free = _with(moment, number, replace(actor, request=None, fails_at=None))
    match request:
        case Write(attempt):
            return _heard(free, number, Answer(attempt, Unknown("no answer")))
        case ReadMinEpoch():
            return _heard(free, number, MinEpochUnknown("no answer"))
        case _:
            return _heard(free, number, Unseen("no answer"))


def _landed(moment: Moment, attempt: Attempt) -> tuple[Moment, Written | Conflict]:
    seen = None if attempt.seen is None else attempt.seen.revision
    if seen != (None if moment.lock is None else moment.lock.revision):
        return moment, Conflict(moment.lock)
    content = attempt.content
    entries = {key: value for key, value in content.entries.items() if value is not None}
    labels = {key: value for key, value in content.labels.items() if value is not None}
    document = Document("lock", entries, content.leader, labels, str(moment.revision + 1))
    return replace(moment, lock=document, revision=moment.revision + 1), Written(document)


# --- which states are one ---------------------------------------------------------------------------------------------


def key(moment: Moment) -> tuple[Any, ...]:
    """Equal for two moments that no decision can tell apart."""
    names: dict[str, int] = {}

    def time_of(value: float | None) -> float | None:
        return value if value is None or abs(value) == float("inf") else value - moment.now

    def plain(value: Any, field: str = "") -> Any:
        if field in _TIMES:
            return time_of(value)
        if field in _NAMES:
            return names.setdefault(value, len(names))
        if isinstance(value, Document):  # of its entries a core reads the grant alone, which its lock_state has decoded
            lock_state = lock_state_of(value)
            return (
                plain(value.revision, "revision"),
                type(lock_state).__name__,
                lock_state.epoch,
                plain(value.leader),
                _nonce(value),
            )
        if isinstance(value, Enum) or value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, tuple):
            return tuple(plain(each) for each in value)
        if is_dataclass(value):
            skipped = {"rules", "reason", "written"}
            return tuple(
                plain(getattr(value, each.name), each.name) for each in fields(value) if each.name not in skipped
            )
        return str(value)

    def _nonce(document: Document) -> int:
        return names.setdefault(document.entries.get("grant", ""), len(names))

    dead = tuple(tuple((holder, time_of(at)) for holder, at in actor.state.dead) for actor in moment.actors)
    actors = tuple(plain(replace(actor, state=replace(actor.state, dead=()))) for actor in moment.actors)
    opened = tuple(time_of(max(actor.open_until, moment.now)) for actor in moment.actors)
    # epochs only ever grow: what matters is by how much the highest is above what each has seen, and that is in the sights
    return (plain(moment.lock), actors, dead, opened, plain(moment.under_way), moment.faults, moment.granted)


# --- the search -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """``depth``: every path of so many steps was tried. ``roles``: which role followed which, as the search saw it."""

    replicas: int
    faults: int
    states: int
    steps: int
    depth: int
    whole: bool
    broken: list[str]
    roles: set[tuple[Role, Role]]

    def __str__(self) -> str:
        rest = ", and there are no more" if self.whole else ""
        told = f"{self.replicas} replicas, {self.faults} faults: {self.states} states, {self.steps} steps, "
        broken = "".join(f"\nBROKEN: {path}" for path in self.broken)
        return f"{told}every path of {self.depth} steps{rest}{broken}"


def explore(replicas: int, faults: int, seconds: float) -> Found:
    """Breadth first, until nothing is new or ``seconds`` are over."""
    first = begin(replicas, faults)
    seen = {key(first)}
    queue: deque[tuple[Moment, int, tuple[str, ...]]] = deque([(first, 0, ())])
    found = Found(replicas, faults, 1, 0, 0, False, [], set())
    until = time.monotonic() + seconds
    while queue:
        moment, depth, path = queue.popleft()
        found.depth = depth
        if found.steps % 256 == 0 and time.monotonic() > until:
            return found
        for what, after in nexts(moment):
            found.steps += 1
            for was, now in zip(moment.actors, after.actors, strict=True):
                if was.state.role is not now.state.role:
                    found.roles.add((was.state.role, now.state.role))
            if after.broken:
                found.broken.append(f"{after.broken} after: {'; '.join((*path, what))}")
                return found
            known = key(after)
            if known not in seen:
                seen.add(known)
                found.states += 1
                queue.append((after, depth + 1, (*path, what)))
    found.whole = True
    return found


def diagram(roles: set[tuple[Role, Role]]) -> str:
    """The roles and what followed what, for Mermaid."""
    arrows = sorted(f"    {was} --> {now}" for was, now in roles)
    return "\n".join(["stateDiagram-v2", f"    [*] --> {Role.STANDBY}", *arrows, f"    {Role.STOPPED} --> [*]"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--faults", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--diagram", action="store_true", help="print the state diagram, too")
    options = parser.parse_args()
    found = explore(options.replicas, options.faults, options.seconds)
    sys.stdout.write(f"{found}\n")
    if options.diagram:
        sys.stdout.write(f"{diagram(found.roles)}\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
