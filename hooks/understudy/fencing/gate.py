"""The gate: one page of shared memory that says whether this replica may write *now*.

The supervisor writes it; its driver's Python and JVM read it before every write. A read costs a microsecond and needs no
system call, so it can stand before each file the fence publishes.

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

What it does not do: it cannot stop a write that passed it and was then frozen. The claim in the resource does (DESIGN:
fencing by claim).
"""

from __future__ import annotations

import enum
import mmap
import os
import struct
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from understudy.clock import NEVER, Instant
from understudy.fencing.token import Token

MAGIC = 0x47445355
VERSION = 1
PAGE = 4096

_BODY = struct.Struct("<IIQQqqqqqqI")  # everything before the CRC: 76 bytes
_CRC = struct.Struct("<I")
_SEQUENCE_AT = 8
_SIZE = _BODY.size + _CRC.size

#: How long a reader puts up with a page that is being written before it calls it torn, in seconds.
_TORN_AFTER = 0.005


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
        """Whether the driver's session must be dead by now. A parked driver (nothing of the user's running) has longer."""
        due = self.kill if busy else self.park
        return now.boottime_ns >= due.boottime_ns or now.monotonic_ns >= due.monotonic_ns


def _packed(sequence: int, view: View) -> bytes:
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


class GateWriter:
    """The supervisor's end. Creating one makes a new file; an existing file is an error, because a gate is never reused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sequence = 0
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, PAGE)
            self._page = mmap.mmap(descriptor, PAGE)
        finally:
            os.close(descriptor)
        self.view = View(State.STANDBY, Token(0, 0))
        self.publish(self.view)

    def publish(self, view: View) -> None:
        """Show ``view`` to the driver. Raises ``ValueError`` for anything but REVOKED on a page that is revoked: that is final."""
        self.view.check(view)
        self._sequence += 2
        # An odd sequence first: a reader that meets us half-way, even if we are frozen here for ever, sees a torn page.
        struct.pack_into("<Q", self._page, _SEQUENCE_AT, self._sequence - 1)
        packed = _packed(self._sequence, view)
        self._page[16:_SIZE] = packed[16:]
        self._page[0:_SEQUENCE_AT] = packed[0:_SEQUENCE_AT]
        struct.pack_into("<Q", self._page, _SEQUENCE_AT, self._sequence)
        self.view = view

    def discard(self) -> None:
        """Remove the file once no process of its driver is left."""
        self._page.close()
        self.path.unlink(missing_ok=True)


class GateReader:
    """A driver's end. Once it has read REVOKED it reads nothing else, whatever the page shows later."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._page = mmap.mmap(file.fileno(), PAGE, prot=mmap.PROT_READ)
        self._revoked: View | None = None

    def read(self) -> View | None:
        """The page as it stands, or ``None`` when it is torn or damaged: closed."""
        if self._revoked is None:
            view = self._read()
            if view is None or view.state is not State.REVOKED:
                return view
            self._revoked = view
        return self._revoked

    def _read(self) -> View | None:
        give_up = time.monotonic() + _TORN_AFTER
        while True:
            raw = self._page[0:_SIZE]
            (after,) = struct.unpack_from("<Q", self._page, _SEQUENCE_AT)
            view = _unpacked(raw, after)
            if view is not None or time.monotonic() >= give_up:
                return view
            time.sleep(0.0005)


def _unpacked(raw: bytes, sequence_after: int) -> View | None:
    magic, version, sequence, token, *deadlines, state = _BODY.unpack_from(raw)
    (crc,) = _CRC.unpack_from(raw, _BODY.size)
    if sequence % 2 or sequence != sequence_after or magic != MAGIC or version != VERSION:
        return None
    if crc != zlib.crc32(raw[: _BODY.size]) or not State.STANDBY <= state <= State.REVOKED:
        return None
    close, kill, park = (Instant(*deadlines[at : at + 2]) for at in (0, 2, 4))
    return View(State(state), Token.from_int(token), close, kill, park)
