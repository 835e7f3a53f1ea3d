"""Every interleaving of grant, loss, raise, confirm, claim, write, start and close around ``components.decide``; breadth first, to the end.

The core is production's own. Around it are its elector, as far as a component can tell, the job's document, two contenders that return
when they like, hang or confirm what they were granted earlier, and other processes that lead in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    confirmed,
    decide,
)
from understudy.protocol.token import Token

IDS = ("a", "b")
#: Components, events of the elector, confirmations and faults of the searches that are made.
SIZES = ((1, 3, 2, 1), (2, 2, 1, 0))


@dataclass(frozen=True, slots=True)
class Call:
    """What a contender is being told: the epoch, or 0 for a loss. One that ``hangs`` returns only once it is interrupted."""

    epoch: int
    hangs: bool = False
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Actor:
    """A contender: ``known``, the epoch it believes in, 0 for none; ``granted``, the last it was told of."""

    begun: bool = False
    closed: bool = False
    known: int = 0
    granted: int = 0
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    epoch: int
    address: str
    ours: bool = True


_NEW = State()


@dataclass(frozen=True, slots=True)
class Moment:
    """``epoch``: the highest there was; ``ours``: those that were granted here; ``leads``: the highest is held here. ``job``: under which epoch the document is held. ``answers``: claims that have
    landed, whose answers are under way. ``writes``: under way, with whether they landed. ``valid``: confirmations that counted.
    """

    core: State = _NEW
    elector: Phase = Phase.NEW
    epoch: int = 0
    ours: tuple[int, ...] = ()
    leads: bool = False
    job: int = 0
    actors: tuple[Actor, ...] = ()
    entries: tuple[Entry | None, ...] = ()
    answers: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    writes: tuple[tuple[str, int, str, bool | None], ...] = ()
    valid: frozenset[tuple[str, int, str]] = frozenset()
    events: int = 0
    faults: int = 0
    confirms: int = 0
    broken: str = ""


def begin(components: int, events: int, confirms: int, faults: int) -> Moment:
    """``events``: how often the elector wins, loses, raises or is overtaken. ``confirms``: how often a contender confirms."""
    entries = (None,) * components
    return Moment(actors=(Actor(),) * components, entries=entries, events=events, confirms=confirms, faults=faults)


def nexts(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """Everything that can happen now, and what it is called."""
    yield from _inner(moment)
    yield from _of_the_elector(moment)
    for number, name in enumerate(IDS[: len(moment.actors)]):
        yield from _of_a_contender(moment, number, name)
    for epoch in moment.ours:
        if moment.job < epoch:  # it may have been sent before that grant was lost or raised
            yield f"the job is claimed under {epoch}", _job_claimed(moment, epoch)


def _inner(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """What has begun goes on by itself, and comes to an end."""
    for number, name in enumerate(IDS[: len(moment.actors)]):
        call = moment.actors[number].call
        if call is not None and (not call.hangs or call.interrupted):
            yield f"{name} returns", _returned(moment, number, call)
    for index, (epoch, addresses) in enumerate(moment.answers):
        left = moment.answers[:index] + moment.answers[index + 1 :]
        yield f"the claim of {epoch} is answered", _heard(replace(moment, answers=left), Claimed(epoch, addresses))
    for index, write in enumerate(moment.writes):
        yield from _of_a_write(moment, index, write)


def _of_a_write(moment: Moment, index: int, write: tuple[str, int, str, bool | None]) -> Iterator[tuple[str, Moment]]:
    name, epoch, address, landed = write
    left = moment.writes[:index] + moment.writes[index + 1 :]
    if landed is None:
        # as the store has it: nothing is written under a lower token, nor under a grant that the job was not claimed for
        lands = moment.job == epoch
        after = replace(moment, writes=(*left, (name, epoch, address, lands)))
        yield f"{name} is written", _put(after, name, Entry(epoch, address)) if lands else after
        return
    yield f"{name}'s write is answered", _heard(replace(moment, writes=left), WriteEnded(name, landed))
    if moment.faults:
        less = replace(moment, writes=left, faults=moment.faults - 1)
        yield f"the answer to {name}'s write is lost", _heard(less, WriteEnded(name, ok=False))


def _of_the_elector(moment: Moment) -> Iterator[tuple[str, Moment]]:
    if not moment.events:
        return
    less = replace(moment, events=moment.events - 1)
    if moment.elector is Phase.MADE and not moment.leads:
        won = replace(less, epoch=moment.epoch + 1, ours=(*moment.ours, moment.epoch + 1), leads=True)
        yield f"epoch {won.epoch} is granted", _heard(won, Granted(won.epoch))
    if moment.elector is Phase.RELEASED:
        late = replace(less, epoch=moment.epoch + 1)
        yield (
            f"epoch {late.epoch} was granted before the elector heard that it is released",
            _heard(late, Granted(late.epoch)),
        )
    if moment.leads:
        yield "it is lost", _heard(replace(less, leads=False), Lost("lost"))
        raised = replace(less, epoch=moment.epoch + 1, ours=(*moment.ours, moment.epoch + 1))
        yield f"it is raised to {raised.epoch}", _heard(raised, Granted(raised.epoch))
        other = Entry(moment.epoch + 1, "elsewhere", ours=False)
        # it does not know yet that another process has the lock, and the job
        taken = replace(
            less, epoch=moment.epoch + 1, job=moment.epoch + 1, leads=False, entries=(other,) * len(moment.entries)
        )
        yield "another process leads", _heard(taken, Lost("another process leads"))


def _of_a_contender(moment: Moment, number: int, name: str) -> Iterator[tuple[str, Moment]]:
    actor = moment.actors[number]
    if not actor.begun and moment.core.phase is not Phase.RELEASED:
        yield f"{name} starts", _heard(_with(moment, number, replace(actor, begun=True)), Started(name))
    if not actor.begun:
        return
    if not actor.closed:
        yield f"{name} closes", _heard(_with(moment, number, replace(actor, closed=True)), Closed(name))
    if actor.call is not None and not actor.call.hangs and moment.faults:
        hangs = replace(actor, call=replace(actor.call, hangs=True))
        yield f"{name} hangs", _with(replace(moment, faults=moment.faults - 1), number, hangs)
    if actor.granted and moment.confirms:
        yield from _confirms(replace(moment, confirms=moment.confirms - 1), number, name)


def _confirms(moment: Moment, number: int, name: str) -> Iterator[tuple[str, Moment]]:
    """Of the last grant it was told of, whether that is held still or not."""
    actor = moment.actors[number]
    address = f"{name}{moment.confirms}"
    counts = moment.leads and actor.granted == moment.epoch and not actor.closed
    valid = moment.valid | {(name, actor.granted, address)} if counts else moment.valid
    after = _heard(replace(moment, valid=valid), Confirmed(name, Token(actor.granted, 0), address))
    yield f"{name} confirms {actor.granted} at {address}", after


# --- what a step does -------------------------------------------------------------------------------------------------


def _with(moment: Moment, number: int, actor: Actor) -> Moment:
    return replace(moment, actors=(*moment.actors[:number], actor, *moment.actors[number + 1 :]))


def _put(moment: Moment, name: str, entry: Entry) -> Moment:
    number = IDS.index(name)
    if (name, entry.epoch, entry.address) not in moment.valid:
        moment = _broken(moment, f"{name} at {entry.address} stands under {entry.epoch}, which never confirmed that")
    return replace(moment, entries=(*moment.entries[:number], entry, *moment.entries[number + 1 :]))


def _job_claimed(moment: Moment, epoch: int) -> Moment:
    """The claim takes along what was confirmed; older entries go."""
    taken = confirmed(moment.core, epoch)
    claimed = replace(moment, job=epoch, entries=(None,) * len(moment.entries))
    for name, address in taken.items():
        claimed = _put(claimed, name, Entry(epoch, address))
    return replace(claimed, answers=(*moment.answers, (epoch, tuple(taken.items()))))


def _returned(moment: Moment, number: int, call: Call) -> Moment:
    del call
    actor = replace(moment.actors[number], call=None)
    return _heard(_with(moment, number, actor), Told(IDS[number]))


def _heard(moment: Moment, given: Input) -> Moment:
    core, commands = decide(moment.core, given)
    moment = replace(moment, core=core)
    for command in commands:
        moment = _done(moment, command)
    return moment


def _broken(moment: Moment, what: str) -> Moment:
    return moment if moment.broken else replace(moment, broken=what)


def _done(moment: Moment, command: Command) -> Moment:
    match command:
        case MakeElector():
            moment = moment if moment.elector is Phase.NEW else _broken(moment, "the elector is made twice")
            return replace(moment, elector=Phase.MADE)
        case ReleaseElector():
            if any(actor.begun and not actor.closed for actor in moment.actors):
                moment = _broken(moment, "the elector is released while a component is open")
            return replace(moment, elector=Phase.RELEASED, leads=False)
        case TellGranted() | TellRevoked() | Interrupt():
            return _told(moment, command)
        case WriteComponent(name, token, address):
            if not moment.leads or moment.epoch != token.epoch or moment.job != token.epoch:
                moment = _broken(moment, f"{name} is written under {token.epoch}, which has no claim of the job")
            if any(each[0] == name for each in moment.writes):
                moment = _broken(moment, f"{name} is written twice at once")
            return replace(moment, writes=(*moment.writes, (name, token.epoch, address, None)))
        case SayDropped():
            return moment


def _told(moment: Moment, command: TellGranted | TellRevoked | Interrupt) -> Moment:
    number = IDS.index(command.id)
    actor, name = moment.actors[number], command.id
    if isinstance(command, Interrupt):
        if actor.call is None:
            return _broken(moment, f"{name} is interrupted in nothing")
        return _with(moment, number, replace(actor, call=replace(actor.call, interrupted=True)))
    if actor.call is not None:
        moment = _broken(moment, f"{name} is told two things at once")
    if isinstance(command, TellRevoked):
        if not actor.known:
            moment = _broken(moment, f"{name} hears of a loss, and knows of no grant")
        return _with(moment, number, replace(actor, known=0, call=Call(0)))
    epoch = command.token.epoch
    if actor.known:
        moment = _broken(moment, f"{name} is granted {epoch} while it believes in {actor.known}")
    if actor.closed:
        moment = _broken(moment, f"{name} is granted {epoch} after it was closed")
    if epoch <= actor.granted or epoch != moment.epoch or not moment.leads:
        moment = _broken(moment, f"{name} is granted {epoch}, which is not held")
    return _with(moment, number, replace(actor, known=epoch, granted=epoch, call=Call(epoch)))


# --- what has to hold where nothing goes on any more ------------------------------------------------------------------


def unsettled(moment: Moment) -> str:
    """Why a moment in which nothing is under way is not as it should be."""
    held = moment.epoch if moment.leads else 0
    for number, name in enumerate(IDS[: len(moment.actors)]):
        actor, entry = moment.actors[number], moment.entries[number]
        wanted = held if actor.begun and not actor.closed else 0
        if actor.call is not None and actor.call.epoch == 0:
            continue  # it hangs in what it does about a loss, and holds up itself alone
        if actor.known != wanted:
            return f"{name} believes in {actor.known} where {wanted} is held"
        newest = moment.core.component(name)
        confirmed_last = None if newest is None else newest.address
        if wanted and moment.job == held and confirmed_last not in {None, entry and entry.address}:
            return f"{name} has confirmed {confirmed_last}, and the document says {entry}"
        said = [address for who, epoch, address in moment.valid if (who, epoch) == (name, held)]
        if wanted and said and confirmed_last not in said:
            return f"{name} has confirmed one of {said}, which is forgotten"
    open_ones = [actor for actor in moment.actors if actor.begun and not actor.closed]
    if moment.elector is Phase.MADE and not open_ones:
        return "every component is closed, and the elector is not released"
    if moment.elector is not Phase.MADE and open_ones:
        return "a component is open, and there is no elector"
    return ""


@dataclass(slots=True)
class Found:
    states: int = 0
    steps: int = 0
    broken: str = ""

    def __str__(self) -> str:
        broken = f"\nBROKEN: {self.broken}" if self.broken else ""
        return f"components: {self.states} states, {self.steps} steps, and there are no more{broken}"


def explore(first: Moment, found: Found) -> None:
    """Breadth first, until nothing is new or something is broken."""
    seen: dict[Moment, tuple[Moment | None, str]] = {first: (None, "")}
    queue = deque([first])
    while queue and not found.broken:
        moment = queue.popleft()
        found.states += 1
        if not any(True for _ in _inner(moment)) and (why := unsettled(moment)):
            found.broken = f"{why} after: {_path(seen, moment)}"
        for what, after in nexts(moment):
            found.steps += 1
            if after not in seen:
                seen[after] = (moment, what)
                queue.append(after)
            if after.broken:
                found.broken = f"{after.broken} after: {_path(seen, after)}"


def search() -> Found:
    """All there is of the sizes that are proven: large enough for every guard, and done in seconds."""
    found = Found()
    for size in SIZES:
        explore(begin(*size), found)
    return found


def _path(seen: dict[Moment, tuple[Moment | None, str]], moment: Moment) -> str:
    steps: list[str] = []
    at: Moment | None = moment
    while at is not None:
        at, what = seen[at]
        steps.append(what)
    return "; ".join(reversed([each for each in steps if each]))
