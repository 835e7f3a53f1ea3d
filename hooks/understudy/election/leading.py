"""What a holder of the lock decides: renew, park, rewrite, raise, release, and when it has lost."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from understudy.documents.model import Conflict, Document, Unknown, Written
from understudy.election.facts import Lost, Raised, Release, Released, Renewed, Role
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
    same_record,
    same_revision,
    sight_of,
)
from understudy.election.turn import Turn


def release_asked(turn: Turn, successor: str | None) -> None:
    if turn.state.tenure is None:
        turn.do(Released(ok=False))
    elif turn.tenure.release is None:
        if turn.tenure.raise_to is not None:
            turn.do(Raised(None))
        turn.put_tenure(release=Release(successor, turn.now + turn.timings.renew), raise_to=None)
        turn.put(role=Role.RELEASING, next_at=turn.now)


def raise_asked(turn: Turn, epoch: int) -> None:
    if turn.state.tenure is None or turn.tenure.release is not None:
        turn.do(Raised(None))
    elif turn.tenure.epoch > epoch:
        turn.do(Raised(turn.tenure.epoch))
    elif turn.state.role is not Role.LEADING or epoch >= EPOCH_MAX:
        turn.put_tenure(raise_to=epoch)
        lose(turn, f"an epoch above {epoch} is needed and cannot be had")
    else:
        turn.put_tenure(raise_to=max(epoch, turn.tenure.raise_to or 0))
        turn.put(next_at=turn.now)


def deadlines(turn: Turn) -> None:
    """What time alone decides."""
    if turn.state.tenure is None:
        return
    tenure = turn.tenure
    if tenure.release is not None:
        if turn.now >= tenure.release.until:
            lose(turn, "the release was not answered; the lease will run out by itself")
    elif turn.state.role is Role.LEADING and turn.now >= turn.state.closes_at:
        if tenure.raise_to is not None:
            lose(turn, f"an epoch above {tenure.raise_to} is needed, and the lock did not answer in time")
            return
        # guard: unrenewed-leader-parks
        turn.put(role=Role.PARKED)
        turn.say(
            "parked",
            f"not renewed for {turn.timings.renew:g} s: the gate is closed, and epoch {tenure.epoch} may yet reopen",
            epoch=tenure.epoch,
        )


def lead(turn: Turn) -> None:
    state, tenure = turn.state, turn.tenure
    if turn.hinted and tenure.release is None:
        turn.read()
    elif turn.now < state.next_at:
        return
    elif tenure.settling or not _may_write(turn):
        turn.put_tenure(settling=False)
        turn.read()
    else:
        _write(turn)


def _may_write(turn: Turn) -> bool:
    """Its own record may always be renewed. Missing or damaged content only while nobody else can have taken the lock."""
    match turn.state.sight:
        case Unwritten():
            return turn.now < turn.state.closes_at
        case Corrupt(document):
            return document is not None and turn.now < turn.state.closes_at
        case _:
            return True


def _write(turn: Turn) -> None:
    tenure, rules = turn.tenure, turn.state.rules
    assert tenure.confirmed.leader is not None
    leader = replace(tenure.confirmed.leader, holder=rules.holder, lease_seconds=turn.timings.lease)
    grant = GrantEntry(tenure.epoch, rules.holder, "")
    if tenure.release is not None:
        # As client-go releases: a blank holder and one second, so that its electors need not wait either.
        leader = replace(leader, holder="", lease_seconds=1.0)
        grant = replace(grant, released=True, successor=tenure.release.successor)
    elif tenure.raise_to is not None:
        grant = replace(grant, token_epoch=1 + max(tenure.epoch, tenure.raise_to))
    turn.write(grant, leader, acquires=False)


def unseen(turn: Turn) -> None:
    """Reading fails. Writing may do, so a write that is due is tried next; where none is allowed, reading is, later."""
    if not _may_write(turn):
        turn.put(next_at=max(turn.now, turn.state.asked_at + turn.timings.retry))


def answered(turn: Turn, attempt: Attempt, outcome: Written | Conflict | Unknown | Corrupt) -> None:
    match outcome:
        case Unknown(cause):
            # Neither renewed nor lost: the old deadline stands until this is settled.
            turn.unreached(f"whether the lock was written is not known: {cause}")
            turn.unsettled(attempt)
            turn.put_tenure(settling=True)
            turn.put(next_at=max(turn.now, attempt.sent_at + turn.timings.retry))
            return
        case Written(document):
            _landed(turn, attempt, document)
        case Conflict(Document() as current) if attempt.landed_in(current):
            _landed(turn, attempt, current)
        case Conflict(current):
            _inspect_refusal(turn, attempt, sight_of(current))
        case Corrupt():
            _inspect_refusal(turn, attempt, outcome)
        case _:
            assert_never(outcome)
    turn.reached()


def _inspect_refusal(turn: Turn, attempt: Attempt, sight: Sight) -> None:
    if same_revision(attempt.seen, sight.document):
        # Refused, and nothing changed: some servers do that. Not at once again.
        turn.put(next_at=max(turn.now, attempt.sent_at + turn.timings.retry))
    inspect(turn, sight)


def inspect(turn: Turn, sight: Sight) -> None:
    """What stands there instead of, or beside, what this leader wrote last."""
    tenure, document, within = turn.tenure, sight.document, turn.now < turn.state.closes_at
    landed = next((attempt for attempt in turn.state.pending if attempt.landed_in(document)), None)
    if landed is not None and document is not None:
        _landed(turn, landed, document)
        return
    own = document is not None and same_record(tenure.confirmed, document)
    if own and document is not None and (within or same_revision(tenure.confirmed, document)):
        # Unchanged, or changed by someone who does not contend. Past the deadline only the very revision will do: another
        # leader may have come and gone, and a backup been restored.
        turn.put(sight=sight)
        turn.put_tenure(confirmed=document)
        return
    match sight:
        # guard: late-holder-gives-up-a-missing-lock
        case Unwritten() if not within and tenure.release is None:
            # Others may have led meanwhile, or may be about to. As one of them it is taken above the floor, when a lease is over.
            lose(turn, "the lock is missing or emptied, and it is too late to write it again", sight)
        case Unwritten() | Corrupt():
            gone = f"unreadable ({sight.cause})" if isinstance(sight, Corrupt) else "missing or emptied"
            turn.put(sight=sight)
            turn.put(next_at=turn.now if _may_write(turn) else turn.now + turn.timings.retry)
            if within:
                turn.because("rewriting", f"the lock is {gone}; its live holder writes it again", epoch=tenure.epoch)
            else:
                turn.because("refused", f"the lock is {gone}, and it is too late to write it again", epoch=tenure.epoch)
        case Held(_, epoch, holder) if holder != turn.state.rules.holder:
            lose(turn, f"{holder} holds the lock with epoch {epoch}", sight)
        case Held(_, epoch) | Free(_, epoch):
            lose(turn, f"the lock is at epoch {epoch} by a write that is not this replica's", sight)
        case Buried():
            lose(turn, "the lock was buried", sight)
        case _:
            assert_never(sight)


def _landed(turn: Turn, attempt: Attempt, document: Document) -> None:
    """A create wins on any absence. Known of only after the deadline, it proves nothing: others may have led, and their lock be gone."""
    if attempt.seen is None and turn.now >= turn.state.closes_at:
        lose(turn, "the lock was made again too late: others may have led meanwhile", sight_of(document))
    else:
        _confirmed(turn, attempt, document)


def _confirmed(turn: Turn, attempt: Attempt, document: Document) -> None:
    """``attempt`` stands there as it was sent. Deadlines follow from when it was sent, never from now."""
    tenure, epoch = turn.tenure, attempt.grant.token_epoch
    at = max(tenure.confirmed_at, attempt.sent_at)
    turn.put(
        sight=sight_of(document),
        pending=(),  # whatever was sent on an older revision cannot land any more
        highest=max(turn.state.highest, epoch),
        next_at=at + turn.timings.retry,
        tenure=replace(tenure, confirmed=document, confirmed_at=at, epoch=epoch, settling=False),
        reason="",
    )
    if attempt.grant.released:
        _released(turn, attempt.grant)
        return
    if tenure.release is not None:
        turn.put(next_at=turn.now)
        return
    if tenure.raise_to is not None and epoch > tenure.raise_to:
        turn.put_tenure(raise_to=None)
        turn.say("raised", f"leading with epoch {epoch} from here on", epoch=epoch)
        turn.do(Raised(epoch))
    elif tenure.raise_to is not None:
        turn.put(next_at=turn.now)
    turn.do(Renewed(at))
    if turn.state.role is Role.PARKED and turn.now < at + turn.timings.renew:
        turn.put(role=Role.LEADING)
        turn.say("reopened", f"the record was unchanged: leading again with epoch {epoch}", epoch=epoch)


def _released(turn: Turn, grant: GrantEntry) -> None:
    whom = f"{grant.successor} goes first" if grant.successor else "nobody is named"
    turn.say(
        "released", f"epoch {grant.token_epoch} is over, {whom}", epoch=grant.token_epoch, successor=grant.successor
    )
    turn.put(tenure=None, role=Role.STANDBY, ready=False, changed_at=turn.now, read_at=turn.now, read_failed=False)
    turn.do(Released(ok=True))


def lose(turn: Turn, reason: str, sight: Sight | None = None) -> None:
    """The grant is over. A releasing process has no driver left to kill, and only hears that the release failed."""
    tenure = turn.tenure
    turn.say("lost", reason, epoch=tenure.epoch)
    if tenure.raise_to is not None:
        turn.do(Raised(None))
    turn.do(Released(ok=False) if tenure.release is not None else Lost(reason))
    turn.put(
        tenure=None,
        role=Role.STANDBY if tenure.release is not None else Role.LOST,
        ready=False,
        lost_at=turn.now,
        next_at=turn.now,
        changed_at=turn.now,
    )
    if sight is not None:
        turn.follow(sight)
