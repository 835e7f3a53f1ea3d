"""What a process that does not lead decides: whether and when to try, and what came of it."""

from __future__ import annotations

from typing import assert_never

from understudy.documents.model import Conflict, Document, LeaderRecord, Unknown, Written
from understudy.election import leading
from understudy.election.commands import Grant, Granted, ReadMinEpoch, Renewed
from understudy.election.records import (
    EPOCH_MAX,
    Attempt,
    Buried,
    Corrupt,
    Free,
    GrantEntry,
    Held,
    LockState,
    Unwritten,
    lock_state_of,
    same_revision,
)
from understudy.election.state import Awaited, HeldLease, Role, State
from understudy.election.transition import Transition, staleness_limit


def contends_at(state: State) -> float | None:
    """From when on this process may try to take the lock as it last saw it; ``None`` means never, as it stands.

    A ready process goes first, also once nothing bars any of them longer (``contend``). The successor that a release names
    goes at once; the others wait one retry period, because the successor has rehearsed and its takeover is the fastest. An
    unready process waits one more. An outdated record's release and its holder's death say nothing about the present leader.
    That leader finds the record within a lease, so a candidate waits a lease. It also does where the lock is gone or empty
    and epochs were granted before: a living holder writes the lock again, and has stopped when a lease is over.
    """
    retry = state.rules.timings.retry
    unready = 0.0 if state.ready else retry
    match state.lock_state:
        # guard: lost-lock-is-taken-again
        case None | Corrupt() | Buried():
            return None
        # guard: missing-lock-is-waited-for
        case Unwritten() if state.granted > 0:
            # Half a period more: the holder, or a person who removes all of this cluster's data, goes first.
            return state.changed_at + _longest_lease(state) + retry / 2 + unready
        case Unwritten():
            return state.changed_at + unready
        case Held() | Free() if _outdated(state):
            return state.changed_at + _longest_lease(state) + unready
        case Free(_, _, successor):
            chosen = successor is None or successor == state.rules.holder or successor in dict(state.dead)
            # guard: named-successor-goes-first
            return state.changed_at + (0.0 if chosen else retry) + unready
        case Held(document, _, holder, lease_seconds):
            if any(attempt.seen is not None and attempt.landed_in(document) for attempt in state.pending):
                # A write of ours that landed after all: no process leads by it. A create says less: it wins on any
                # absence, and others may have led between two absences.
                return state.changed_at
            died_at = dict(state.dead).get(holder)
            if died_at is not None:
                return died_at + unready
            # guard: lease-counts-from-when-it-was-seen
            return state.changed_at + lease_seconds + unready


def _outdated(state: State) -> bool:
    """Whether a higher epoch was granted than this record knows of: it was restored, and who leads is not who it names.

    A client-go holder without a grant of ours has no epoch.
    """
    # guard: outdated-record-names-no-leader
    return isinstance(state.lock_state, Held | Free) and 0 < state.lock_state.epoch < state.highest


def _longest_lease(state: State) -> float:
    """The record's or our own, whichever is longer: the leader's timings may differ from those of a restored record."""
    named = state.lock_state.lease_seconds if isinstance(state.lock_state, Held) else 0.0
    named = state.lease if isinstance(state.lock_state, Unwritten) else named
    return max(named, state.rules.timings.lease)


def needs_reading(state: State) -> bool:
    """Whether it is a lease's end that is waited for: that means something only while the record can be read.

    After an outage that hit everyone the leader must get its chance to renew first. A released lock and a dead holder need no
    clock, and the compare-and-set says whether they are still so.
    """
    if isinstance(state.lock_state, Unwritten):
        return state.granted > 0
    # guard: lease-is-over-only-when-read-after
    return _outdated(state) or (isinstance(state.lock_state, Held) and state.lock_state.holder not in dict(state.dead))


def stand_by(transition: Transition) -> None:
    state = transition.state
    due = contends_at(state)
    ripe = due is not None and transition.now >= max(due, state.not_before) and state.role is not Role.LOST
    if ripe and (not needs_reading(state) or _confirmed(state, transition.now, due)):
        transition.put(role=Role.CONTENDING, awaited=Awaited.MIN_EPOCH)
        transition.do(ReadMinEpoch())
        return
    if state.role is Role.CONTENDING:
        transition.put(role=Role.STANDBY)
    if transition.hinted or transition.now >= state.next_at or (ripe and not state.read_failed):
        transition.read()
    elif due is None or transition.now < due:
        _explain(transition)


def _confirmed(state: State, now: float, due: float | None) -> bool:
    """Whether the lease was seen to be over: read unchanged after its end, and just now."""
    seen = (
        state.read_at is not None
        and due is not None
        and due <= state.read_at
        and now - state.read_at <= staleness_limit(state)
    )
    return seen and not state.read_failed


