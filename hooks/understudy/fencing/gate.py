"""The gate: one page of shared memory that says whether this replica may write *now*.

The supervisor writes it; its driver's Python and JVM read it before every write. A read costs a microsecond and needs no
system call, so it can stand before each file the fence publishes. ``protocol/gate.py`` describes the page.

What it does not do: it cannot stop a write that passed it and was then frozen. The claim in the resource does (DESIGN:
fencing by claim).
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

from understudy.protocol.gate import AFTER_SEQUENCE, PAGE, SEQUENCE, SEQUENCE_AT, SIZE, State, View, decode, encode
from understudy.protocol.token import Token

#: How long a reader waits for a page that is being written before it calls the page torn, in seconds.
_TORN_AFTER = 0.005


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
        SEQUENCE.pack_into(self._page, SEQUENCE_AT, self._sequence - 1)
        encoded = encode(view, self._sequence)
        self._page[AFTER_SEQUENCE:SIZE] = encoded[AFTER_SEQUENCE:]
        self._page[0:SEQUENCE_AT] = encoded[0:SEQUENCE_AT]
        SEQUENCE.pack_into(self._page, SEQUENCE_AT, self._sequence)
        self.view = view

    def discard(self) -> None:
        """Remove the file once no process of its driver is left."""
        self._page.close()
        self.path.unlink(missing_ok=True)


class GateReader:
    """A driver's end. Once it has read REVOKED it reads nothing else, even if the page changes later."""

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
            raw = self._page[0:SIZE]
            unmoved = raw[SEQUENCE_AT:AFTER_SEQUENCE] == self._page[SEQUENCE_AT:AFTER_SEQUENCE]
            view = decode(raw) if unmoved else None
            if view is not None or time.monotonic() >= give_up:
                return view
            time.sleep(0.0005)
