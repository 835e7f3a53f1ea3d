"""One turn of the core: the state being built and the actions so far. Lives for one call of ``decide`` and touches nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.documents.model import LeaderRecord
from understudy.election.facts import Action, Awaited, Read, Say, State, Tenure, Write
from understudy.election.records import Attempt, GrantEntry, Held, Sight, same_record, same_revision

#: Unanswered writes that are remembered. One that is forgotten and lands costs the grant, and nothing else.
_PENDING = 256


class Turn:
    def __init__(self, state: State, now: float) -> None:
        self.state, self.now, self.actions = state, now, list[Action]()
        self.timings = state.rules.timings

    @property
    def tenure(self) -> Tenure:
        """The grant held; only asked where there is one."""
        assert self.state.tenure is not None
        return self.state.tenure

    def put(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def put_tenure(self, **changes: Any) -> None:
        self.put(tenure=replace(self.tenure, **changes))

    def do(self, *actions: Action) -> None:
        self.actions += actions

    def say(self, event: str, sentence: str, **facts: object) -> None:
        self.do(Say(event, sentence, facts))

    def because(self, event: str, reason: str, **facts: object) -> None:
        """Say a reason once, however long it lasts."""
        if reason != self.state.reason:
            self.put(reason=reason)
            self.say(event, reason, **facts)

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
        document = None if self.state.sight is None else self.state.sight.document
        hint = self.state.hint
        return hint is not None and (self.state.sight is None or hint.revision != (document and document.revision))

    def read(self) -> None:
        self.put(awaited=Awaited.READ, asked_at=self.now, hint=None)
        self.do(Read())

    def write(self, grant: GrantEntry, leader: LeaderRecord, *, acquires: bool) -> None:
        """Compare-and-set on the very document that was decided on; nothing refreshes it on the way."""
        rules, sight = self.state.rules, self.state.sight
        assert sight is not None
        grant = replace(grant, generation=rules.generation, lock=rules.lock, workload=rules.workload)
        self.put(awaited=Awaited.WRITE, asked_at=self.now)
        self.do(Write(Attempt(rules.name, sight.document, grant, leader, self.now, acquires)))

    def unsettled(self, attempt: Attempt) -> None:
        """Nobody knows whether ``attempt`` landed, and it may still land."""
        self.put(pending=(*self.state.pending, attempt)[-_PENDING:])

    def follow(self, sight: Sight) -> None:
        """Take in what stands there. The lease is counted from when *we* saw it change, and only while we can see it."""
        before = self.state.sight
        another = before is None or type(before) is not type(sight)
        changed = before is None or another or not same_record(before.document, sight.document)
        outage = self.state.read_at is None or self.now - self.state.read_at > blind(self.state)
        self.put(
            sight=sight,
            changed_at=self.now if changed or outage else self.state.changed_at,
            read_at=self.now,
            read_failed=False,
            next_at=self.now + self.timings.retry,
            highest=max(self.state.highest, sight.epoch),
            lease=max(self.state.lease, sight.lease_seconds) if isinstance(sight, Held) else self.state.lease,
            # A revision past the one a write was made on settles that write, unless it is that write.
            pending=tuple(
                attempt
                for attempt in self.state.pending
                if same_revision(attempt.seen, sight.document) or attempt.landed_in(sight.document)
            ),
            reason="" if another else self.state.reason,
        )


def blind(state: State) -> float:
    """A longer gap than this between two reads is an outage, in seconds. One read may fail."""
    # guard: outage-stops-the-lease
    return 2 * state.rules.timings.retry + state.rules.timings.request
