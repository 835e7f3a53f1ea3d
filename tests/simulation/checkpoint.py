"""A checkpoint and its sink in an object store: logs of entries that are created once, by the first writer.

Not the fence itself, which is Java and has tests of its own: its protocol (gate, claim, conditional PUT) as DESIGN section 3 says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.protocol.token import NONE, Token

OFFSETS, SINK, COMMITS = "offsets", "sink", "commits"


@dataclass(frozen=True, slots=True)
class Entry:
    """``first`` to ``end`` are the inputs of the batch; ``nonce`` belongs to one PUT. ``drains``: its watermark is the end of time."""

    token: Token
    first: int
    end: int
    nonce: str
    drains: bool = False


@dataclass(slots=True, eq=False)
class Checkpoint:
    """``broken`` are the invariants that a write has broken, in words."""

    logs: dict[str, dict[int, Entry]] = field(default_factory=lambda: {OFFSETS: {}, SINK: {}, COMMITS: {}})
    #: A transactional sink that keeps the highest token it has seen, and each batch once.
    table: dict[int, tuple[int, int]] = field(default_factory=dict)
    table_token: Token = NONE
    highest: dict[str, Token] = field(default_factory=dict)
    ended_by: Token | None = None
    broken: list[str] = field(default_factory=list)
    served: list[Token] = field(default_factory=list)

    def put_new(self, log: str, batch: int, entry: Entry) -> bool:
        """A conditional PUT, arriving now; ``False`` when the slot is taken."""
        entries = self.logs[log]
        # guard: entry-is-created-once
        if batch in entries:
            return False
        if entry.token < self.highest.get(log, NONE):
            self.broken.append(f"I1: {log}/{batch} of token {entry.token} landed after one of {self.highest[log]}")
        if self.ended_by is not None and entry.token > self.ended_by:
            self.broken.append(f"I6: {log}/{batch} of token {entry.token} after the job ended under {self.ended_by}")
        self.highest[log] = max(entry.token, self.highest.get(log, NONE))
        entries[batch] = entry
        self._check(log, batch, entry)
        return True

    def _check(self, log: str, batch: int, entry: Entry) -> None:
        if batch and batch - 1 not in self.logs[log]:
            self.broken.append(f"I5: {log}/{batch} without {log}/{batch - 1}")
        planned = self.logs[OFFSETS].get(batch)
        if log == OFFSETS:
            before = self.logs[OFFSETS].get(batch - 1)
            if before is not None and before.drains:
                self.broken.append(f"I11: batch {batch} began after the one that has drained the query")
            if entry.first != (before.end if before else 0):
                self.broken.append(f"I4: batch {batch} begins at input {entry.first}, the one before ended at {before}")
        elif planned is None or (planned.first, planned.end) != (entry.first, entry.end):
            self.broken.append(f"I4: {log}/{batch} is {entry}, planned was {planned}")
        if log == COMMITS:
            if batch not in self.logs[SINK]:
                self.broken.append(f"I5: batch {batch} is committed and not in the sink")
            if not self.served or self.served[-1] != entry.token:
                self.served.append(entry.token)

    def upsert(self, batch: int, entry: Entry) -> bool:
        """One transaction of a ``foreachBatch``: refused for a token below the highest seen, a repeat changes nothing."""
        if entry.token < self.table_token:
            return False
        self.table_token = entry.token
        known = self.table.setdefault(batch, (entry.first, entry.end))
        if known != (entry.first, entry.end):
            self.broken.append(f"I4: the table has batch {batch} as {known}, and now as {entry}")
        return True

    @property
    def last_token(self) -> Token | None:
        """Whose commit was the last one."""
        return self.served[-1] if self.served else None

    @property
    def ended(self) -> bool:
        return self.ended_by is not None

    @property
    def drained(self) -> bool:
        """Whether the last batch that began is committed and has drained the query; so is one that never began any."""
        last = self.logs[OFFSETS].get(self.last(OFFSETS))
        return last is None or (last.drains and self.last(COMMITS) == self.last(OFFSETS))

    def last(self, log: str) -> int:
        return max(self.logs[log], default=-1)

    def whole(self) -> list[str]:
        """What is wrong with it when everybody has stopped."""
        committed, ends = self.last(COMMITS), 0
        wrong = []
        for batch in range(committed + 1):
            entry = self.logs[SINK].get(batch)
            if entry is None or entry.first != ends:
                wrong.append(f"I4: the sink's batch {batch} is {entry}, and its inputs begin at {ends}")
                break
            ends = entry.end
        return wrong
