"""The pages of shared memory as the other side writes them: the supervisor's for the JVM, the JVM's for the supervisor.

The gate is written with ``struct`` from the documented layout, and not with the package's own writer, so that the two cannot agree on a mistake.
``tests/unit/test_doubles.py`` holds them to the vectors that Python and the JVM share.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from understudy.clock import NEVER, Instant, instant
from understudy.fencing.counters import CountersPage
from understudy.protocol.counters import Counts, encode, path_of

STANDBY, OPEN, CLOSED, REVOKED = 1, 2, 3, 4
MAGIC = 0x47445355


def token(epoch: int, attempt: int = 0) -> int:
    return epoch << 32 | attempt


def later(seconds: float) -> Instant:
    return instant().plus(seconds)


@dataclass
class GatePage:
    """The supervisor's side of a gate, and Python's side of the activity page."""

    path: Path
    sequence: int = 0
    counters: CountersPage = field(init=False)

    def __post_init__(self) -> None:
        self.path.write_bytes(bytes(4096))
        Path(f"{self.path}.activity").write_bytes(bytes(4096))
        self.counters = CountersPage.create(path_of(self.path))
        self.write(STANDBY)

    def page(
        self,
        state: int,
        number: int = 0,
        close: Instant = NEVER,
        kill: Instant = NEVER,
        park: Instant = NEVER,
        *,
        magic: int = MAGIC,
        version: int = 1,
    ) -> bytes:
        self.sequence += 2
        body = struct.pack(
            "<IIQQqqqqqqI",
            magic,
            version,
            self.sequence,
            number,
            close.boottime_ns,
            close.monotonic_ns,
            kill.boottime_ns,
            kill.monotonic_ns,
            park.boottime_ns,
            park.monotonic_ns,
            state,
        )
        return body + struct.pack("<I", zlib.crc32(body))

    def put(self, data: bytes, offset: int = 0) -> None:
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, data, offset)
        finally:
            os.close(descriptor)

    def write(
        self, state: int, number: int = 0, close: Instant = NEVER, kill: Instant = NEVER, park: Instant = NEVER
    ) -> None:
        data = self.page(state, number, close, kill, park)
        self.put(struct.pack("<Q", self.sequence - 1), 8)  # odd: being written
        self.put(data[:8])
        self.put(data[16:], 16)
        self.put(data[8:16], 8)

    def busy(self, count: int) -> None:
        with Path(f"{self.path}.activity").open("r+b") as out:
            out.write(struct.pack("<Q", count))


def counters(path: Path, *, refused: int = 0, committed_ms: int = 0) -> CountersPage:
    """A counters page as a JVM leaves it. A real one's is read in ``tests/spark/test_fence_counters.py``."""
    made = CountersPage.create(path)
    with path.open("r+b") as out:
        out.write(encode(Counts(refused=refused, committed_at=committed_ms / 1000, committed_batch=0)))
    return made
