"""What the observer reads of a checkpoint while its writer is at work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testkit import observer


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Its source has logged up to 9; an entry is on its way. Batch 3 has read everything, and is committed."""
    entries = {
        "sources/0": ("8", "9.compact", ".10.6f1c.tmp", ".9.compact.crc"),
        "offsets": ("2", "3", ".3.crc"),
        "commits": ("2", "3", ".4.7d0a.tmp"),
    }
    for log, names in entries.items():
        (tmp_path / log).mkdir(parents=True)
        for name in names:
            (tmp_path / log / name).touch()
    (tmp_path / "offsets" / "3").write_text("\n".join(("v1", "{}", json.dumps({"logOffset": 9}))))
    return tmp_path


def test_entries_on_their_way_and_checksums_are_none(checkpoint: Path) -> None:
    assert [observer.last_entry(checkpoint / log) for log in ("sources/0", "offsets", "commits")] == [9, 3, 3]
    assert observer.all_committed(checkpoint)


def test_what_is_logged_and_in_no_batch_is_not_committed(checkpoint: Path) -> None:
    (checkpoint / "sources" / "0" / "10").touch()
    assert not observer.all_committed(checkpoint)


def test_a_batch_that_is_planned_is_not_committed(checkpoint: Path) -> None:
    (checkpoint / "commits" / "3").unlink()
    assert not observer.all_committed(checkpoint)
