"""The first commit of a driver that leads, as the fence's own log tells it: on every file system alike."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import IO, Any, Self

from understudy.driver.gatekeeper import Gatekeeper
from understudy.fencing.gate import State

#: Seconds between two looks into the log.
_LOOK = 0.02


def first_commit(fence_log: Path, gatekeeper: Gatekeeper) -> tuple[str, int] | None:
    """Wait for the first commit under this driver's token: its checkpoint and its batch. ``None`` once leadership is lost."""
    with _Follow(fence_log) as log:
        while gatekeeper.standing() is not State.REVOKED:
            mine = int(gatekeeper.token())
            for written in log.lines():
                root, commits, batch = str(written["path"]).rpartition("/commits/")
                landed = written["op"] == "publish" and written["outcome"] == "accepted"
                if commits and landed and written["token"] == mine:
                    return root, int(batch)
            time.sleep(_LOOK)
    return None


class _Follow:
    """New lines of a log of JSON that somebody else appends to, from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def lines(self) -> list[dict[str, Any]]:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return []
        *whole, self._rest = (self._rest + self._file.read()).split(b"\n")
        return [json.loads(line) for line in whole]
