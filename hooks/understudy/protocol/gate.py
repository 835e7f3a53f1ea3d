"""The gate's page: whether this replica may write *now*.

The supervisor writes it; its driver's Python and JVM read it before every write (``fencing/gate.py``, ``Gate.java``).

Layout, little-endian, 4096 bytes, one file per driver process, never reused:

====== ====== ==========================================================================
offset type   meaning
====== ====== ==========================================================================
0      u32    magic ``0x47445355``
4      u32    version, 1
8      u64    sequence, odd while a write is under way (seqlock)
16     u64    token, ``epoch << 32 | attempt``
24     i64 ×2 close: the gate is shut from here on (CLOCK_BOOTTIME, CLOCK_MONOTONIC, ns)
40     i64 ×2 kill: a driver with user code running is killed here
56     i64 ×2 park: a parked driver is killed here
72     u32    state: 1 standby, 2 open, 3 closed, 4 revoked (final: writer and readers leave it no more)
76     u32    CRC-32 of bytes 0 to 76 as finally written
====== ====== ==========================================================================

A torn page, a wrong CRC and a missing file all read as closed. The gate is open only while *both* clocks are before the close
deadline: CLOCK_MONOTONIC stands still while a machine sleeps, CLOCK_BOOTTIME is what the lease is counted on.
"""

from __future__ import annotations

import enum
import struct
import zlib
from dataclasses import dataclass

from understudy.clock import NEVER, Instant
from understudy.protocol.token import Token

MAGIC = 0x47445355
VERSION = 1
PAGE = 4096

_BODY = struct.Struct("<IIQQqqqqqqI")  # everything before the CRC: 76 bytes
_CRC = struct.Struct("<I")
#: What a reader copies: everything up to and with the CRC.
SIZE = _BODY.size + _CRC.size

#: The sequence, and where it is. A writer sets it to an odd value first and to the final one last.
SEQUENCE = struct.Struct("<Q")
SEQUENCE_AT = 8
AFTER_SEQUENCE = SEQUENCE_AT + SEQUENCE.size


class State(enum.IntEnum):
    STANDBY = 1
    OPEN = 2
    CLOSED = 3
    REVOKED = 4


@dataclass(frozen=True, slots=True)
class View:
    """One consistent reading of the page."""

    state: State
    token: Token
    close: Instant = NEVER
    kill: Instant = NEVER
    park: Instant = NEVER

    def standing(self, now: Instant) -> State:
        """The state that counts at ``now``: an open gate past either deadline is closed."""
        if self.state is State.OPEN and not (
            now.boottime_ns < self.close.boottime_ns and now.monotonic_ns < self.close.monotonic_ns
        ):
            return State.CLOSED
        return self.state

    def check(self, following: View) -> None:
        """Raises ``ValueError`` when ``following`` may not be shown after this one: a revoked gate never opens again."""
        if self.state is State.REVOKED and following.state is not State.REVOKED:
            message = f"the gate of token {self.token} is revoked for good and cannot become {following.state.name}"
            raise ValueError(message)

    def kill_due(self, now: Instant, *, busy: bool) -> bool:
        """Whether the driver's session must be dead by now. A parked driver (no user code is running) has longer."""
        due = self.kill if busy else self.park
        return now.boottime_ns >= due.boottime_ns or now.monotonic_ns >= due.monotonic_ns


def encode(view: View, sequence: int) -> bytes:
    """The first ``SIZE`` bytes of the page; the rest is zero. ``sequence`` is even: the write is complete."""
    body = _BODY.pack(
        MAGIC,
        VERSION,
        sequence,
        int(view.token),
        view.close.boottime_ns,
        view.close.monotonic_ns,
        view.kill.boottime_ns,
        view.kill.monotonic_ns,
        view.park.boottime_ns,
        view.park.monotonic_ns,
        view.state,
    )
    return body + _CRC.pack(zlib.crc32(body))


def decode(raw: bytes) -> View | None:
    """What a copy of the page says; ``None`` for a copy that is torn, damaged, too short or of another version: closed.

    *Not* guaranteed: that the page stood still while it was copied. A reader compares the sequence in the copy with the page's.
    """
    if len(raw) < SIZE:
        return None
    magic, version, sequence, token, *deadlines, state = _BODY.unpack_from(raw)
    (crc,) = _CRC.unpack_from(raw, _BODY.size)
    if sequence % 2 or magic != MAGIC or version != VERSION or crc != zlib.crc32(raw[: _BODY.size]):
        return None
    close, kill, park = (Instant(*deadlines[at : at + 2]) for at in (0, 2, 4))
    try:
        return View(State(state), Token.from_int(token), close, kill, park)
    except ValueError:  # no such state, or no such token
        return None
