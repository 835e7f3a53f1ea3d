"""What a driver is made of here, in the place of pages and directories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.doubles.blobs import MemoryBlobStore
from understudy.protocol.counters import Counts
from understudy.protocol.gate import State, View
from understudy.protocol.token import NONE

#: The last part of ``--scratch``.
SCRATCH = "scratch"


class Gate:
    """A ``GateWriter`` without a page."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.view = View(State.STANDBY, NONE)

    def publish(self, view: View) -> None:
        # guard: gate-refuses-other-tokens
        self.view.check(view)
        self.view = view

    def discard(self) -> None:
        pass


class Scratch(MemoryBlobStore):
    """Where rehearsals write. ``discarded`` is told of each prefix as it goes."""

    discarded: Callable[[str], None] = staticmethod(lambda _: None)

    async def discard(self, prefix: str) -> int:
        if any(name.startswith(prefix) for name in self.stored):
            self.discarded(prefix)
        return await super().discard(prefix)


class NoCounters:
    """A ``CountersPage`` on which nothing is ever counted: there is no fence."""

    @classmethod
    def create(cls, path: Path) -> NoCounters:
        del path
        return cls()

    def read(self) -> Counts:
        return Counts()


class Desk:
    """``Workspaces`` and ``Workspace`` in one: nothing here has files."""

    gate, scratch = Path("gate"), Path("scratch")

    def __init__(self, *_: object) -> None:
        pass

    def sweep(self) -> None:
        pass

    remove = sweep
