"""What a job's queries have committed: entries ``checkpoints`` and ``counter`` of the job's document.

Flink's ``CompletedCheckpointStore`` and ``CheckpointIDCounter`` (FLIP-144), for checkpoints that Spark keeps by itself. The record says, for
each query, which batch was committed at least. It is written once a minute and at every boundary that is asked for, so the
checkpoint is usually ahead of it. A checkpoint that is *behind* it was restored from a copy or has lost entries, and the fence refuses
to go on from there. The counter numbers boundaries: places between two batches at which the whole job stood still.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Self

from understudy.documents import codec
from understudy.documents.model import Document
from understudy.errors import DocumentUnreadable
from understudy.protocol import typed

ENTRY = "checkpoints"
COUNTER = "counter"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``root`` as among the job's roots; ``query`` and ``sink`` for people. ``batch`` was committed at ``at`` (s since 1970) or before.

    ``drained``: nothing goes on from here. The last entry of its offsets has the end of time as its watermark, or may have it.
    """

    root: str
    query: str
    sink: str
    batch: int
    at: float
    drained: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """``known``: by root, in order. ``counter``: the number of the last boundary; ``None`` where that cannot be read. ``draining``: the
    roots of a drain that has begun and has not come to its end. ``readable``: false where ``known`` and ``draining`` could not be read.
    """

    known: tuple[Checkpoint, ...] = ()
    counter: int | None = 0
    draining: tuple[str, ...] = ()
    readable: bool = True

    @property
    def batches(self) -> dict[str, int]:
        """Each root from which a query goes on, with a batch that was committed there."""
        return {each.root: each.batch for each in self.known if each.batch >= 0 and not each.drained}

    @property
    def drained(self) -> frozenset[str]:
        return frozenset(each.root for each in self.known if each.drained)

    def noted(self, found: Iterable[Checkpoint], roots: Collection[str]) -> Self:
        """With what a leader has ``found``; of the others those that are still among the job's ``roots``."""
        before = {each.root: each for each in self.known}
        kept = {root: each for root, each in before.items() if root in roots or each.drained}
        for each in found:
            was = before.get(each.root)
            kept[each.root] = replace(each, drained=was is not None and was.drained)
        return replace(self, known=tuple(kept[root] for root in sorted(kept)), readable=True)

    def drain_begins(self, roots: Collection[str]) -> Self:
        return replace(self, draining=tuple(sorted(roots)), readable=True)

    def drain_ends(self) -> Self:
        """The roots of the drain are drained, or may be: nothing goes on from them."""
        known = {each.root: each for each in self.known}
        for root in self.draining:
            known[root] = replace(known.get(root, Checkpoint(root, "", "", -1, 0.0)), drained=True)
        return replace(self, known=tuple(known[root] for root in sorted(known)), draining=())

    def without(self, roots: Collection[str]) -> Self:
        """Without these, as if nothing had ever been committed there."""
        return replace(self, known=tuple(each for each in self.known if each.root not in roots))

    def numbered(self, above: int = 0) -> Self:
        """With one more boundary, whose number is higher than ``above``. Without a number where the last one's cannot be read: none is given twice."""
        return self if self.counter is None else replace(self, counter=max(self.counter, above) + 1)

    @classmethod
    def of(cls, document: Document) -> Self:
        """What stands in ``document``. Batches that cannot be read protect nothing, and must not keep a job from running."""
        entries = document.entries
        counter = _count(entries.get(COUNTER))
        if (text := entries.get(ENTRY)) is None:
            return cls(counter=counter)
        try:
            return cls(*_read(text, counter))
        except (DocumentUnreadable, ValueError):
            return cls(counter=counter, readable=False)

    def entries(self, before: Checkpoints) -> Mapping[str, str | None]:
        """What to write where ``before`` stands."""
        changes: dict[str, str | None] = {}
        if (self.known, self.draining) != (before.known, before.draining):
            body = {"known": [asdict(each) for each in self.known], "draining": list(self.draining)}
            changes[ENTRY] = codec.encode(ENTRY, _VERSION, body)
        if self.counter != before.counter:
            changes[COUNTER] = codec.encode(COUNTER, _VERSION, {"count": self.counter})
        return changes


def _read(text: str, counter: int | None) -> tuple[tuple[Checkpoint, ...], int | None, tuple[str, ...]]:
    """Raises ``DocumentUnreadable`` and ``ValueError``. Fields of a newer release are left out."""
    body = codec.decode(ENTRY, text)[1]
    known, draining = body.get("known"), body.get("draining", [])
    if not isinstance(known, list) or not isinstance(draining, list):
        raise ValueError("no list")  # noqa: TRY004 - what is read is wrong, not what was passed
    return tuple(typed.build_known(Checkpoint, each) for each in known), counter, tuple(map(str, draining))


def _count(text: str | None) -> int | None:
    if text is None:
        return 0
    try:
        count = codec.decode(COUNTER, text)[1].get("count")
    except DocumentUnreadable:
        return None
    return count if type(count) is int and count >= 0 else None
