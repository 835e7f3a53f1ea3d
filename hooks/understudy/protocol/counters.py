"""The counters page: what the fence has let through and refused, in shared memory.

The driver's JVM is its only writer (``Counters.java``); the driver's Python and the supervisor read it (``fencing/counters.py``).

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

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x43445355
VERSION = 1
PAGE = 4096

#: Where the sequence stands, and what follows it: eight bytes.
SEQUENCE_AT = 8
AFTER_SEQUENCE = 16

_HEAD = struct.Struct("<IIQ4Q")
_COMMITS = struct.Struct("<qqQQqI")
_COMMITS_AT = 64
_ROOT_AT = _COMMITS_AT + _COMMITS.size


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


def encode(counts: Counts, sequence: int = 0) -> bytes:
    """A whole page. A root that does not fit is cut before the character that would pass its end."""
    first = counts.first or Commit(0, "", 0)
    root = first.root.encode(errors="replace")[: PAGE - _ROOT_AT].decode(errors="ignore").encode()
    at_ms = round(counts.committed_at * 1000)
    head = _HEAD.pack(MAGIC, VERSION, sequence, counts.accepted, counts.refused, counts.unknown, counts.commits)
    commits = _COMMITS.pack(
        at_ms, counts.committed_batch if at_ms else 0, counts.committed_token, first.token, first.batch, len(root)
    )
    return (head.ljust(_COMMITS_AT, b"\0") + commits + root).ljust(PAGE, b"\0")


def decode(raw: bytes) -> Counts | None:
    """What a copy of the page says; ``None`` for a copy that is torn, too short or of another version.

    *Not* guaranteed: that the page stood still while it was copied. A reader compares the sequence in the copy with the page's.
    """
    if len(raw) < PAGE:
        return None
    magic, version, sequence, accepted, refused, unknown, commits = _HEAD.unpack_from(raw)
    if magic != MAGIC or version != VERSION or sequence % 2:
        return None
    at_ms, batch, token, first_token, first_batch, length = _COMMITS.unpack_from(raw, _COMMITS_AT)
    root = raw[_ROOT_AT : _ROOT_AT + length].decode(errors="replace")
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
