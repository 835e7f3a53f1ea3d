"""What stands in a lock document, and what we write there.

The leader record is client-go's, so that its tools and its electors understand it. Everything of ours is in the entry
``grant``: the token's epoch, a nonce made for this one write, whether the lock was released and to whom. A client-go holder
may rewrite the record and leave our entry where it was; then the record is right about who leads, and the entry only about how
high the epoch is.

No decision reads the record's times. They are text, for people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn, TypeAlias

from understudy.documents import codec
from understudy.documents.model import Content, Document, LeaderRecord
from understudy.documents.settle import is_own
from understudy.errors import DocumentUnreadable
from understudy.protocol.names import LOCK_LABELS

#: The entry of ours in a lock document, and the kind its value is encoded as.
GRANT = "grant"
_VERSION = 1

#: The highest epoch that fits a token's signed 64-bit integer.
EPOCH_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class GrantEntry:
    """The entry ``grant``. ``nonce`` is made for one write and never used again. ``successor`` stands only in a release."""

    token_epoch: int
    holder: str
    nonce: str
    released: bool = False
    successor: str | None = None
    generation: str = ""
    lock: str = "file"
    workload: str = ""

    def encode(self) -> str:
        body = {
            "token_epoch": self.token_epoch,
            "holder": self.holder,
            "nonce": self.nonce,
            "released": self.released,
            "successor": self.successor,
            "generation": self.generation,
            "lock": self.lock,
            "workload": self.workload,
        }
        return codec.encode(GRANT, _VERSION, body)


def decode_grant(text: str, *, where: str = "", revision: str = "") -> GrantEntry:
    """Raises ``DocumentUnreadable`` for anything but a whole grant: damaged, of a newer version, or with a field amiss."""
    _, body = codec.decode(GRANT, text, newest=_VERSION, where=where, revision=revision)

    def refuse(field: str) -> NoReturn:
        raise DocumentUnreadable(
            f"the grant's {field} is {body.get(field)!r}",
            where=where,
            remedy="It is not taken for a free lock; its holder may rewrite it, an operator may restore it",
            revision=revision,
        )

    def text_of(field: str) -> str:
        value = body.get(field, "")
        if not isinstance(value, str):
            refuse(field)
        return value

    epoch, released, successor = body.get("token_epoch"), body.get("released"), body.get("successor")
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch <= EPOCH_MAX:
        refuse("token_epoch")
    if not isinstance(released, bool):
        refuse("released")
    if successor is not None and not isinstance(successor, str):
        refuse("successor")
    holder = text_of("holder")
    if not holder:
        refuse("holder")
    return GrantEntry(
        epoch,
        holder,
        text_of("nonce"),
        released,
        successor,
        text_of("generation"),
        text_of("lock"),
        text_of("workload"),
    )


@dataclass(frozen=True, slots=True)
class Unwritten:
    """No document, or one without a holder and a grant. New if no epoch was granted; *emptied* if one was, and then not free."""

    document: Document | None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Free:
    """Released by its holder. ``successor`` is whom it named, if anyone."""

    document: Document
    epoch: int
    successor: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """``holder`` leads, for ``lease_seconds`` after the last change one saw. Without a grant of ours the epoch is 0."""

    document: Document
    epoch: int
    holder: str
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Something unreadable. ``document`` only carries the revision to replace; it is ``None`` if not even that is known."""

    document: Document | None
    cause: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Buried:
    """A tombstone: the cluster's data were cleaned up. Its epoch still counts if the lock is made again."""

    document: Document
    epoch: int


LockState: TypeAlias = Unwritten | Free | Held | Corrupt | Buried


def lock_state_of(document: Document | None) -> LockState:
    """What ``document`` says about the lock. Never raises, and takes nothing it does not understand for free."""
    if document is None:
        return Unwritten(None)
    grant, cause = _grant_of(document)
    if document.buried:
        # guard: buried-is-not-free
        return Buried(document, 0 if grant is None else grant.token_epoch)
    if cause:
        return Corrupt(document, cause)
    leader = document.leader
    if leader is None:
        return Unwritten(document) if grant is None else Corrupt(document, "there is a grant, but no leader record")
    if not math.isfinite(leader.lease_seconds) or leader.lease_seconds <= 0:
        return Corrupt(document, f"the leader record has a lease of {leader.lease_seconds} s")
    if grant is None:
        # Someone without our entry. A blank holder is client-go's release, or content that was emptied: the minimum epoch decides.
        return Held(document, 0, leader.holder, leader.lease_seconds) if leader.holder else Unwritten(document)
    if grant.released and not leader.holder:
        return Free(document, grant.token_epoch, grant.successor)
    if not leader.holder:
        # A blank holder over a grant that was not released: a client-go holder in between, or an edit by hand while
        # ours lives. Its lease may be client-go's one second, which does not prove that the grant's holder is gone.
        return Held(document, grant.token_epoch, grant.holder, max(leader.lease_seconds, _BLANKED))
    return Held(document, grant.token_epoch, leader.holder, leader.lease_seconds)


#: For how long a grant is respected whose record was blanked by someone else, in seconds: longer than any sensible lease.
_BLANKED = 60.0


def _grant_of(document: Document) -> tuple[GrantEntry | None, str]:
    text = document.entries.get(GRANT)
    return (None, "") if text is None else _decoded(text, document.name, document.revision)


@lru_cache(maxsize=64)
def _decoded(text: str, where: str, revision: str) -> tuple[GrantEntry | None, str]:
    """Cached, because one document is decoded many times: for every poll, and for every question about the leader."""
    try:
        return decode_grant(text, where=where, revision=revision), ""
    except DocumentUnreadable as error:
        return None, str(error)


def view_grant(document: Document | None) -> GrantEntry | None:
    """The grant in ``document``, for showing; ``None`` if there is none or it cannot be read. Decisions use ``lock_state_of``."""
    return None if document is None else _grant_of(document)[0]


def same_record(one: Document | None, other: Document | None) -> bool:
    """Whether both say the same about the lock. Foreign labels and entries may differ, and so may the revision."""
    if one is None or other is None:
        return one is other
    return (one.leader, one.entries.get(GRANT), one.buried) == (other.leader, other.entries.get(GRANT), other.buried)


def same_revision(one: Document | None, other: Document | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.revision == other.revision


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write: what was decided, on what it was decided, and when.

    ``seen`` is the compare-and-set token, and it is the very document the decision was made on. ``sent_at`` is not later than
    the sending, in seconds of the elector's clock. ``acquires`` is true for a write that takes the lock, false for one by its
    holder.
    """

    name: str
    seen: Document | None
    grant: GrantEntry
    leader: LeaderRecord
    sent_at: float
    acquires: bool

    def sealed(self, nonce: str, stamp: str) -> Attempt:
        """With what a pure function cannot make: a nonce and the time for people. A first ``acquired`` is filled, too."""
        leader = replace(self.leader, renewed=stamp, acquired=self.leader.acquired or stamp)
        return replace(self, grant=replace(self.grant, nonce=nonce), leader=leader)

    @property
    def content(self) -> Content:
        return Content(entries={GRANT: self.grant.encode()}, leader=self.leader, labels=LOCK_LABELS)

    def landed_in(self, document: Document | None) -> bool:
        """Whether ``document`` is the outcome of this very write: nonce *and* whole record are what was sent."""
        return is_own(document, self.content, GRANT)
