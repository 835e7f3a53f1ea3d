"""What was submitted for a job: entry ``submitted`` of its document, a pointer to files in HA storage (``artifacts``).

Each submission has a number, and so has the directory of its files. A number is *given* by the write that names the files, or *taken back*
by one that names none, before what stands in its directory is removed. It is used once: a submitter that comes late is refused, and a removal
that comes late meets no file that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from understudy.documents import codec
from understudy.documents.model import Document
from understudy.errors import DocumentUnreadable
from understudy.protocol import typed

ENTRY = "submitted"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Submission:
    """``manifest``: the SHA-256 of the file that says what it is made of. ``script``: the script's name. ``by`` and ``at`` (s since 1970) are
    for people.
    """

    number: int
    manifest: str
    script: str
    by: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Submissions:
    """``last``: the highest number that was given or taken back. ``current``: what a replica that starts now runs. ``readable``: false where they
    could not be read; then none is written either.
    """

    last: int = 0
    current: Submission | None = None
    readable: bool = True

    def given(self, one: Submission) -> Self:
        return type(self)(one.number, one)

    def taken_back(self, number: int) -> Self:
        """With no number up to ``number`` to be given any more."""
        return type(self)(max(self.last, number), self.current)

    @classmethod
    def of(cls, document: Document) -> Self:
        """What stands in ``document``. What cannot be read must not keep a job from running that was started already."""
        text = document.entries.get(ENTRY)
        if text is None:
            return cls()
        try:
            body = codec.decode(ENTRY, text)[1]
            last, current = body["last"], body["current"]
            if type(last) is not int or last < 0 or not isinstance(current, dict | None):
                return cls(readable=False)
            return cls(last, None if current is None else typed.build_known(Submission, current))
        except (DocumentUnreadable, LookupError, ValueError):
            return cls(readable=False)

    def entries(self, before: Submissions) -> Mapping[str, str | None]:
        """What to write where ``before`` stands."""
        if self == before or not self.readable:
            return {}
        current = None if self.current is None else asdict(self.current)
        return {ENTRY: codec.encode(ENTRY, _VERSION, {"last": self.last, "current": current})}
