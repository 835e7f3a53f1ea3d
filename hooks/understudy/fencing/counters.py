"""The counters page: what the fence has let through and refused, in shared memory.

The driver's JVM writes it, and nobody else; the driver's Python and the supervisor read it. Programs read counts here and never
from the fence's log, which is for people: bounded, rotated, and not written at all on a full disk.

Layout, little-endian, 4096 bytes, the file ``<gate>.counters``, one per driver process like the gate itself:

====== ====== ==========================================================================
offset type   meaning
====== ====== ==========================================================================
0      u32    magic ``0x43445355``
4      u32    version, 1
8      u64    sequence of bytes 64 and up, odd while they are written (seqlock)
16     u64    accepted: writes that landed
24     u64    refused: writes that were turned away
32     u64    unknown: writes whose answer was lost; they may have landed, or may yet
40     u64    commits: batches whose commit landed
64     i64    last commit: milliseconds since 1970; 0: none yet
72     i64    its batch
80     u64    its token, ``epoch << 32 | attempt``
88     u64    first commit under the newest token that committed anything: that token; 0: none yet
96     i64    its batch
104    u32    length of its root in bytes
108    bytes  its root, UTF-8, cut at the end of the page
====== ====== ==========================================================================

The four counts are aligned words, each right by itself at any time. What stands behind the sequence is read as a whole or not at all:
a writer that was killed within it leaves what was read before.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MAGIC = 0x43445355
VERSION = 1
PAGE = 4096

_HEAD = struct.Struct("<II")
_SEQUENCE_AT = 8
_COUNTS = struct.Struct("<4Q")
_COUNTS_AT = 16
_COMMITS = struct.Struct("<qqQQqI")
_COMMITS_AT = 64
_ROOT_AT = _COMMITS_AT + _COMMITS.size
#: How long a reader puts up with a page that is being written, in seconds.
_TORN_AFTER = 0.005


def path_of(gate: Path) -> Path:
    """Where the counters of the driver behind ``gate`` are."""
    return gate.with_name(gate.name + ".counters")


@dataclass(frozen=True, slots=True)
class Commit:
    token: int
    root: str
    batch: int


@dataclass(frozen=True, slots=True)
class Counts:
    """``committed_at``: seconds since 1970 of the last commit; 0 before one. ``first``: of the newest token that committed."""

    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    commits: int = 0
    committed_at: float = 0.0
    committed_batch: int = -1
    committed_token: int = 0
    first: Commit | None = None


class CountersPage:
    """A reader's mapping. It stays readable when the file has been removed, and takes no descriptor."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._page = mmap.mmap(file.fileno(), PAGE, prot=mmap.PROT_READ)
        self._last = Counts()

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new page, all zero. Raises ``FileExistsError``: like its gate, it is never used again."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, _HEAD.pack(MAGIC, VERSION) + bytes(PAGE - _HEAD.size))
        finally:
            os.close(descriptor)
        return cls(path)

    def read(self) -> Counts:
        """As it stands. Never raises: what cannot be read is as it was read before."""
        give_up = time.monotonic() + _TORN_AFTER
        while True:
            raw = self._page[:]
            (after,) = struct.unpack_from("<Q", self._page, _SEQUENCE_AT)
            counts = _unpacked(raw, after, self._last)
            if counts is not None:
                self._last = counts
                return counts
            if time.monotonic() >= give_up:
                return self._last
            time.sleep(0.0005)


def _unpacked(raw: bytes, sequence_after: int, before: Counts) -> Counts | None:
    if _HEAD.unpack_from(raw) != (MAGIC, VERSION):
        return before
    (sequence,) = struct.unpack_from("<Q", raw, _SEQUENCE_AT)
    if sequence % 2 or sequence != sequence_after:
        return None
    at_ms, batch, token, first_token, first_batch, length = _COMMITS.unpack_from(raw, _COMMITS_AT)
    root = raw[_ROOT_AT : _ROOT_AT + length].decode(errors="replace")
    accepted, refused, unknown, commits = _COUNTS.unpack_from(raw, _COUNTS_AT)
    return Counts(
        accepted,
        refused,
        unknown,
        commits,
        committed_at=at_ms / 1000,
        committed_batch=batch if at_ms else -1,
        committed_token=token,
        first=Commit(first_token, root, first_batch) if first_token else None,
    )
