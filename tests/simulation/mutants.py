"""Guards, and how each is taken out: a mutant is production code with one guard less, and some seed must catch it.

A guard is named by its text. When that text is no longer there, or there twice, the mutant fails loudly instead of proving nothing.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.simulation.plan import Kind

_ELECTION = "understudy.election"
_SUPERVISOR = "understudy.supervisor"


@dataclass(frozen=True, slots=True)
class Edit:
    """``where`` is ``module:function`` or ``module:Class.method``; ``old`` occurs once in its source."""

    where: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """``kinds``: histories that can tell; empty means all of them."""

    name: str
    edits: tuple[Edit, ...]
    kinds: tuple[Kind, ...] = ()
    #: A seed that noticed it when it was last looked for.
    caught_by: int = 0

    @contextmanager
    def alive(self) -> Iterator[None]:
        with ExitStack() as stack:
            for where in dict.fromkeys(edit.where for edit in self.edits):
                _apply(where, [edit for edit in self.edits if edit.where == where], stack)
            yield


def _apply(where: str, edits: list[Edit], stack: ExitStack) -> None:
    module_name, _, path = where.partition(":")
    module = importlib.import_module(module_name)
    owner: Any = module
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        if source.count(edit.old) != 1:
            raise ValueError(f"{where} has {source.count(edit.old)} of: {edit.old!r}. Mend the mutant")
        source = source.replace(edit.old, edit.new)
    made: dict[str, Any] = {}
    exec(compile(source, f"<mutant of {where}>", "exec"), vars(module), made)
    changed = made[name]
    if parents:
        stack.enter_context(mock.patch.object(owner, name, changed))
        return
    for each in [each for key, each in sys.modules.items() if key.startswith(("understudy.", "tests.simulation."))]:
        if vars(each).get(name) is function:  # wherever it was imported to
            stack.enter_context(mock.patch.object(each, name, changed))


def _mutant(name: str, *edits: tuple[str, str, str], kinds: tuple[Kind, ...] = (), by: int = 0) -> Mutant:
    return Mutant(name, tuple(Edit(*edit) for edit in edits), kinds, by)


_HARM, _GRACEFUL, _OUTAGE, _ROLLOUT = (Kind.HARM,), (Kind.GRACEFUL,), (Kind.OUTAGE,), (Kind.ROLLOUT,)
_GONE = (Kind.GONE,)
_PUBLISH = "tests.simulation.driver:SimulatedDriver._publish"
_FOLLOWING, _LEADING = f"{_ELECTION}.following", f"{_ELECTION}.leading"

MUTANTS: tuple[Mutant, ...] = (
    # the lock
    _mutant(
        "compare-and-set on what was decided on",
        (
            f"{_ELECTION}.elector:Elector._send",
            "self._store.replace(attempt.seen, attempt.content)",
            "self._store.replace(await self._store.read(attempt.name), attempt.content)",
        ),
        kinds=(Kind.MIXED,),
        by=14,
    ),
    _mutant(
        "every write has a nonce of its own",
        (
            f"{_ELECTION}.elector:Elector._do",
            "attempt.sealed(self._nonce(), self._stamp())",
            'attempt.sealed("n", "t")',
        ),
    ),
    _mutant(
        "a lease is waited for, from when its change was seen here",
        (
            f"{_FOLLOWING}:contends_at",
            "state.changed_at + lease_seconds + unready",
            "state.changed_at + lease_seconds / 3",
        ),
        by=13,
    ),
    _mutant(
        "an outage of one's own stops the lease's clock",
        (
            f"{_ELECTION}.turn:blind",
            "return 2 * state.rules.timings.retry + state.rules.timings.request",
            'return float("inf")',
        ),
        kinds=_OUTAGE,
        by=18,
    ),
    _mutant(
        "a lease counts as over only when it was read after its end",
        (f"{_FOLLOWING}:needs_reading", "isinstance(state.sight, Held) and", "False and"),
        kinds=_OUTAGE,
        by=18,
    ),
    _mutant(
        "an outdated record says nothing of who leads",
        (f"{_FOLLOWING}:_outdated", "0 < state.sight.epoch < state.highest", "False"),
        kinds=_HARM,
        by=12950,
    ),
    _mutant(
        "every request has a time-out",
        (f"{_ELECTION}.elector:Elector._within", "self._clock.sleep(seconds)", "self._clock.sleep(1e6)"),
        by=109,
    ),
    _mutant(
        "a leader that cannot renew parks",
        (f"{_LEADING}:deadlines", "turn.put(role=Role.PARKED)", 'lose(turn, "late")\n        return'),
        kinds=_OUTAGE,
        by=5,
    ),
    _mutant(
        "whoever a release names goes first",
        (f"{_FOLLOWING}:contends_at", "(0.0 if chosen else retry)", "0.0"),
        kinds=_GRACEFUL,
        by=1,
    ),
    _mutant(
        "a stopping process never contends",
        (
            f"{_ELECTION}.core:_go_on",
            "if not leads and turn.state.stopping and turn.state.awaited is not Awaited.WRITE:",
            "if False:",
        ),
        (f"{_FOLLOWING}:contend", "if state.stopping or state.sight is None", "if state.sight is None"),
        (
            f"{_FOLLOWING}:_acquired",
            "attempt.grant.token_epoch, turn.state.stopping",
            "attempt.grant.token_epoch, False",
        ),
        by=133,
    ),
    _mutant(
        "who is told to stop hears it before anything else",
        (f"{_SUPERVISOR}.replica:Replica._told_to_stop", "self._elector.stop()", "pass"),
        (
            f"{_SUPERVISOR}.replica:Replica._stop",
            "if self._term.grant is not None or self._term.epoch is not None:\n        looking",
            "self._elector.stop()\n    if self._term.grant is not None or self._term.epoch is not None:\n        looking",
        ),
        by=82,
    ),
    # what the lock says
    _mutant(
        "unreadable is not free",
        (
            f"{_ELECTION}.elector:Elector._read",
            "observation = Seen(self._corrupt(error))",
            "observation = Seen(Free(shell(error, self._name), 0, None))",
        ),
        kinds=_HARM,
        by=204,
    ),
    _mutant(
        "buried is not free",
        (
            f"{_ELECTION}.records:sight_of",
            "return Buried(document, 0 if grant is None else grant.token_epoch)",
            "return Free(document, 0 if grant is None else grant.token_epoch, None)",
        ),
        kinds=_HARM,
        by=3,
    ),
    _mutant(
        "missing is not free where something was granted before",
        (f"{_FOLLOWING}:contends_at", "case Unwritten() if state.granted > 0:", "case Unwritten() if False:"),
        kinds=_GONE,
        by=1,
    ),
    _mutant(
        "a lock that is gone is taken again",
        (
            f"{_FOLLOWING}:contends_at",
            "case None | Corrupt() | Buried():",
            "case None | Corrupt() | Buried() | Unwritten() if state.granted:",
        ),
        kinds=_GONE,
    ),
    _mutant(
        "a holder past its deadline gives up a lock that is gone",
        (
            f"{_LEADING}:inspect",
            "case Unwritten() if not within and tenure.release is None:",
            "case Unwritten() if False:",
        ),
        kinds=_GONE,
        by=60,
    ),
    _mutant(
        "an epoch is above the floor",
        (f"{_FOLLOWING}:contend", "max(highest, state.sight.epoch)", "state.sight.epoch"),
        kinds=_HARM,
        by=19,
    ),
    _mutant(
        "an unknown floor is not 0",
        (
            f"{_ELECTION}.elector:Elector._ask_floor",
            "observation = FloorUnknown(_cause(error))",
            "observation = FloorIs(0)",
        ),
        kinds=_HARM,
        by=6,
    ),
    # the gate
    _mutant(
        "a gate closes before the lease can be over",
        (
            f"{_SUPERVISOR}.seat:open_view",
            "close = sent.plus(timings.renew)",
            "close = sent.plus(3 * timings.lease)",
        ),
        by=17,
    ),
    _mutant(
        "a gate opens under the grant that is held at that moment",
        (
            f"{_SUPERVISOR}.seat:Seat.open",
            "if self._term.grant is not grant or self.driver is None:",
            "if self.driver is None:",
        ),
        (f"{_SUPERVISOR}.seat:Seat.start_leading", "if self._term.grant is not grant:", "if False:"),
        ("tests.simulation.driver:Gate.publish", "self.view.check(view)", "pass"),
        by=148,
    ),
    _mutant(
        "deadlines count from the sending",
        (
            f"{_SUPERVISOR}.replica:Replica.renewed",
            "self._term.sent_at = sent_at",
            "self._term.sent_at = BootClock().now()",
        ),
        by=44,
    ),
    _mutant(
        "user code is killed at its deadline",
        (
            f"{_SUPERVISOR}.seat:open_view",
            "return View(State.OPEN, token, close, sent.plus(timings.kill_after), close.plus(timings.grace))",
            "return View(State.OPEN, token, close)",
        ),
        by=220,
    ),
    _mutant(
        "a driver is buried before its lock is released",
        (
            f"{_SUPERVISOR}.replica:Replica._stop",
            "await self._drivers.bury()\n        await self._release(successor)",
            "await self._release(successor)\n        await self._drivers.bury()",
        ),
        by=351,
    ),
    _mutant(
        "a seat has one driver",
        (
            f"{_SUPERVISOR}.drivers:Drivers._start_when_quiet",
            "if self.seat.driver is None and self._term.epoch is None:",
            "if self.seat.driver is None:",
        ),
        by=1170,
    ),
    # tokens and documents
    _mutant(
        "every start of a driver has an attempt of its own",
        (
            "understudy.ha.job:JobStore.begin_attempt",
            "token = Token(epoch, last.attempt + 1 if last.epoch == epoch else 1)",
            "token = Token(epoch, 1)",
        ),
        by=4,
    ),
    _mutant(
        "a lower token does not write the job's document",
        ("understudy.ha.job:JobStore._update", "if job.token > token:", "if False:"),
        by=320,
    ),
    _mutant(
        "a job that has ended stays ended",
        (
            "understudy.ha.job:JobStore.begin_attempt",
            "if isinstance(part, Over):\n            return job",
            "if isinstance(part, Over):\n            job, part = replace(job, status=Status.RUNNING), Joins()",
        ),
        (
            f"{_SUPERVISOR}.claims:JobClaims.highest_epoch",
            "if job is not None and job.over_for(self.settings.run_id):",
            "if False:",
        ),
        by=23,
    ),
    _mutant(
        "a run that has ended is remembered when others have ended since",
        (
            "understudy.ha.runs:part_of",
            "if run and run != runs.run and (past := runs.earlier(run)) is not None:",
            "if False:",
        ),
        kinds=(Kind.MIXED,),
        by=6,
    ),
    _mutant(
        "an older generation does not lead after a newer one",
        (
            "understudy.ha.generation:Generation.check",
            "if self.workload == standing.workload and self.number < standing.number:",
            "if False:",
        ),
        kinds=_ROLLOUT,
        by=430,
    ),
    # the resource itself
    _mutant(
        "a root refuses a lower token's claim",
        (
            "understudy.fencing.claim:why_refused",
            "if own.token < standing.token:",
            "if False:",
        ),
        by=1780,
    ),
    _mutant(
        "gate and claim stand before each write",
        (_PUBLISH, "await self._admitted()\n    self._nonce", "self._nonce"),
        (
            _PUBLISH,
            "if standing is None or standing.token != self._token or standing.holder != self.spec.holder:",
            "if False:",
        ),
        (_PUBLISH, "if not self._passes():", "if False:"),
        by=341,
    ),
    _mutant(
        "an entry of a log is created once",
        ("tests.simulation.checkpoint:Checkpoint.put_new", "if batch in entries:", "if False:"),
        by=857,
    ),
)
