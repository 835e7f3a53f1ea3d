"""Hints from the kernel that a file has appeared in a directory, which replace polling many times a second."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from inotify_simple import INotify, flags


class Notices:
    """Sets ``changed`` when a file whose name starts with ``prefix`` appears in ``directory``.

    Not guaranteed: that it does. Nodes run out of inotify instances (128 per user is common), and another directory may
    take this one's place. Callers therefore also poll, more often when ``heard`` is false. Must be closed.
    """

    def __init__(self, directory: Path, prefix: str, changed: asyncio.Event) -> None:
        self._prefix = prefix
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._inotify: INotify | None = None
        with contextlib.suppress(OSError):
            self._inotify = INotify(nonblocking=True)
            self._inotify.add_watch(directory, flags.CREATE | flags.MOVED_TO | flags.ONLYDIR)
            self._loop.add_reader(self._inotify.fileno(), self._drain)
            return
        self.close()

    @property
    def heard(self) -> bool:
        return self._inotify is not None

    def close(self) -> None:
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _drain(self) -> None:
        assert self._inotify is not None
        events = list(self._inotify.read(timeout=0))
        if any(event.name.startswith(self._prefix) or event.mask & flags.Q_OVERFLOW for event in events):
            self._changed.set()
