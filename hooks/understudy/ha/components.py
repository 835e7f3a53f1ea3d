"""Where the components of a job's leader serve: entries ``component.<id>`` of the job's document.

Each is written once per grant, as a rule in the write that claims the job. An entry counts for as long as the job is run under the epoch
it was written under; the next claim removes it. The job itself is a component without an entry of this kind: its claim is its
confirmation, and its record says who leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from understudy.documents import codec
from understudy.documents.model import Document
from understudy.election.retrieval import ComponentLeader
from understudy.errors import DocumentUnreadable
from understudy.protocol import typed
from understudy.protocol.token import Token

#: The components that there are: the job, and what serves probes and metrics.
JOB, ENDPOINT = "job", "endpoint"
PREFIX = "component."
_KIND = "component"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Body:
    token: int
    holder: str
    address: str


@dataclass(frozen=True, slots=True)
class Components:
    """``known``: by id, in order. One that cannot be read is not among them; it stays in the document until its component is written."""

    known: tuple[tuple[str, ComponentLeader], ...] = ()

    def leader(self, component: str) -> ComponentLeader | None:
        return dict(self.known).get(component)

    def confirmed(self, component: str, leader: ComponentLeader) -> Self:
        return type(self)(tuple(sorted({**dict(self.known), component: leader}.items())))

    def under(self, epoch: int, holder: str, leaders: Mapping[str, ComponentLeader]) -> Self:
        """As a claim of ``holder`` under ``epoch`` leaves them: ``leaders``, and none of another holder or an earlier epoch."""
        current = {name: each for name, each in self.known if (each.token.epoch, each.holder) == (epoch, holder)}
        return type(self)(tuple(sorted({**current, **leaders}.items())))

    @classmethod
    def of(cls, document: Document) -> Self:
        """Of an entry that cannot be read the component has no known leader, until the next grant writes it again."""
        found = ((name.removeprefix(PREFIX), each) for name, each in _entries(document))
        return cls(tuple(sorted((name, each) for name, each in found if isinstance(each, ComponentLeader))))

    def entries(self, before: Components) -> dict[str, str | None]:
        """What to write where ``before`` stands."""
        was, now = dict(before.known), dict(self.known)
        gone: dict[str, str | None] = {PREFIX + name: None for name in was.keys() - now.keys()}
        return gone | {PREFIX + name: _encode(each) for name, each in now.items() if was.get(name) != each}


def unreadable(document: Document) -> list[tuple[str, DocumentUnreadable]]:
    """Entries that are there and cannot be read, each with the reason."""
    return [(name, each) for name, each in _entries(document) if isinstance(each, DocumentUnreadable)]


def _entries(document: Document) -> Iterator[tuple[str, ComponentLeader | DocumentUnreadable]]:
    for name, text in document.entries.items():
        if name.startswith(PREFIX):
            try:
                yield name, read(text)
            except DocumentUnreadable as error:
                yield name, error


def read(text: str) -> ComponentLeader:
    """Raises ``DocumentUnreadable``. Fields of a newer release are left out."""
    try:
        body = typed.build_known(_Body, codec.decode(_KIND, text)[1])
        return ComponentLeader(Token.from_int(body.token), body.holder, body.address)
    except ValueError as error:
        raise DocumentUnreadable(str(error)) from None


def _encode(leader: ComponentLeader) -> str:
    body = {"token": int(leader.token), "holder": leader.holder, "address": leader.address}
    return codec.encode(_KIND, _VERSION, body)
