"""The lock: who holds it, and whether that replica lives. Its record is watched for a lease at most; no clock of others is read.

A record that changes while it is watched was renewed. That is how standbys time a leader, and nothing else is evidence here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from understudy.doctor.finding import Finding, note, of_error, ok, problem, warning
from understudy.documents.model import Document, DocumentStore
from understudy.election.records import (
    Buried,
    Corrupt,
    Free,
    Held,
    LockState,
    Unwritten,
    lock_state_of,
    same_record,
)
from understudy.errors import DocumentEmptied, DocumentUnreadable, RequestUnanswered, UnderstudyError
from understudy.ha.job import Job, Status
from understudy.ha.replicas import Replica
from understudy.protocol.token import Token
from understudy.supervisor.cluster_status import renewed_at

CHECK = "lock"

#: The longest that a record is watched, in seconds: a foreign one may name any lease.
_LONGEST = 60.0
#: How often one is looked at again that no replica holds: its holder writes it again within a second, and a standby takes it.
_UNHELD_LOOKS = 10

_SEE = "See docs/operations.md before removing anything; its holder may write it again, an operator may restore it"


@dataclass(frozen=True, slots=True)
class Watched:
    """A lock as it stood last. ``changed``: within ``seconds`` of watching; ``ahead``: by how many seconds the clock of the replica that wrote it
    seemed to be ahead of ours at that moment, where that is known. ``error``: it could not be read, and was not watched any further.
    """

    document: Document | None = None
    changed: bool = False
    seconds: float = 0.0
    ahead: float | None = None
    error: UnderstudyError | None = None

    @property
    def state(self) -> LockState:
        return lock_state_of(self.document)


def led(job: Job | None, *, begun: bool) -> bool:
    """Whether a replica has to lead now, as far as the job's document says; where that is damaged, as far as the replicas' document does."""
    if job is None:
        return begun
    return not (job.status.terminal or job.status is Status.SUSPENDED)


async def watch(
    store: DocumentStore, name: str, *, expected: bool, wall: Callable[[], float], pause: float = 0.5
) -> Watched:
    """The lock ``name``, after it has changed or was watched for as long as it takes. A lock that no replica has to hold (not ``expected``)
    is looked at once. ``pause``: seconds between two looks.
    """
    now = asyncio.get_running_loop().time
    try:
        first = last = await store.read(name)
        began, patience = now(), _patience(lock_state_of(first), pause) if expected else 0.0
        while now() - began < patience:
            await asyncio.sleep(min(pause, patience))
            last = await store.read(name)
            if not same_record(first, last):
                return Watched(last, True, now() - began, _ahead(last, wall()))
    except UnderstudyError as error:
        return Watched(error=error)
    return Watched(last, False, now() - began)


def _patience(state: LockState, pause: float) -> float:
    """Seconds."""
    return min(state.lease_seconds, _LONGEST) if isinstance(state, Held) else _UNHELD_LOOKS * pause


def _ahead(document: Document | None, now: float) -> float | None:
    """The record's own time is text for people. What is told of it here is for people, too."""
    renewed = renewed_at(document)
    return None if renewed is None else renewed - now


def findings(
    watched: Watched, name: str, job: Job | None, replicas: Sequence[Replica], *, begun: bool, hint: str = ""
) -> list[Finding]:
    """``hint``: what may be otherwise where a lock is missing."""
    if watched.error is not None:
        return [of_error(CHECK, watched.error)]
    token = job.token if job is not None else Token(0, 0)
    match watched.state:
        case Corrupt(_, cause):
            return [problem(CHECK, f"{name}: the lock cannot be read: {cause}", _SEE, DocumentUnreadable)]
        case Buried():
            return [problem(CHECK, f"{name}: the lock is a tombstone, and no replica takes it", _SEE, DocumentEmptied)]
        case Unwritten() if token.epoch or begun:
            text = f"{name}: the lock is missing, although an epoch was granted before"
            return [
                problem(CHECK, text, f"{hint}A living leader writes it again within a second. {_SEE}", DocumentEmptied)
            ]
        case Unwritten():
            return [note(CHECK, f"{name}: no replica has ever taken the lock")]
        case Free(_, epoch, _):
            return [
                _without_leader(f"{name}: no replica holds the lock", job, replicas, begun=begun),
                *_epoch(name, epoch, token),
            ]
        case Held(_, epoch, holder, _) if not watched.changed and led(job, begun=begun):
            text = (
                f"{name}: {_named(holder, replicas)} holds the lock, and did not renew it for {watched.seconds:.0f} s"
            )
            return [_without_leader(text, job, replicas, begun=begun), *_epoch(name, epoch, token)]
        case Held(_, epoch, holder, _):
            return [*_held(watched, name, holder, replicas), *_epoch(name, epoch, token)]


def _held(watched: Watched, name: str, holder: str, replicas: Sequence[Replica]) -> list[Finding]:
    if not watched.changed:
        return [ok(CHECK, f"{name}: the job needs no leader; {_named(holder, replicas)} was the last one")]
    found = [ok(CHECK, f"{name}: {_named(holder, replicas)} holds the lock and renews it")]
    if all(each.holder != holder for each in replicas):
        text = f"{name}: {holder} holds the lock, and the replicas' document knows no such replica"
        remedy = "Its log says why it cannot write that document; or an elector of another program holds this lock"
        found.append(warning(CHECK, text, remedy))
    return found


def _without_leader(text: str, job: Job | None, replicas: Sequence[Replica], *, begun: bool) -> Finding:
    if not led(job, begun=begun):
        return ok(CHECK, f"{text}, and the job needs none")
    status = "has begun" if job is None else f"is {job.status}"
    if job is not None and job.requests.paused is not None:
        remedy = "It is paused: understudy unpause lets a standby take over"
    elif replicas:
        remedy = "A living standby takes over once the lease has run out; their logs say what they wait for"
    else:
        remedy = "Start replicas: none says anything of itself"
    return problem(CHECK, f"{text}, although the job {status}", remedy, RequestUnanswered)


def _epoch(name: str, epoch: int, token: Token) -> list[Finding]:
    if epoch >= token.epoch:
        return []
    text = f"{name}: epoch {epoch} is below that of the job's token {token}: the lock was restored from a copy, or made again"
    return [warning(CHECK, text, "The next grant goes above both; nothing has to be done while the holder renews")]


def _named(holder: str, replicas: Sequence[Replica]) -> str:
    return next((each.name for each in replicas if each.holder == holder), holder)


#: Seconds by which clocks may differ before that is worth a note. Requests to object stores are refused from 15 minutes on.
_APART = 5.0


def findings_of_clocks(watched: Watched) -> list[Finding]:
    """A note at most: no decision of replicas compares clocks."""
    if watched.ahead is None or not watched.changed:
        why = "the record does not tell its time" if watched.changed else "no renewal was seen"
        return [note("clocks", f"the leader's clock was not compared with ours: {why}")]
    if abs(watched.ahead) < _APART:
        return [ok("clocks", f"the leader's clock is within {_APART:g} s of ours")]
    direction = "ahead of" if watched.ahead > 0 else "behind"
    text = f"the leader's clock is about {abs(watched.ahead):.0f} s {direction} ours"
    return [
        note("clocks", text, "Replicas do not mind; times in status and logs do, and object stores refuse 15 minutes")
    ]
