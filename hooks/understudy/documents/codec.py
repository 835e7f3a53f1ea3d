"""Values in documents: versioned JSON with a checksum, and never pickle.

A value is one line of canonical JSON (sorted keys, no spaces, ASCII only), so equal values are equal text and can be
compared as text. The checksum detects a value that was edited by hand or damaged on disk. It is no signature: anyone
can compute it. Duplicate keys, NaN and infinities are refused in both directions because two readers may understand
them differently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NoReturn

from understudy.errors import DocumentUnreadable
from understudy.protocol.strict_json import parse

#: Hexadecimal digits of a SHA-256 that are kept: enough to notice damage, short enough for a document of 1 KB.
_DIGITS = 16

_FIELDS = frozenset({"body", "checksum", "kind", "version"})

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(value: object) -> str:
    """The one way to write ``value`` as JSON. Raises ``ValueError`` or ``TypeError`` for what JSON cannot hold."""
    return _ENCODER.encode(value)


def checksum(value: object) -> str:
    """A short SHA-256 of the canonical form of ``value``."""
    return digest(canonical(value).encode("ascii"))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def encode(kind: str, version: int, body: Mapping[str, object]) -> str:
    """``body`` as one line of text that ``decode`` gives back equal, for the same ``kind``.

    Raises ``ValueError`` or ``TypeError`` when ``body`` holds something other than JSON values: that is a mistake of the caller.
    """
    own = dict(body)
    return canonical({"body": own, "checksum": checksum([kind, version, own]), "kind": kind, "version": version})


def decode(
    kind: str, text: str, *, newest: int = 1, where: str = "", revision: str = ""
) -> tuple[int, dict[str, object]]:
    """The version and body of a value. Raises ``DocumentUnreadable`` for anything but an intact value of this kind.

    ``newest`` is the newest version the caller understands; a newer one is refused rather than half understood. ``where`` and
    ``revision`` go into the error as they are, so that the rightful holder can replace what it cannot read.
    """
    place = f"{where} ({kind})" if where else kind
    try:
        value = parse(text)
    except ValueError as error:
        reason = f"the value is not JSON: {error}" if text.strip() else "the value is empty"
        raise DocumentUnreadable(reason, where=place, remedy=_REMEDY, revision=revision) from error

    def refuse(reason: str) -> NoReturn:
        raise DocumentUnreadable(reason, where=place, remedy=_REMEDY, revision=revision)

    if not isinstance(value, dict) or not value.keys() >= _FIELDS:
        refuse("the value is JSON, but not one of ours")
    version, body = value["version"], value["body"]
    if value["kind"] != kind:
        refuse(f"the value is of kind {value['kind']!r}")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1 or not isinstance(body, dict):
        refuse("the value is JSON, but not one of ours")
    if version > newest:
        # Before the checksum: a newer version may well compute another one, and "newer" is the answer that helps.
        refuse(f"the value has version {version}, newer than {newest}, the newest known here; upgrade this replica")
    try:
        expected = checksum([kind, version, body])
    except ValueError:  # 1e400 parses as infinity
        refuse("the value holds a number that is out of range")
    if value["checksum"] != expected:
        refuse("the checksum does not match: the value was damaged or edited")
    return version, body


_REMEDY = "It is taken for neither free nor absent; see docs/operations.md before removing anything"
