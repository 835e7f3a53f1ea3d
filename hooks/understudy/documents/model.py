"""Documents: versioned records other replicas can see, and the five operations a backend implements.

A *write* has three outcomes and never fewer: it landed, another writer's did, or the result is unknown. ``Unknown`` is
not an error to be retried blindly: the delayed request may still land. It is settled only by a revision past the one
that was seen, or by winning a new compare-and-set on it (see ``understudy.documents.settle``).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from understudy.errors import DocumentError, DocumentTooLarge, DocumentUnreadable
from understudy.protocol.names import BURIED

#: What an API server accepts for one object, in bytes; we warn at half of it and refuse before the server would.
LIMIT = 1 << 20
#: Room left for what the server adds around our bytes (metadata, managed fields).
HEADROOM = 64 << 10

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")

_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """Who leads, in the fields client-go knows. Times are RFC 3339 text for people; no decision reads them."""

    holder: str
    lease_seconds: float
    acquired: str
    renewed: str
    transitions: int


@dataclass(frozen=True, slots=True)
class Document:
    """One revision of a document. ``revision`` is opaque: only equality means anything."""

    name: str
    entries: Mapping[str, str]
    leader: LeaderRecord | None
    labels: Mapping[str, str]
    revision: str

    @property
    def buried(self) -> bool:
        return self.labels.get(BURIED) == "true"


@dataclass(frozen=True, slots=True)
class Content:
    """What to write: own entries and labels. ``None`` removes one's own key; keys not named here are foreign and stay.

    ``leader`` is written as it stands: ``None`` removes the record.
    """

    entries: Mapping[str, str | None] = field(default_factory=dict)
    leader: LeaderRecord | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    document: Document


@dataclass(frozen=True, slots=True)
class Conflict:
    """Someone else's write is there. ``current`` is ``None`` when the document is missing."""

    current: Document | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is unknown whether the write landed; it may still land later."""

    cause: str


Outcome = Written | Conflict | Unknown


class DocumentStore(Protocol):
    """Five operations and nothing else.

    ``read`` is linearizable and never answered from a cache. It raises ``DocumentUnreadable`` for bytes that cannot be
    understood, and ``DocumentError`` when the backend does not answer in time. ``watch`` is a hint, never a proof.
    """

    async def read(self, name: str) -> Document | None: ...

    async def create(self, name: str, content: Content) -> Outcome: ...

    async def replace(self, seen: Document, content: Content) -> Outcome: ...

    async def bury(self, seen: Document) -> Outcome: ...

    def watch(self, name: str) -> AsyncIterator[Document | None]: ...


async def conflict(store: DocumentStore, name: str) -> Outcome:
    """After a refusal: our write certainly did not land on what was seen; what stands there instead may be hard to find out."""
    try:
        return Conflict(await store.read(name))
    except DocumentUnreadable:
        raise
    except DocumentError as error:
        return Unknown(f"refused as a conflict; then, reading: {error}")


def merged(base: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Own keys replaced or removed, foreign ones kept."""
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise DocumentError(
            f"{name!r} is not a document name", remedy="Use lower-case letters, digits, hyphens and dots"
        )
    return name


def check_size(name: str, size: int) -> None:
    if size > LIMIT - HEADROOM:
        raise DocumentTooLarge(
            f"{size} bytes do not fit into one document (limit {LIMIT - HEADROOM})",
            where=name,
            remedy="Keep pointers in documents and data in the object store",
        )
