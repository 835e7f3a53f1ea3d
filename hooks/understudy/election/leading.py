"""What a holder of the lock decides: renew, park, rewrite, raise, release, and when it has lost."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from understudy.documents.model import Conflict, Document, Unknown, Written
from understudy.election.commands import Lost, Raised, Released, Renewed
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
    same_record,
    same_revision,
)
from understudy.election.state import Release, Role
from understudy.election.transition import Transition


def release_asked(transition: Transition, successor: str | None) -> None:
    if transition.state.held_lease is None:
        transition.do(Released(ok=False))
    elif transition.held_lease.release is None:
        if transition.held_lease.raise_to is not None:
            transition.do(Raised(None))
        transition.put_held_lease(release=Release(successor, transition.now + transition.timings.renew), raise_to=None)
        transition.put(role=Role.RELEASING, next_at=transition.now)


def raise_asked(transition: Transition, epoch: int) -> None:
    if transition.state.held_lease is None or transition.held_lease.release is not None:
        transition.do(Raised(None))
    elif transition.held_lease.epoch > epoch:
        transition.do(Raised(transition.held_lease.epoch))
    elif transition.state.role is not Role.LEADING or epoch >= EPOCH_MAX:
        transition.put_held_lease(raise_to=epoch)
        lose(transition, f"an epoch above {epoch} is needed and cannot be had")
    else:
        transition.put_held_lease(raise_to=max(epoch, transition.held_lease.raise_to or 0))
        transition.put(next_at=transition.now)


def deadlines(transition: Transition) -> None:
    """What time alone decides."""
    if transition.state.held_lease is None:
        return
    held_lease = transition.held_lease
    if held_lease.release is not None:
        if transition.now >= held_lease.release.until:
            lose(transition, "the release was not answered; the lease will run out by itself")
    elif transition.state.role is Role.LEADING and transition.now >= transition.state.gate_deadline:
        if held_lease.raise_to is not None:
            lose(transition, f"an epoch above {held_lease.raise_to} is needed, and the lock did not answer in time")
            return
        # guard: unrenewed-leader-parks
        transition.put(role=Role.PARKED)
        transition.say(
            "parked",
            f"not renewed for {transition.timings.renew:g} s: the gate is closed, and epoch {held_lease.epoch} may yet reopen",
            epoch=held_lease.epoch,
        )


def lead(transition: Transition) -> None:
    state, held_lease = transition.state, transition.held_lease
    if transition.hinted and held_lease.release is None:
        transition.read()
    elif transition.now < state.next_at:
        return
    elif held_lease.settling or not _may_write(transition):
        transition.put_held_lease(settling=False)
        transition.read()
    else:
        _write(transition)


def _may_write(transition: Transition) -> bool:
    """Always over its own record; over missing or damaged content only while no other can have taken the lock."""
    match transition.state.lock_state:
        case Unwritten():
            return transition.now < transition.state.gate_deadline
        case Corrupt(document):
            return document is not None and transition.now < transition.state.gate_deadline
        case _:
            return True


def _write(transition: Transition) -> None:
    held_lease, rules = transition.held_lease, transition.state.rules
    assert held_lease.confirmed.leader is not None
    leader = replace(held_lease.confirmed.leader, holder=rules.holder, lease_seconds=transition.timings.lease)
    grant = GrantEntry(held_lease.epoch, rules.holder, "")
    if held_lease.release is not None:
        # As client-go releases: a blank holder and one second, so that its electors need not wait either.
        leader = replace(leader, holder="", lease_seconds=1.0)
        grant = replace(grant, released=True, successor=held_lease.release.successor)
    elif held_lease.raise_to is not None:
        grant = replace(grant, token_epoch=1 + max(held_lease.epoch, held_lease.raise_to))
    transition.write(grant, leader, acquires=False)


def unseen(transition: Transition) -> None:
    """Reading fails. Writing may do, so a write that is due is tried next; where none is allowed, reading is, later."""
    if not _may_write(transition):
        transition.put(next_at=max(transition.now, transition.state.asked_at + transition.timings.retry))


def answered(transition: Transition, attempt: Attempt, outcome: Written | Conflict | Unknown | Corrupt) -> None:
    match outcome:
        case Unknown(cause):
            # Neither renewed nor lost: the old deadline stands until this is settled.
            transition.unreached(f"whether the lock was written is not known: {cause}")
            transition.unsettled(attempt)
            transition.put_held_lease(settling=True)
            transition.put(next_at=max(transition.now, attempt.sent_at + transition.timings.retry))
            return
        case Written(document):
            _landed(transition, attempt, document)
        case Conflict(Document() as current) if attempt.landed_in(current):
            _landed(transition, attempt, current)
        case Conflict(current):
            _inspect_refusal(transition, attempt, lock_state_of(current))
        case Corrupt():
            _inspect_refusal(transition, attempt, outcome)
        case _:
            assert_never(outcome)
    transition.reached()


def _inspect_refusal(transition: Transition, attempt: Attempt, lock_state: LockState) -> None:
    if same_revision(attempt.seen, lock_state.document):
        # Refused, and nothing changed: some servers do that. Not at once again.
        transition.put(next_at=max(transition.now, attempt.sent_at + transition.timings.retry))
    inspect(transition, lock_state)


def inspect(transition: Transition, lock_state: LockState) -> None:
    """What stands there instead of, or beside, what this leader wrote last."""
    held_lease, document, within = (
        transition.held_lease,
        lock_state.document,
        transition.now < transition.state.gate_deadline,
    )
    landed = next((attempt for attempt in transition.state.pending if attempt.landed_in(document)), None)
    if landed is not None and document is not None:
        _landed(transition, landed, document)
        return
    own = document is not None and same_record(held_lease.confirmed, document)
    if own and document is not None and (within or same_revision(held_lease.confirmed, document)):
        # Unchanged, or changed by someone who does not contend. Past the deadline only the very revision will do: another
        # leader may have come and gone, and a backup been restored.
        transition.put(lock_state=lock_state)
        transition.put_held_lease(confirmed=document)
        return
    match lock_state:
        # guard: late-holder-gives-up-a-missing-lock
        case Unwritten() if not within and held_lease.release is None:
            # Others may have led meanwhile, or may be about to. As one of them it is taken above the minimum, when a lease is over.
            lose(transition, "the lock is missing or emptied, and it is too late to write it again", lock_state)
        case Unwritten() | Corrupt():
            gone = f"unreadable ({lock_state.cause})" if isinstance(lock_state, Corrupt) else "missing or emptied"
            transition.put(lock_state=lock_state)
            transition.put(
                next_at=transition.now if _may_write(transition) else transition.now + transition.timings.retry
            )
            if within:
                transition.because(
                    "rewriting", f"the lock is {gone}; its live holder writes it again", epoch=held_lease.epoch
                )
            else:
                transition.because(
                    "refused", f"the lock is {gone}, and it is too late to write it again", epoch=held_lease.epoch
                )
        case Held(_, epoch, holder) if holder != transition.state.rules.holder:
            lose(transition, f"{holder} holds the lock with epoch {epoch}", lock_state)
        case Held(_, epoch) | Free(_, epoch):
            lose(transition, f"the lock is at epoch {epoch} by a write that is not this replica's", lock_state)
        case Buried():
            lose(transition, "the lock was buried", lock_state)
        case _:
            assert_never(lock_state)


def _landed(transition: Transition, attempt: Attempt, document: Document) -> None:
    """A create wins on any absence. Known of only after the deadline, it proves nothing: others may have led, and their lock be gone."""
    if attempt.seen is None and transition.now >= transition.state.gate_deadline:
        lose(transition, "the lock was made again too late: others may have led meanwhile", lock_state_of(document))
    else:
        _confirmed(transition, attempt, document)


def _confirmed(transition: Transition, attempt: Attempt, document: Document) -> None:
    """``attempt`` stands there as it was sent. Deadlines follow from when it was sent, never from now."""
    held_lease, epoch = transition.held_lease, attempt.grant.token_epoch
    at = max(held_lease.confirmed_at, attempt.sent_at)
    transition.put(
        lock_state=lock_state_of(document),
        pending=(),  # no write on an older revision can land any more
        highest=max(transition.state.highest, epoch),
        next_at=at + transition.timings.retry,
        held_lease=replace(held_lease, confirmed=document, confirmed_at=at, epoch=epoch, settling=False),
        reason="",
    )
    if attempt.grant.released:
        _released(transition, attempt.grant)
        return
    if held_lease.release is not None:
        transition.put(next_at=transition.now)
        return
    if held_lease.raise_to is not None and epoch > held_lease.raise_to:
        transition.put_held_lease(raise_to=None)
        transition.say("raised", f"leading with epoch {epoch} from here on", epoch=epoch)
        transition.do(Raised(epoch))
    elif held_lease.raise_to is not None:
        transition.put(next_at=transition.now)
    transition.do(Renewed(at))
    if transition.state.role is Role.PARKED and transition.now < at + transition.timings.renew:
        transition.put(role=Role.LEADING)
        transition.say("reopened", f"the record was unchanged: leading again with epoch {epoch}", epoch=epoch)


def _released(transition: Transition, grant: GrantEntry) -> None:
    whom = f"{grant.successor} goes first" if grant.successor else "no successor is named"
    transition.say(
        "released", f"epoch {grant.token_epoch} is over, {whom}", epoch=grant.token_epoch, successor=grant.successor
    )
    transition.put(
        held_lease=None,
        role=Role.STANDBY,
        ready=False,
        changed_at=transition.now,
        read_at=transition.now,
        read_failed=False,
    )
    transition.do(Released(ok=True))


def lose(transition: Transition, reason: str, lock_state: LockState | None = None) -> None:
    """The grant is over. A releasing process has no driver left to kill, and only hears that the release failed."""
    held_lease = transition.held_lease
    transition.say("lost", reason, epoch=held_lease.epoch)
    if held_lease.raise_to is not None:
        transition.do(Raised(None))
    transition.do(Released(ok=False) if held_lease.release is not None else Lost(reason))
    transition.put(
        held_lease=None,
        role=Role.STANDBY if held_lease.release is not None else Role.LOST,
        ready=False,
        lost_at=transition.now,
        next_at=transition.now,
        changed_at=transition.now,
    )
    if lock_state is not None:
        transition.follow(lock_state)
