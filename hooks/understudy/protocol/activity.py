"""The activity page: how much of the user's code runs that the gate cannot hold, counted by process.

A driver is several processes: its Python, the JVM, and what the script forks. Each counts in its own slot (``fencing/activity.py``,
``ActivityPage.java``), so that a child neither overwrites its parent's count nor keeps the driver busy once it is dead.

Layout, little-endian, 4096 bytes, next to the gate (``<gate>.activity``), zeroed by the supervisor:

====== ======= =========================================================================================
offset type    meaning
====== ======= =========================================================================================
0      u64     count of processes that found no slot
32 · n u64 ×3  slot n, from 1 to 127: pid, start time of that process (field 22 of ``/proc/<pid>/stat``), count
====== ======= =========================================================================================

A slot belongs to the process with that pid *and* that start time. What stands in the slot of a dead process does not count, and
another process may take the slot.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

PAGE = 4096
SLOT_BYTES = 32
#: Where the slots begin.
SLOTS = range(SLOT_BYTES, PAGE, SLOT_BYTES)

_COUNT = struct.Struct("<Q")
_SLOT = struct.Struct("<QQQ")
_COUNT_IN_SLOT = 16

#: A copy of the page, or a mapping of it.
Readable: TypeAlias = bytes | bytearray | mmap.mmap
Writable: TypeAlias = bytearray | mmap.mmap


def path_of(gate: Path) -> Path:
    """Where the activity page of the driver behind ``gate`` is."""
    return gate.with_name(gate.name + ".activity")


class Slot(NamedTuple):
    """``started`` in clock ticks since the boot. ``active`` is the count. ``pid`` 0: the slot was never taken."""

    pid: int
    started: int
    active: int


def shared(page: Readable) -> int:
    """The count of the processes without a slot."""
    (count,) = _COUNT.unpack_from(page, 0)
    return int(count)


def put_shared(page: Writable, count: int) -> None:
    _COUNT.pack_into(page, 0, count)


def slot(page: Readable, at: int) -> Slot:
    return Slot._make(_SLOT.unpack_from(page, at))


def put_slot(page: Writable, at: int, slot: Slot) -> None:
    _SLOT.pack_into(page, at, *slot)


def put_count(page: Writable, at: int, count: int) -> None:
    """One aligned word: a reader sees the old count or the new one."""
    _COUNT.pack_into(page, at + _COUNT_IN_SLOT, count)


def running(page: Readable, started_at: Callable[[int], int | None]) -> int:
    """The sum over the processes that live. ``started_at`` gives the start time of a pid, ``None`` for one that is dead."""
    count = shared(page)
    for at in SLOTS:
        pid, started, here = _SLOT.unpack_from(page, at)
        if here and started_at(pid) == started:
            count += here
    return count
