"""``understudy claims move``: what a person says and is told. ``tests/contract/test_moving.py`` has what it does."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from subprocess import run as execute
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.cli.main import app
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import IdentityConflict, JobNotBegun, RequestRefused, SettingsError, UnderstudyError
from understudy.ha.generation import Generation
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore


def documents(home: Path) -> FilesystemDocumentStore:
    return FilesystemDocumentStore(home / "c" / "documents", 5.0)


def files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*@*")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A job that was led, below ``old``."""

    async def begin() -> None:
        store = documents(tmp_path / "old")
        await ReplicaStore(store, "c-replicas").join("j")
        await JobStore(store, "c-j", "j", "job.py").begin_attempt(3, "a", nothing_granted, Generation())

    asyncio.run(begin())
    return tmp_path


def move(home: Path, *words: str, to: str = "new") -> Any:
    places = ["--ha-dir", str(home / "old"), *(["--to-ha-dir", str(home / to)] if to else [])]
    return CliRunner().invoke(app, ["claims", "move", "--cluster-id", "c", *places, *words])


def test_the_job_is_at_the_new_place_and_repeating_it_changes_nothing(home: Path) -> None:
    done = move(home)
    assert done.exit_code == 0, done.exception
    assert done.stdout.splitlines()[-1] == f"--ha filesystem --lock file, below {home / 'new'}: replicas may start"
    job = asyncio.run(JobStore(documents(home / "new"), "c-j", "j", "job.py").read())
    assert job is not None
    assert job.token.epoch == 3
    before = files(home)
    assert move(home).stdout == "it is there already; nothing was changed\n"
    assert json.loads(move(home, "--json").stdout) == {"cluster": "c", "done": []}
    assert files(home) == before


def test_a_replica_at_the_old_place_is_refused_with_where_the_job_has_gone(home: Path) -> None:
    move(home)
    before = files(home)
    (home / "job.py").write_text("")
    command = [sys.executable, "-m", "understudy.cli.main", "run", "--cluster-id", "c", "--job-id", "j"]
    started = execute(
        [*command, "--ha-dir", str(home / "old"), str(home / "job.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert started.returncode == IdentityConflict.exit_code, started.stderr
    assert (
        f"c-replicas: the job has moved to --ha filesystem --lock file, below {home / 'new'}. Start its replicas"
        in started.stderr
    )
    assert files(home) == before


@pytest.mark.parametrize(
    "command", [["suspend"], ["resume"], ["cancel"], ["pause"], ["backup", "copy.json"], ["purge"]]
)
def test_a_command_at_the_old_place_changes_nothing_and_says_where_the_job_has_gone(
    home: Path, command: list[str]
) -> None:
    move(home)
    before = files(home)
    told = CliRunner().invoke(app, [command[0], "--ha-dir", str(home / "old"), "--cluster-id", "c", *command[1:]])
    assert isinstance(told.exception, IdentityConflict)
    assert "the job has moved to --ha filesystem" in str(told.exception)
    assert files(home) == before


def test_status_at_the_old_place_says_where_the_job_has_gone(home: Path) -> None:
    move(home)
    told = CliRunner().invoke(app, ["status", "--ha-dir", str(home / "old"), "--cluster-id", "c"])
    assert (
        f"problem: c-replicas: the job has moved to --ha filesystem --lock file, below {home / 'new'}." in told.stdout
    )
    assert isinstance(told.exception, IdentityConflict), "exit code 5, as every other command there"
    among = CliRunner().invoke(app, ["status", "--ha-dir", str(home / "old"), "--cluster-id", "c", "--json"])
    assert json.loads(among.stdout)["status"] == "UNKNOWN"


def test_a_move_that_was_begun_refuses_a_start_at_the_new_place(home: Path) -> None:
    """As after a kill behind its first write."""
    from understudy.documents.model import Content
    from understudy.ha.moved import Moved, State

    words = f"--ha filesystem, below {home / 'old'}"
    arriving = Moved(State.ARRIVING, "m", words, "here", "file")
    asyncio.run(documents(home / "new").create("c-replicas", Content({"moved": arriving.encode()})))
    with pytest.raises(IdentityConflict, match="is being moved here from .*old, and has not arrived"):
        asyncio.run(ReplicaStore(documents(home / "new"), "c-replicas").join("j"))
    assert move(home).exit_code == 0
    asyncio.run(ReplicaStore(documents(home / "new"), "c-replicas").join("j"))


@pytest.mark.parametrize(
    ("words", "to", "error", "said"),
    [
        ([], "", SettingsError, "--to-ha: where it shall go is not said"),
        ([], "old", SettingsError, "--to-ha: it is the place where the job is"),
        (["--to-lock", "file"], "", SettingsError, "--to-ha: it is the place where the job is"),
        (["--to-lock", "lease"], "new", SettingsError, "--to-lock: 'lease' is no lock of --ha filesystem"),
        (["--to-ha", "nowhere"], "new", SettingsError, "--to-ha: there are no services 'nowhere'"),
        (["--to-ha", "zookeeper"], "", SettingsError, "--to-ha-address: --ha zookeeper needs a place"),
        (["--cluster-id", "d"], "new", SettingsError, "--cluster-id: no cluster 'd'"),
        (["--cluster-id", ""], "new", SettingsError, "--cluster-id: it has to be named"),
    ],
)
def test_a_setting_that_is_wrong_is_named_and_nothing_is_changed(
    home: Path, words: list[str], to: str, error: type[UnderstudyError], said: str
) -> None:
    before = files(home)
    told = move(home, *words, to=to)
    assert isinstance(told.exception, error), told.exception
    assert said in str(told.exception)
    assert files(home) == before


def test_replicas_that_run_are_named(home: Path) -> None:
    replica = Replica("b", "standby", True, "", 0, 0.0, "", "", 1, 1, "a", 0, "", 0.0)
    asyncio.run(ReplicaStore(documents(home / "old"), "c-replicas").publish(replica))
    before = files(home)
    told = move(home)
    assert isinstance(told.exception, RequestRefused)
    assert "replicas run: b. End them first" in str(told.exception)
    assert files(home) == before
    assert move(home, "--replicas-ended").exit_code == 0


def test_a_cluster_that_never_ran_has_nothing_to_move(tmp_path: Path) -> None:
    documents(tmp_path / "old")
    assert isinstance(move(tmp_path).exception, JobNotBegun)
