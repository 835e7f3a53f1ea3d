"""One transition of the machine: the state being built and the commands so far. Lives for one call of ``decide``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.documents.model import LeaderRecord
from understudy.election.commands import Command, Read, Say, Write
from understudy.election.records import Attempt, GrantEntry, Held, LockState, same_record, same_revision
from understudy.election.state import Awaited, HeldLease, State

#: Unanswered writes that are remembered. One that is forgotten and lands costs the grant, and nothing else.
_PENDING = 256


class Transition:
    def __init__(self, state: State, now: float) -> None:
        self.state, self.now, self.commands = state, now, list[Command]()
        self.timings = state.rules.timings

    @property
    def held_lease(self) -> HeldLease:
        """The grant held; only asked where there is one."""
        assert self.state.held_lease is not None
        return self.state.held_lease

    def put(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def put_held_lease(self, **changes: Any) -> None:
        self.put(held_lease=replace(self.held_lease, **changes))

    def do(self, *commands: Command) -> None:
        self.commands += commands

    def say(self, event: str, sentence: str, **fields: object) -> None:
        self.do(Say(event, sentence, fields))

    def because(self, event: str, reason: str, **fields: object) -> None:
        """Say a reason once, however long it lasts."""
        if reason != self.state.reason:
            self.put(reason=reason)
            self.say(event, reason, **fields)

    def reached(self) -> None:
        if self.state.unreachable:
            self.say("reachable", "the lock's store answers again")
            self.put(unreachable=False)

    def unreached(self, what: str) -> None:
        if not self.state.unreachable:
            self.say("unreachable", what)
            self.put(unreachable=True)

    @property
    def hinted(self) -> bool:
        """Whether a watch spoke of another revision than the one known. A renewal's own hint may come before its answer."""
        document = None if self.state.lock_state is None else self.state.lock_state.document
        hint = self.state.hint
        return hint is not None and (self.state.lock_state is None or hint.revision != (document and document.revision))

    def read(self) -> None:
        self.put(awaited=Awaited.READ, asked_at=self.now, hint=None)
        self.do(Read())

    def write(self, grant: GrantEntry, leader: LeaderRecord, *, acquires: bool) -> None:
        """Compare-and-set on the very document that was decided on; nothing refreshes it on the way."""
        rules, lock_state = self.state.rules, self.state.lock_state
        assert lock_state is not None
        grant = replace(grant, generation=rules.generation, lock=rules.lock, workload=rules.workload)
        self.put(awaited=Awaited.WRITE, asked_at=self.now)
        self.do(Write(Attempt(rules.name, lock_state.document, grant, leader, self.now, acquires)))

    def unsettled(self, attempt: Attempt) -> None:
        """Keep ``attempt`` as pending: it is unknown whether it landed, and it may still land."""
        self.put(pending=(*self.state.pending, attempt)[-_PENDING:])

    def follow(self, lock_state: LockState) -> None:
        """Take in what stands there. The lease is counted from when *we* saw it change, and only while we can see it."""
        before = self.state.lock_state
        another = before is None or type(before) is not type(lock_state)
        changed = before is None or another or not same_record(before.document, lock_state.document)
        outage = self.state.read_at is None or self.now - self.state.read_at > staleness_limit(self.state)
        self.put(
            lock_state=lock_state,
            changed_at=self.now if changed or outage else self.state.changed_at,
            read_at=self.now,
            read_failed=False,
            next_at=self.now + self.timings.retry,
            highest=max(self.state.highest, lock_state.epoch),
            lease=max(self.state.lease, lock_state.lease_seconds) if isinstance(lock_state, Held) else self.state.lease,
            # A revision past the one a write was made on settles that write, unless it is that write.
            pending=tuple(
                attempt
                for attempt in self.state.pending
                if same_revision(attempt.seen, lock_state.document) or attempt.landed_in(lock_state.document)
            ),
            reason="" if another else self.state.reason,
        )


def staleness_limit(state: State) -> float:
    """A longer gap than this between two reads is an outage, in seconds. One read may fail."""
    # guard: outage-stops-the-lease
    return 2 * state.rules.timings.retry + state.rules.timings.request
