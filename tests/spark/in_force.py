"""Whether the fence was in force, told by what lies on disk afterwards and by nothing that the fence says of itself."""

from __future__ import annotations

from pathlib import Path

#: Logs of a checkpoint, and of a file sink.
_LOGS = ("offsets", "commits", "_spark_metadata")


def unfenced(home: Path, since: float) -> list[Path]:
    """Entries of logs below ``home`` that were written after ``since`` (s since 1970) past the fence.

    Spark's own managers leave a checksum beside each entry on local disks (``.0.crc`` of ``0``); the fence leaves none.
    """
    found = [each for log in _LOGS for each in home.rglob(f"{log}/.*.crc")]
    return [each for each in found if each.stat().st_mtime > since and not _scratch(each.relative_to(home))]


def _scratch(below: Path) -> bool:
    """Rehearsals write to scratch, past the fence on purpose."""
    return any(part.startswith(("scratch", "understudy-")) for part in below.parts)
