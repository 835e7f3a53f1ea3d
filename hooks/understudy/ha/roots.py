"""Which roots a job's drivers have claimed, by the token they claimed them under: of the newest two tokens, and no older ones.

A root that a script has stopped using drops out after two more starts that claim something, so a directory that was given up
cannot be asked for ever. Nothing is lost with it for the minimum epoch: what is dropped was claimed under a lower token than what stays.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from understudy.documents import codec
from understudy.errors import DocumentUnreadable
from understudy.protocol.token import Token

#: The entry of a job's document, and the kind of its value.
ENTRY = "roots"
_VERSION = 1
#: The one that runs now, which may not have claimed all of its roots yet, and the one before.
_KEPT = 2


@dataclass(frozen=True, slots=True)
class ClaimedRoots:
    """``by_token``: newest token first. ``inherited``: those of which it is not known under which token they were claimed."""

    by_token: tuple[tuple[int, tuple[str, ...]], ...] = ()
    inherited: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted({root for _, roots in self.by_token for root in roots}))

    def claimed(self, token: Token, roots: tuple[str, ...]) -> Self:
        """With ``roots`` claimed under ``token``, in addition to those it has claimed before."""
        known = {number: set(each) for number, each in self.by_token}
        if roots:
            known.setdefault(int(token), set()).update(roots)
        newest = sorted(known, reverse=True)[:_KEPT]
        kept = tuple((number, tuple(sorted(known[number]))) for number in newest)
        return type(self)(kept, tuple(each for each in self.inherited if each not in roots))

    @property
    def tokens(self) -> dict[str, int]:
        """Each root with the highest token it is known to have been claimed under; 0 where none is."""
        found = {root: number for number, roots in reversed(self.by_token) for root in roots}
        return {root: 0 if root in self.inherited else number for root, number in found.items()}

    def without(self, roots: Collection[str]) -> Self:
        """Without these, as if they had never been claimed."""
        kept = tuple((number, tuple(each for each in known if each not in roots)) for number, known in self.by_token)
        return type(self)(kept, tuple(each for each in self.inherited if each not in roots))

    def held(self, token: Token, roots: tuple[str, ...]) -> Self:
        """With ``roots`` claimed under ``token`` and no others: what its script has stopped using is not kept by name for ever."""
        others = tuple(each for each in self.by_token if each[0] != int(token))
        return type(self)(others, self.inherited).claimed(token, roots)

    def encode(self) -> str:
        tokens = [[number, list(roots)] for number, roots in self.by_token]
        return codec.encode(ENTRY, _VERSION, {"tokens": tokens, "inherited": list(self.inherited)})

    @classmethod
    def of(cls, text: str | None, listed: tuple[str, ...], token: Token) -> Self:
        """As it stands in a document whose job lists ``listed`` and runs under ``token``.

        Images before this entry know the list alone. What only they have written was claimed under the token they ran; so was
        everything where the entry is damaged.
        """
        found = cls(*_decoded(text))
        unknown = tuple(sorted({*listed} - {*found.all}))
        merged = found.claimed(token, unknown)
        return cls(merged.by_token, tuple(sorted({*found.inherited, *unknown})))


def check(text: str | None) -> None:
    """Raises ``DocumentUnreadable`` for an entry that is there and is damaged, which ``ClaimedRoots.of`` reads as one that is not."""
    if text is not None:
        try:
            _read(text)
        except (TypeError, ValueError, OverflowError) as error:
            raise DocumentUnreadable(f"it lacks a field, or has one amiss: {error!r}", where=ENTRY) from error


def _decoded(text: str | None) -> tuple[tuple[tuple[int, tuple[str, ...]], ...], tuple[str, ...]]:
    if text is None:
        return (), ()
    try:
        return _read(text)
    except (DocumentUnreadable, TypeError, ValueError, OverflowError):
        return (), ()


def _read(text: str) -> tuple[tuple[tuple[int, tuple[str, ...]], ...], tuple[str, ...]]:
    _, body = codec.decode(ENTRY, text)
    tokens = body.get("tokens")
    found = {int(number): tuple(map(str, roots)) for number, roots in (tokens if isinstance(tokens, list) else [])}
    inherited = body.get("inherited")
    unsure = tuple(map(str, inherited)) if isinstance(inherited, list) else ()
    return tuple(sorted(found.items(), reverse=True)), unsure
