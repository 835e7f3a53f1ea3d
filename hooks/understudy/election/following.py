"""What a process that does not lead decides: whether and when to try, and what came of it."""

from __future__ import annotations

from typing import assert_never

from understudy.documents.model import Conflict, Document, LeaderRecord, Unknown, Written
from understudy.election import leading
from understudy.election.facts import AskFloor, Awaited, Grant, Granted, Renewed, Role, State, Tenure
from understudy.election.records import (
    EPOCH_MAX,
    Attempt,
    Buried,
    Corrupt,
    Free,
    GrantEntry,
    Held,
    Sight,
    Unwritten,
    same_revision,
    sight_of,
)
from understudy.election.turn import Turn, blind


def contends_at(state: State) -> float | None:
    """From when on this process may try to take the lock as it last saw it; ``None`` means never, as it stands.

    A ready process goes first. The one a release names goes at once; the others wait one retry period, because whoever was
    chosen has rehearsed and its takeover is the fastest. An unready one waits one more. An outdated record's release and its
    holder's death say nothing of who leads, who will find it within a lease: that is waited for. So it is where the lock is gone
    or empty and epochs were granted before: a living holder writes it again, and has stopped when a lease is over.
    """
    retry = state.rules.timings.retry
    unready = 0.0 if state.ready else retry
    match state.sight:
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
                # A write of ours that landed after all: nobody leads by it. A create says less: it wins on any absence, and others
                # may have led between two.
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
    return isinstance(state.sight, Held | Free) and 0 < state.sight.epoch < state.highest


def _longest_lease(state: State) -> float:
    """The record's or our own, whichever is longer: whoever leads may be of another profile than a backup's holder."""
    named = state.sight.lease_seconds if isinstance(state.sight, Held) else 0.0
    named = state.lease if isinstance(state.sight, Unwritten) else named
    return max(named, state.rules.timings.lease)


def needs_reading(state: State) -> bool:
    """Whether it is a lease's end that is waited for: that means something only while the record can be read.

    After an outage that hit everyone the leader must get its chance to renew first. A released lock and a dead holder need no
    clock, and the compare-and-set says whether they are still so.
    """
    if isinstance(state.sight, Unwritten):
        return state.granted > 0
    # guard: lease-is-over-only-when-read-after
    return _outdated(state) or (isinstance(state.sight, Held) and state.sight.holder not in dict(state.dead))


def stand_by(turn: Turn) -> None:
    state = turn.state
    due = contends_at(state)
    ripe = due is not None and turn.now >= max(due, state.not_before) and state.role is not Role.LOST
    if ripe and (not needs_reading(state) or _confirmed(state, turn.now, due)):
        turn.put(role=Role.CONTENDING, awaited=Awaited.FLOOR)
        turn.do(AskFloor())
        return
    if state.role is Role.CONTENDING:
        turn.put(role=Role.STANDBY)
    if turn.hinted or turn.now >= state.next_at or (ripe and not state.read_failed):
        turn.read()
    elif due is None or turn.now < due:
        _explain(turn)


def _confirmed(state: State, now: float, due: float | None) -> bool:
    """Whether the lease was seen to be over: read unchanged after its end, and just now."""
    seen = (
        state.read_at is not None and due is not None and due <= state.read_at and now - state.read_at <= blind(state)
    )
    return seen and not state.read_failed


def _explain(turn: Turn) -> None:
    match turn.state.sight:
        case None:
            return
        case Held(_, epoch) | Free(_, epoch) if _outdated(turn.state):
            turn.because(
                "waiting",
                f"the lock says epoch {epoch}, but epoch {turn.state.highest} was granted: its leader, or a lease, is waited for",
                epoch=epoch,
            )
        case Held(_, epoch, holder):
            turn.because("standing-by", f"{holder} leads with epoch {epoch}", epoch=epoch, leader=holder)
        case Free(_, epoch, successor):
            first = f"; {successor} goes first" if successor not in {None, turn.state.rules.holder} else ""
            unready = "" if turn.state.ready else "; not rehearsed yet, so others go first"
            turn.because("waiting", f"the lock was released at epoch {epoch}{first}{unready}", epoch=epoch)
        case Corrupt(_, cause):
            turn.because("refused", f"the lock is unreadable, which is not free: {cause}")
        case Buried(_, epoch):
            turn.because("refused", f"the lock was buried at epoch {epoch}: this cluster's data were cleaned up")
        case Unwritten(document) if turn.state.granted > 0:
            gone = "missing" if document is None else "empty"
            turn.because(
                "waiting",
                f"the lock is {gone}, but epoch {turn.state.granted} was granted before: its living holder writes it again, "
                "else it is taken above that when a lease is over",
                floor=turn.state.granted,
            )
        case Unwritten():
            if not turn.state.reason:
                turn.because("waiting", "the lock has no holder yet")