def _explain(transition: Transition) -> None:
    match transition.state.lock_state:
        case None:
            return
        case Held(_, epoch) | Free(_, epoch) if _outdated(transition.state):
            transition.because(
                "waiting",
                f"the lock says epoch {epoch}, but epoch {transition.state.highest} was granted: its leader, or a lease, is waited for",
                epoch=epoch,
            )
        case Held(_, epoch, holder):
            transition.because("standing-by", f"{holder} leads with epoch {epoch}", epoch=epoch, leader=holder)
        case Free(_, epoch, successor):
            first = f"; {successor} goes first" if successor not in {None, transition.state.rules.holder} else ""
            unready = "" if transition.state.ready else "; not rehearsed yet, so others go first"
            transition.because("waiting", f"the lock was released at epoch {epoch}{first}{unready}", epoch=epoch)
        case Corrupt(_, cause):
            transition.because("refused", f"the lock is unreadable, which is not free: {cause}")
        case Buried(_, epoch):
            transition.because("refused", f"the lock was buried at epoch {epoch}: this cluster's data were cleaned up")
        case Unwritten(document) if transition.state.granted > 0:
            gone = "missing" if document is None else "empty"
            transition.because(
                "waiting",
                f"the lock is {gone}, but epoch {transition.state.granted} was granted before: its living holder writes it again, "
                "else it is taken above that when a lease is over",
                min_epoch=transition.state.granted,
            )
        case Unwritten():
            if not transition.state.reason:
                transition.because("waiting", "the lock has no holder yet")


def min_epoch_unknown(transition: Transition, cause: str) -> None:
    transition.put(role=Role.STANDBY, not_before=transition.now + transition.timings.retry, barred=True)
    transition.because("waiting", f"not contending, the minimum epoch cannot be read: {cause}")


def contend(transition: Transition, min_epoch: int) -> None:
    """The minimum is fresh; the view is the one it was asked for, since nothing else was read meanwhile."""
    transition.put(role=Role.STANDBY)
    highest = max(min_epoch, transition.state.highest)
    transition.put(min_epoch=min_epoch)
    if isinstance(transition.state.lock_state, Held | Free):
        transition.put(highest=highest)
        if _outdated(transition.state):
            transition.put(next_at=transition.now)  # perhaps only our view is old
    state = transition.state
    due = contends_at(state)
    # guard: stopping-takes-no-lock
    if state.stopping or state.lock_state is None or due is None or transition.now < due:
        return
    if state.barred and not state.ready:
        # The same bar is over for the others, and a ready one takes over at once.
        transition.put(barred=False, not_before=transition.now + transition.timings.retry)
        return
    transition.put(barred=False)
    # guard: epoch-above-the-minimum
    epoch = 1 + max(highest, state.lock_state.epoch)
    if epoch > EPOCH_MAX:
        transition.put(not_before=transition.now + transition.timings.retry)
        transition.because("refused", f"no epoch is left above {epoch - 1}")
    else:
        old = None if state.lock_state.document is None else state.lock_state.document.leader
        transitions = 0 if old is None else old.transitions + (old.holder != state.rules.holder)
        leader = LeaderRecord(state.rules.holder, transition.timings.lease, "", "", transitions)
        transition.put(role=Role.CONTENDING)
        transition.write(GrantEntry(epoch, state.rules.holder, ""), leader, acquires=True)


def answered(transition: Transition, attempt: Attempt, outcome: Written | Conflict | Unknown | Corrupt) -> None:
    """How a write ended, while no grant is held: an acquire, or a former leader's last write."""
    if transition.state.role is not Role.LOST:
        transition.put(role=Role.STANDBY)
    match outcome:
        case Unknown(cause):
            # Neither held nor lost. It is settled by a revision past the one seen, or by winning on that one again.
            transition.unreached(f"whether epoch {attempt.grant.token_epoch} was acquired is not known: {cause}")
            transition.unsettled(attempt)
            transition.put(
                not_before=max(transition.now, attempt.sent_at + transition.timings.retry), next_at=transition.now
            )
            return
        case Written(document):
            _acquired(transition, attempt, document)
        case Conflict(Document() as current) if attempt.landed_in(current):
            _acquired(transition, attempt, current)  # a client that retries by itself reports a conflict with itself
        case Conflict(current):
            _beaten(transition, attempt, lock_state_of(current))
        case Corrupt():
            _beaten(transition, attempt, outcome)
        case _:
            assert_never(outcome)
    transition.reached()


def _beaten(transition: Transition, attempt: Attempt, lock_state: LockState) -> None:
    transition.follow(lock_state)
    if same_revision(attempt.seen, lock_state.document):
        transition.put(not_before=attempt.sent_at + transition.timings.retry)


def _acquired(transition: Transition, attempt: Attempt, document: Document) -> None:
    transition.follow(lock_state_of(document))
    # guard: stopping-gives-back-what-it-acquired
    epoch, stopping = attempt.grant.token_epoch, transition.state.stopping
    late = transition.now >= attempt.sent_at + transition.timings.renew
    if not attempt.acquires or (late and not stopping):
        # A former leader's last write, or one whose answer took longer than its own deadline. The candidate was not
        # told of this grant, so no process leads by it: it may be won again at once, with a new epoch.
        transition.put(pending=(attempt,), not_before=transition.now)
        return
    transition.put(
        held_lease=HeldLease(epoch, document, attempt.sent_at),
        role=Role.LEADING,
        next_at=attempt.sent_at + transition.timings.retry,
        pending=(),
        reason="",
    )
    if stopping:
        leading.release_asked(transition, None)  # it was asked to stop while the request was under way
        return
    transition.say("acquired", f"leading from epoch {epoch}", epoch=epoch)
    grant = Grant(epoch, transition.state.rules.holder, document.revision, attempt.sent_at)
    transition.do(Granted(grant), Renewed(attempt.sent_at))
