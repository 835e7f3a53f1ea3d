"""A document as one piece of JSON: what a file, an S3 object or a znode holds.

Known fields are covered by a checksum. Fields that are not known here are *foreign*: another version of Understudy, or an
operator, put them there; they are not covered, not understood, and kept by every write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, NoReturn, TypeGuard

from understudy.documents import codec
from understudy.documents.model import Content, Document, LeaderRecord, merged
from understudy.errors import DocumentUnreadable
from understudy.protocol.names import BURIED
from understudy.protocol.strict_json import parse

_VERSION = 1
_KNOWN = ("version", "name", "entries", "leader", "labels")

_REMEDY = "It is taken for neither free nor absent; its rightful holder may replace it, an operator may restore it"


@dataclass(frozen=True, slots=True)
class Record:
    """Everything in one revision but the revision itself."""

    entries: Mapping[str, str] = field(default_factory=dict)
    leader: LeaderRecord | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    foreign: Mapping[str, object] = field(default_factory=dict)

    def document(self, name: str, revision: str) -> Document:
        return Document(
            name, MappingProxyType(dict(self.entries)), self.leader, MappingProxyType(dict(self.labels)), revision
        )

    def changed(self, content: Content) -> Record:
        """This record after a write of ``content``. A write on a tombstone makes it a document again."""
        labels = merged({key: value for key, value in self.labels.items() if key != BURIED}, content.labels)
        return replace(self, entries=merged(self.entries, content.entries), leader=content.leader, labels=labels)

    def buried(self) -> Record:
        """This record as a tombstone: one more label, and nothing else changes.

        A store does not know which entry holds a token, and tokens must never restart; so what stands there stays there.
        """
        return replace(self, labels={**self.labels, BURIED: "true"})


def dump(name: str, record: Record) -> bytes:
    known = {
        "version": _VERSION,
        "name": name,
        "entries": dict(record.entries),
        "leader": None if record.leader is None else asdict(record.leader),
        "labels": dict(record.labels),
    }
    return (codec.canonical({**record.foreign, **known, "checksum": codec.checksum(known)}) + "\n").encode("ascii")


def load(name: str, data: bytes, *, where: str, revision: str) -> Record:
    """The record in ``data``. Raises ``DocumentUnreadable`` with the reason; an empty one is told from a damaged one."""

    def refuse(reason: str) -> NoReturn:
        raise DocumentUnreadable(reason, where=where, remedy=_REMEDY, revision=revision)

    if not data.strip():
        refuse(f"the document is empty ({len(data)} bytes): something emptied it, and no store of ours did")
    try:
        value = parse(data)
    except ValueError as error:  # UnicodeDecodeError is one, too
        reason = f"the document is not JSON: {error}"
        raise DocumentUnreadable(reason, where=where, remedy=_REMEDY, revision=revision) from error
    if not isinstance(value, dict) or "checksum" not in value or "version" not in value:
        refuse("the document is JSON, but not one of ours")
    version = value["version"]
    if isinstance(version, int) and version > _VERSION:
        refuse(f"the document has version {version}, newer than {_VERSION}; upgrade this replica")
    known = {key: value.get(key) for key in _KNOWN}
    try:
        # a field that is gone is not one that is null: its name may be what was damaged
        intact = value.keys() >= set(_KNOWN) and codec.checksum(known) == value["checksum"]
    except ValueError:
        intact = False
    if not intact:
        refuse("the checksum does not match: the document was damaged or edited")
    if known["name"] != name:
        refuse(f"the document belongs to {known['name']!r}: it was copied or renamed")
    entries, labels = known["entries"], known["labels"]
    if not _texts(entries) or not _texts(labels):
        refuse("entries or labels are not texts")
    foreign = {key: item for key, item in value.items() if key not in _KNOWN and key != "checksum"}
    return Record(entries, _leader(known["leader"], refuse), labels, foreign)


def _texts(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _leader(value: Any, refuse: Any) -> LeaderRecord | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not value.keys() >= {item.name for item in fields(LeaderRecord)}:
        refuse("the leader record lacks a field")
    numbers = isinstance(value["lease_seconds"], int | float) and isinstance(value["transitions"], int)
    if not numbers or not all(isinstance(value[key], str) for key in ("holder", "acquired", "renewed")):
        refuse("the leader record has a field of the wrong type")
    return LeaderRecord(**{item.name: value[item.name] for item in fields(LeaderRecord)})
