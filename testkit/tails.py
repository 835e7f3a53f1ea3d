"""Growing files of JSON lines, read as they grow: the fence's log and the replicas' own events."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testkit.observer import FenceLine, local_path, parse_fence_line

#: How an event begins.
_EVENT = '{"time": '
#: A file is known by its inode and its first bytes: a line of the fence begins with its time in milliseconds.
_HEAD = 32


def whole_lines(text: str) -> list[str]:
    """Of a file that is being written: its last line counts once it has its end."""
    return text[: text.rfind("\n") + 1].splitlines()


@dataclass(slots=True)
class Tail:
    """New whole lines of every file that matches ``pattern`` below ``directory``. A line without its end waits for it.

    A file that is rotated (``<name>.1``) is read to its end under its new name; of one that is rotated twice between two looks the
    rest is lost.
    """

    directory: Path
    pattern: str
    _read: dict[tuple[int, bytes], int] = field(default_factory=dict)  # a name is given again, and so is an inode

    def lines(self) -> Iterator[tuple[Path, str]]:
        for path in sorted(self.directory.glob(f"{self.pattern}*"), reverse=True):  # of one log, the older part first
            try:
                with path.open("rb") as opened:
                    known = os.fstat(opened.fileno()).st_ino, opened.read(_HEAD)
                    opened.seek(self._read.get(known, 0))
                    text = opened.read()
            except FileNotFoundError:
                continue  # rotated or pruned just now
            if len(known[1]) < _HEAD:
                continue  # too little to know it by
            whole = text[: text.rfind(b"\n") + 1]
            self._read[known] = self._read.get(known, 0) + len(whole)
            for line in whole.decode(errors="replace").splitlines():
                yield path, line


@dataclass(slots=True)
class FenceLog:
    """Everything the fences of all replicas said so far, and who wrote which file last. ``pattern``: of their files' names."""

    directory: Path
    pattern: str = "fence-*.jsonl"
    lines: list[FenceLine] = field(default_factory=list)
    _tail: Tail | None = None
    _writers: dict[str, FenceLine] = field(default_factory=dict)
    _last: FenceLine | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> None:
        with self._lock:
            if self._tail is None:
                self._tail = Tail(self.directory, self.pattern)
            for _, text in self._tail.lines():
                line = parse_fence_line(text)
                if line is None:
                    continue
                self.lines.append(line)
                if line.outcome == "accepted" and line.op == "publish":
                    self._writers[local_path(line.path)] = line
                    if self._last is None or line.token >= self._last.token:
                        self._last = line

    def writer(self, path: Path | str) -> FenceLine | None:
        """The accepted write of this file, or of the object of this URL; None if the log knows none (yet)."""
        self.read()
        return self._writers.get(str(path))

    def last_writer(self) -> FenceLine | None:
        """The accepted write of the highest token so far: who leads, as far as files can tell."""
        self.read()
        return self._last

    def in_order(self) -> list[FenceLine]:
        self.read()
        return sorted(self.lines, key=lambda line: line.at)


@dataclass(frozen=True, slots=True)
class Said:
    """One event of a replica's own log. ``at`` is s since 1970 by the replica's clock, which here is the observer's too."""

    at: float
    event: str
    log: Path
    facts: dict[str, Any]


def parse_event(log: Path, line: str) -> Said | None:
    """An event, or None: Spark and the script write to the same stream.

    An event is written at once. What the others write comes in pieces, so an event may follow on a piece without an end.
    """
    try:
        facts = json.loads(line[line.rindex(_EVENT) :])
        return Said(float(facts["time"]), str(facts["event"]), log, facts)
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(slots=True)
class Events:
    """What the replicas say of themselves (``UNDERSTUDY_LOG=json``)."""

    directory: Path
    said: list[Said] = field(default_factory=list)
    _tail: Tail | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> list[Said]:
        with self._lock:
            if self._tail is None:
                self._tail = Tail(self.directory, "replica-*.log")
            for log, text in self._tail.lines():
                event = parse_event(log, text)
                if event is not None:
                    self.said.append(event)
            return list(self.said)

    def last(self, log: Path, *names: str) -> Said | None:
        """The latest event with one of these names in one log."""
        return max((s for s in self.read() if s.log == log and s.event in names), key=lambda s: s.at, default=None)
