"""The fence's logs of dead replicas: a few stay, the others go, and a living replica's are never touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from understudy.processes import Alive
from understudy.supervisor.fence_logs import KEPT_VARIABLE, path_of, prune


def logs(home: Path, *holders: str) -> None:
    """The first one's is the oldest; each was rotated once."""
    (home / "log").mkdir(parents=True, exist_ok=True)
    for age, holder in enumerate(holders):
        for path in (path_of(home, holder), Path(f"{path_of(home, holder)}.1")):
            path.write_text("{}\n")
            os.utime(path, (1000 + age, 1000 + age))


def left(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "log").iterdir())


def of(*holders: str) -> list[str]:
    return sorted(f"fence-{holder}.jsonl{end}" for holder in holders for end in ("", ".1"))


def test_the_newest_of_dead_replicas_stay_with_the_own_and_those_of_the_living(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEPT_VARIABLE, "2")
    logs(tmp_path, "own", "pod-uid_lives", "a", "b", "c", "d")
    (tmp_path / "log" / "of something else").write_text("")
    alive = Alive(tmp_path / "alive" / "lives")
    Alive(tmp_path / "alive" / "a").leave()
    (tmp_path / "alive" / "b").write_text("a file that no process holds")
    prune(tmp_path, "own")
    assert left(tmp_path) == sorted([*of("own", "pod-uid_lives", "c", "d"), "of something else"])
    alive.leave()
    prune(tmp_path, "own")
    assert left(tmp_path) == sorted([*of("own", "c", "d"), "of something else"])


def test_by_itself_a_machine_keeps_eight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEPT_VARIABLE, raising=False)
    logs(tmp_path, *(f"h{number:02}" for number in range(30)))
    prune(tmp_path, "own")
    assert left(tmp_path) == of(*(f"h{number:02}" for number in range(22, 30)))


def test_a_machine_without_logs_has_none_to_prune(tmp_path: Path) -> None:
    prune(tmp_path, "own")
