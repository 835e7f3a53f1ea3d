"""One structured sentence per decision: the log line, and what tests assert on.

``log.say("granted", "leading from epoch 7", epoch=7)`` prints ``12:00:01.123 granted: leading from epoch 7  epoch=7``,
or one JSON object per line when ``UNDERSTUDY_LOG=json``. What is said is cut and its secrets are masked here, for the stream and for
listeners alike: an error quotes what it likes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from understudy.redaction import presentable


@dataclass(frozen=True, slots=True)
class Event:
    event: str
    sentence: str
    facts: dict[str, object]


def _print(stream: TextIO, event: Event, *, as_json: bool) -> bool:
    """False when the line could not be written."""
    now = time.time()
    if as_json:
        line = json.dumps(
            {"time": round(now, 3), "event": event.event, "message": event.sentence, **event.facts}, default=str
        )
    else:
        stamp = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
        facts = " ".join(f"{key}={value}" for key, value in event.facts.items())
        line = f"{stamp} {event.event}: {event.sentence}" + (f"  {facts}" if facts else "")
    try:
        stream.write(line + "\n")
        stream.flush()
    except (OSError, ValueError):  # a full disk, a reader that is gone, a closed stream: deciding goes on
        return False
    return True


@dataclass(slots=True)
class Log:
    """Says events to a stream and to listeners. ``facts`` (replica, job) are added to every line.

    Never raises into the decision it tells of: lines that cannot be written are counted in ``unwritten``, and that they are missing
    is said with the next one that can.
    """

    facts: dict[str, object] = field(default_factory=dict)
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    as_json: bool = field(default_factory=lambda: os.environ.get("UNDERSTUDY_LOG") == "json")
    unwritten: int = 0

    def say(self, event: str, sentence: str, **facts: object) -> None:
        told = self.tell(event, sentence, **facts)
        if not _print(self.stream, told, as_json=self.as_json):
            self.unwritten += 1
        elif self.unwritten:
            missing, self.unwritten = self.unwritten, 0
            gap = Event("log-gap", f"{missing} lines before this one could not be written", dict(self.facts))
            _print(self.stream, gap, as_json=self.as_json)

    def tell(self, event: str, sentence: str, **facts: object) -> Event:
        """To listeners only: an error that ends the process, which prints it by itself."""
        clean = {name: presentable(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        said = Event(event, presentable(sentence), {**self.facts, **clean})
        for listener in self.listeners:
            listener(said)
        return said
