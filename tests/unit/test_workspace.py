"""A driver's own directories: they end with their owner, and those of a living one are not removed."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.supervisor import workspace
from understudy.supervisor.workspace import OwnDirectory, Workspace, Workspaces, sweep

OWNER = """
import sys
from pathlib import Path
from understudy.supervisor.workspace import OwnDirectory
own = OwnDirectory(Path(sys.argv[1]))
(own.path / "blocks").mkdir()
print(own.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process, and its directory."""
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_a_living_owner_s_directory_is_left_alone(owner: tuple[subprocess.Popen[str], Path], tmp_path: Path) -> None:
    _, path = owner
    sweep(tmp_path)
    assert (path / "blocks").is_dir()


def test_what_a_killed_owner_leaves_goes_with_the_next_sweep(
    owner: tuple[subprocess.Popen[str], Path], tmp_path: Path
) -> None:
    process, path = owner
    process.kill()
    process.wait()
    assert path.is_dir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "understudy-driver-file").write_text("no directory")
    (tmp_path / "blockmgr-1").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "understudy-driver-link").symlink_to(tmp_path / "elsewhere")
    before = sorted(path.name for path in tmp_path.iterdir())
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_it_can_be_read_by_its_user_only_and_is_gone_when_removed(tmp_path: Path) -> None:
    own = OwnDirectory(tmp_path / "new")
    assert own.path.stat().st_mode & 0o777 == 0o700
    own.remove()
    assert list((tmp_path / "new").iterdir()) == []


def test_places_of_the_user_s_choice_are_kept_and_each_driver_has_its_own_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("no directory can be made below a file")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/fast,{tmp_path}/taken/below")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Djava.io.tmpdir=/chosen")
    among = Workspaces(tmp_path / "home")
    one, other = Workspace(among), Workspace(among)

    first, unusable = one.environment["SPARK_LOCAL_DIRS"].split(",")
    assert Path(first).parent == tmp_path / "fast"
    assert unusable == f"{tmp_path}/taken/below"  # for Spark to complain of
    assert one.environment["SPARK_SUBMIT_OPTS"].endswith(" -Djava.io.tmpdir=/chosen")  # the last one counts
    assert not set(one.environment.values()) & set(other.environment.values())

    for each in (one, other):
        each.remove()
    assert list((tmp_path / "fast").iterdir()) == list((tmp_path / "home" / "scratch").iterdir()) == []


@pytest.mark.parametrize("removed", [True, False])
def test_a_sweep_of_another_process_that_holds_a_new_directory_costs_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """It had the lock for a moment, between the making of the directory and ours: the start of a driver failed."""
    lock, swept = workspace._locked, list[Path]()

    def locked(path: Path) -> int:
        if not swept:
            swept.append(path)
            if removed:
                path.rmdir()
            raise BlockingIOError
        return lock(path)

    monkeypatch.setattr(workspace, "_locked", locked)
    own = OwnDirectory(tmp_path)
    assert own.path.is_dir()
    assert own.path not in swept
    own.remove()


def test_a_lock_that_cannot_be_had_is_told_although_the_directory_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(path: Path) -> int:
        path.rmdir()
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(workspace, "_locked", locked)
    with pytest.raises(OSError, match="no locks"):
        OwnDirectory(tmp_path)
