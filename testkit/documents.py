"""What the replicas tell each other, read by a stranger: plain JSON files ``<name>@<n>``, the highest n counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Standing:
    """One replica's own words in ``<cluster>-replicas``. ``rehearsed_at`` is s since 1970."""

    holder: str
    role: str
    rehearsed: bool
    how: str
    rounds: int
    rehearsed_at: float
    held: str
    reason: str
    pid: int


def newest(directory: Path, name: str) -> dict[str, Any] | None:
    """The document as it stands; None if there is none, or if it cannot be read just now."""
    numbered = [
        (int(number), path)
        for path in directory.glob(f"{name}@*")
        if (number := path.name.rpartition("@")[2]).isdigit()
    ]
    for _, path in sorted(numbered, reverse=True):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:  # tidied away while a newer one came
            continue
        except ValueError:
            return None
        return found if isinstance(found, dict) else None
    return None


def body(text: str) -> dict[str, Any]:
    """The value inside a versioned, checksummed entry. The checksum is the replicas' business."""
    found: dict[str, Any] = json.loads(text)["body"]
    return found


def standings(home: Path, cluster: str) -> list[Standing]:
    """Every replica that said something, unreadable entries left out."""
    document = newest(home / "documents", f"{cluster}-replicas")
    found = []
    for name, text in (document or {}).get("entries", {}).items():
        if not name.startswith("replica."):
            continue
        try:
            told = body(text)
            found.append(Standing(**{each: told[each] for each in Standing.__dataclass_fields__}))
        except (ValueError, KeyError, TypeError):
            continue
    return found
