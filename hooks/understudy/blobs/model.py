"""Blobs: small objects with names that are written once, in a directory or a bucket. What is stored in them is not known here.

No rename, no append, no replacement: what stands under a name stays what it is until it is deleted. So a writer whose answer was lost
writes again, and two writers of one name learn which of them was first.
"""

from __future__ import annotations

import re
from typing import Protocol

from understudy.errors import SettingsError

_PART = r"[A-Za-z0-9_][A-Za-z0-9._:+@=~-]*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
#: Bytes of a part, for it becomes a file's name; of a whole name, below a prefix of its own in a bucket.
_LONGEST_PART, _LONGEST = 200, 700


class BlobStore(Protocol):
    """Where blobs are. Every method raises ``DocumentError`` (also ``AccessDenied`` and ``ServerUnreachable``) where that place gives no
    answer; what was asked for may have been done then, and asking again is right.

    ``place``: a URL without secrets, for people.
    """

    place: str

    async def read(self, name: str) -> bytes | None:
        """What stands under ``name``; ``None`` for nothing. Never a part of it."""
        ...

    async def create(self, name: str, data: bytes) -> bytes:
        """Put ``data`` under ``name`` if nothing stands there; what stands there then: other data where another writer was first."""
        ...

    async def delete(self, name: str) -> None:
        """Nothing stands under ``name`` afterwards. Not guaranteed: that a writer who is under way does not create it again."""
        ...

    async def names(self, prefix: str) -> list[str]:
        """All names that begin with ``prefix`` (empty, or up to a slash), in order. A name that is created meanwhile may be missing."""
        ...

    async def directories(self, prefix: str) -> list[str]:
        """The first part of what follows ``prefix`` (which ends with a slash) in each name that has more parts after it, once and in order."""
        ...

    async def discard(self, prefix: str) -> int:
        """Nothing is left of what began with ``prefix``, which ends with a slash, by any name; how many there were.

        Not guaranteed: that a writer who is under way does not create more, nor that all are gone where this raises.
        """
        ...

    async def close(self) -> None: ...


def check_prefix(prefix: str) -> str:
    """Raises ``SettingsError`` unless everything below ``prefix`` may be discarded: one or more parts of names, and a slash."""
    check_name(prefix.removesuffix("/") if prefix.endswith("/") else "")
    return prefix


def check_name(name: str) -> str:
    """Raises ``SettingsError`` unless ``name`` can be one in every store."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST or max(map(len, name.split("/"))) > _LONGEST_PART:
        raise SettingsError(
            f"{name!r} is no name of a blob",
            remedy=f"Parts of letters, digits and . _ : + @ = ~ - between single slashes, up to {_LONGEST_PART} characters each",
        )
    return name