def floor_unknown(turn: Turn, cause: str) -> None:
    turn.put(role=Role.STANDBY, not_before=turn.now + turn.timings.retry)
    turn.because("waiting", f"not contending, the floor cannot be read: {cause}")


def contend(turn: Turn, floor: int) -> None:
    """The floor is fresh; the view is the one it was asked for, since nothing else was read meanwhile."""
    turn.put(role=Role.STANDBY)
    highest = max(floor, turn.state.highest)
    turn.put(floor=floor)
    if isinstance(turn.state.sight, Held | Free):
        turn.put(highest=highest)
        if _outdated(turn.state):
            turn.put(next_at=turn.now)  # perhaps only our view is old
    state = turn.state
    due = contends_at(state)
    # guard: stopping-takes-no-lock
    if state.stopping or state.sight is None or due is None or turn.now < due:
        return
    # guard: epoch-above-the-floor
    epoch = 1 + max(highest, state.sight.epoch)
    if epoch > EPOCH_MAX:
        turn.put(not_before=turn.now + turn.timings.retry)
        turn.because("refused", f"no epoch is left above {epoch - 1}")
    else:
        old = None if state.sight.document is None else state.sight.document.leader
        transitions = 0 if old is None else old.transitions + (old.holder != state.rules.holder)
        leader = LeaderRecord(state.rules.holder, turn.timings.lease, "", "", transitions)
        turn.put(role=Role.CONTENDING)
        turn.write(GrantEntry(epoch, state.rules.holder, ""), leader, acquires=True)


def answered(turn: Turn, attempt: Attempt, outcome: Written | Conflict | Unknown | Corrupt) -> None:
    """How a write ended, while no grant is held: an acquire, or a former leader's last write."""
    if turn.state.role is not Role.LOST:
        turn.put(role=Role.STANDBY)
    match outcome:
        case Unknown(cause):
            # Neither held nor lost. It is settled by a revision past the one seen, or by winning on that one again.
            turn.unreached(f"whether epoch {attempt.grant.token_epoch} was acquired is not known: {cause}")
            turn.unsettled(attempt)
            turn.put(not_before=max(turn.now, attempt.sent_at + turn.timings.retry), next_at=turn.now)
            return
        case Written(document):
            _acquired(turn, attempt, document)
        case Conflict(Document() as current) if attempt.landed_in(current):
            _acquired(turn, attempt, current)  # a client that retries by itself reports a conflict with itself
        case Conflict(current):
            _beaten(turn, attempt, sight_of(current))
        case Corrupt():
            _beaten(turn, attempt, outcome)
        case _:
            assert_never(outcome)
    turn.reached()


def _beaten(turn: Turn, attempt: Attempt, sight: Sight) -> None:
    turn.follow(sight)
    if same_revision(attempt.seen, sight.document):
        turn.put(not_before=attempt.sent_at + turn.timings.retry)


def _acquired(turn: Turn, attempt: Attempt, document: Document) -> None:
    turn.follow(sight_of(document))
    # guard: stopping-gives-back-what-it-acquired
    epoch, stopping = attempt.grant.token_epoch, turn.state.stopping
    late = turn.now >= attempt.sent_at + turn.timings.renew
    if not attempt.acquires or (late and not stopping):
        # A former leader's last write, or one whose answer took longer than its own deadline. Nobody was told of this grant, so
        # nobody leads by it: it may be won again at once, with a new epoch.
        turn.put(pending=(attempt,), not_before=turn.now)
        return
    turn.put(
        tenure=Tenure(epoch, document, attempt.sent_at),
        role=Role.LEADING,
        next_at=attempt.sent_at + turn.timings.retry,
        pending=(),
        reason="",
    )
    if stopping:
        leading.release_asked(turn, None)  # it was asked to stop while the request was under way
        return
    turn.say("acquired", f"leading from epoch {epoch}", epoch=epoch)
    grant = Grant(epoch, turn.state.rules.holder, document.revision, attempt.sent_at)
    turn.do(Granted(grant), Renewed(attempt.sent_at))
