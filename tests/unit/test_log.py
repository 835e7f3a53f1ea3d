"""The log of decisions: it must never be the reason for which one is not made."""

from __future__ import annotations

import io
import json
from pathlib import Path

from understudy.events import Log


class Disk(io.StringIO):
    """A file on a disk that is full for a while."""

    full = False
    kept = 0

    def flush(self) -> None:
        if self.full:
            self.truncate(self.kept)
            self.seek(self.kept)
            raise OSError(28, "No space left on device")
        self.kept = self.tell()


def test_a_full_disk_is_no_reason_not_to_decide() -> None:
    """/dev/full answers ENOSPC to every write. The elector that said "acquired" there was dead, and held its lock for ever."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        log = Log(stream=io.TextIOWrapper(full, write_through=True))
        heard: list[str] = []
        log.listeners.append(lambda event: heard.append(event.event))
        log.say("acquired", "the lock is ours")
        assert heard == ["acquired"]
        assert log.unwritten == 1


def test_a_closed_log_is_none_either() -> None:
    stream = io.StringIO()
    stream.close()
    Log(stream=stream).say("acquired", "the lock is ours")


def test_lines_that_are_missing_are_told_of_once_there_is_room_again() -> None:
    disk = Disk()
    log = Log(stream=disk, as_json=True)
    log.say("one", "written")
    disk.full = True
    log.say("two", "lost")
    log.say("three", "lost")
    disk.full = False
    log.say("four", "written")
    log.say("five", "written")
    assert [json.loads(line)["event"] for line in disk.getvalue().splitlines()] == ["one", "four", "log-gap", "five"]
    assert "2 lines before this one" in disk.getvalue()
