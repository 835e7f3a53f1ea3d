"""Savepoints of a job: entry ``savepoints`` of its document, and the manifest that stands beside the copies.

A savepoint is a copy of the job's checkpoints at one boundary, whose number it has. The entry says *begun* before the first file is copied. It
is complete once its manifest stands, which is created last, and the entry says how it was proven. What a leader that died has left in the
middle stays *begun* without a request that is under way, and counts as failed.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from understudy.blobs.digest import sha256
from understudy.documents import codec
from understudy.documents.model import Document
from understudy.errors import DocumentUnreadable
from understudy.protocol import kinded, typed
from understudy.protocol.savepoint import SavedQuery

ENTRY = "savepoints"
#: Below the HA storage.
ROOT = "savepoints"
MANIFEST = "manifest.json"
#: The list of a query's files stands beside its directory, under the directory's name and this.
LIST = ".files"
#: So many are known; of an older one the files stay where they are.
REMEMBERED = 32
_VERSION = 1
_KIND = "understudy/savepoint"
#: Earlier releases named a directory by the number alone.
_DIRECTORY = re.compile(r"(\d{1,18})(?:-[0-9a-f]{8})?")


class Proof(enum.StrEnum):
    """What is known of a savepoint. ``rehearsed``: batches were run on every copy of it. ``verified``: each file was read again and compared,
    and no batch was run.
    """

    BEGUN = "begun"
    REHEARSED = "rehearsed"
    VERIFIED = "verified"
    FAILED = "failed"


COMPLETE = frozenset({Proof.REHEARSED, Proof.VERIFIED})


@dataclass(frozen=True, slots=True)
class Savepoint:
    """``place``: a URL. ``at`` (s since 1970): when the job stood still. ``request``: the id of the one that asked for it. ``batches``: the last
    batch of each query that it holds, by the query's directory. ``state`` is a ``Proof``, or one of a newer release.
    """

    number: int
    place: str
    at: float
    state: str
    request: str = ""
    batches: dict[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.state in COMPLETE

    @property
    def directory(self) -> str:
        """The last part of its place."""
        name = self.place.rpartition("/")[2]
        return name if number_in(name) == self.number else str(self.number)


@dataclass(frozen=True, slots=True)
class Savepoints:
    """``known``: by number. ``readable``: false where they could not be read; then none is written either."""

    known: tuple[Savepoint, ...] = ()
    readable: bool = True

    def numbered(self, number: int) -> Savepoint | None:
        return next((each for each in self.known if each.number == number), None)

    def of_request(self, request: str) -> Savepoint | None:
        return next((each for each in self.known if each.request == request), None)

    def with_one(self, savepoint: Savepoint) -> Self:
        others = [each for each in self.known if each.number != savepoint.number]
        known = sorted([*others, savepoint], key=lambda each: each.number)
        return replace(self, known=tuple(known[-REMEMBERED:]))

    def without(self, number: int) -> Self:
        return replace(self, known=tuple(each for each in self.known if each.number != number))

    def as_of(self, under_way: str) -> tuple[Savepoint, ...]:
        """What is known, where ``under_way`` is the id of the request that is: nothing comes of what another one has begun."""
        return tuple(
            replace(each, state=Proof.FAILED) if each.state == Proof.BEGUN and each.request != under_way else each
            for each in self.known
        )

    @classmethod
    def of(cls, document: Document) -> Self:
        """What stands in ``document``. Savepoints that cannot be read must not keep a job from running."""
        text = document.entries.get(ENTRY)
        if text is None:
            return cls()
        try:
            known = codec.decode(ENTRY, text)[1].get("known")
            if not isinstance(known, list):
                return cls(readable=False)
            return cls(tuple(typed.build_known(Savepoint, each) for each in known))
        except (DocumentUnreadable, ValueError, TypeError):
            return cls(readable=False)

    def entries(self, before: Savepoints) -> Mapping[str, str | None]:
        """What to write where ``before`` stands."""
        if self.known == before.known or not self.readable:
            return {}
        return {ENTRY: codec.encode(ENTRY, _VERSION, {"known": [asdict(each) for each in self.known]})}


def savepoints_of(cluster: str, job: str) -> str:
    """Where those of a job are, below the HA storage."""
    return f"{ROOT}/{cluster}/{job}/"


def directory_of(number: int, request: str) -> str:
    """A name that no other savepoint ever has: numbers begin again where the documents are lost, and ids of requests do not."""
    return f"{number}-{sha256(request.encode())[:8]}"


def number_in(directory: str) -> int | None:
    """The number of the savepoint in a directory of that name; ``None`` where it is no such name."""
    found = _DIRECTORY.fullmatch(directory)
    return None if found is None else int(found[1])


def below(cluster: str, job: str, directory: str) -> str:
    """Where a savepoint is, below the HA storage."""
    return f"{savepoints_of(cluster, job)}{directory}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A savepoint as a whole. ``at`` as in ``Savepoint``; ``spark``: the version that wrote the checkpoints."""

    cluster: str
    job: str
    number: int
    at: float
    spark: str
    queries: list[SavedQuery]

    @property
    def proof(self) -> Proof:
        """Rehearsed, if every query was that has committed a batch at all."""
        begun = [each for each in self.queries if each.batch >= 0]
        return Proof.REHEARSED if begun and all(each.how for each in begun) else Proof.VERIFIED

    def encode(self) -> bytes:
        """JSON for people and programs, the same for the same savepoint."""
        return kinded.encode(_KIND, _VERSION, self)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Fields of a newer release are left out. Raises ``DocumentUnreadable``, also for a newer version."""
        try:
            return kinded.decode(_KIND, _VERSION, data, cls)
        except ValueError as error:
            raise DocumentUnreadable(
                f"the manifest of a savepoint cannot be read: {error}",
                where=where,
                remedy="Restore the object, or upgrade; or use another savepoint",
            ) from None
