"""``understudy submit`` and ``understudy run --submitted`` as commands, and what others do with what was submitted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.cli.main import app
from understudy.cli.where import NoCluster
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import (
    DocumentUnreadable,
    IdentityConflict,
    RequestRefused,
    ScriptProblem,
    SettingsError,
    UnderstudyError,
)
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.supervisor.submitted import WAITS

#: Seconds for what takes one or two, on a machine that is busy.
PATIENCE = 90.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text("print(1)")
    (tmp_path / "lib.py").write_text("x = 1")
    return tmp_path


def jobs(home: Path) -> JobStore:
    return JobStore(FilesystemDocumentStore(home / "ha" / "c" / "documents", 5.0), "c-c", "c", "job.py")


def job(home: Path) -> Job:
    found = asyncio.run(jobs(home).read())
    assert found is not None
    return found


def places(home: Path, storage: bool = True) -> list[str]:
    at = ["--ha-storage", str(home / "storage")] if storage else []
    return ["--ha-dir", str(home / "ha"), "--cluster-id", "c", *at]


def invoke(home: Path, command: str, *words: str, storage: bool = True) -> Any:
    return CliRunner().invoke(app, [command, *places(home, storage), *words])


def submit(home: Path, *words: str) -> Any:
    return invoke(home, "submit", *words, str(home / "job.py"))


def done(told: Any) -> str:
    assert told.exit_code == 0, told.exception
    return str(told.output)


def refused(error: type[UnderstudyError], told: Any) -> str:
    assert type(told.exception) is error, told.exception
    return str(told.exception)


def artifacts(home: Path) -> set[str]:
    found = (home / "storage" / "artifacts").rglob("*")
    return {str(path.relative_to(home / "storage")) for path in found if path.is_file()}


def end(home: Path) -> None:
    async def ended() -> None:
        led = await jobs(home).begin_attempt(1, "a", nothing_granted, Generation())
        await jobs(home).end(led.token, Status.FINISHED, "")

    asyncio.run(ended())


class TestSubmit:
    def test_it_is_stored_once_and_status_tells_of_it(self, home: Path) -> None:
        said = done(submit(home, "--py-files", str(home / "lib.py")))
        assert "submission 1 is job.py; replicas that start from now on run it" in said
        assert len(artifacts(home)) == 3
        told = json.loads(done(submit(home, "--json", "--py-files", str(home / "lib.py"))))
        assert (told["submission"], told["changed"]) == (1, False)
        shown = invoke(home, "status", storage=False)
        assert "NEW" in shown.output
        assert "submitted job.py (submission 1) by " in shown.output

    def test_the_environment_says_where_for_every_command(self, home: Path) -> None:
        here = {"HA_DIR": home / "ha", "CLUSTER_ID": "c", "JOB_ID": "trains", "HA_STORAGE": home / "storage"}
        environ = {f"UNDERSTUDY_{name}": str(value) for name, value in here.items()}
        told = done(CliRunner().invoke(app, ["submit", "--json", str(home / "job.py")], env=environ))
        assert json.loads(told)["job"] == f"job trains of cluster c below {home}/ha"
        assert len(artifacts(home)) == 2
        shown = CliRunner().invoke(app, ["status"], env=environ).output
        assert "trains" in shown
        assert "submitted job.py (submission 1)" in shown
        elsewhere = CliRunner().invoke(app, ["status", "--ha-dir", str(home / "other")], env=environ)
        assert "no cluster" in refused(NoCluster, elsewhere)

    def test_status_tells_which_one_leads(self, home: Path) -> None:
        for number in (1, 2):
            done(submit(home, "--conf", f"a={number}"))
        asyncio.run(_led(jobs(home), Generation(1, "d", "", 1)))
        assert "submitted job.py (submission 2)" in done(invoke(home, "status", storage=False))
        assert "; submission 1 leads" in done(invoke(home, "status", storage=False))

    @pytest.mark.parametrize(
        ("words", "error", "said"),
        [
            ([], SettingsError, "understudy submit: no script is given"),
            (["missing.py"], ScriptProblem, "missing.py: no such script"),
            (["--master", "local", "job.py"], SettingsError, "--master: where a job runs"),
            (["--job-id", "lock", "job.py"], SettingsError, "--job-id: c-lock is the name of another document"),
            (["--job-id", "No_Label", "job.py"], SettingsError, "--job-id: 'No_Label' is not a DNS label"),
            (["--jars", "missing.jar", "job.py"], SettingsError, "--jars: missing.jar is no file"),
            (["--sausage", "job.py"], SettingsError, "--sausage: neither an option"),
        ],
    )
    def test_bad_input_is_one_error_and_nothing_is_written(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], error: type[UnderstudyError], said: str
    ) -> None:
        monkeypatch.chdir(home)
        assert said in refused(error, invoke(home, "submit", *words))
        assert not (home / "ha").exists()
        assert not (home / "storage").exists()

    def test_it_needs_a_name_and_a_place_that_is_one(self, home: Path) -> None:
        script = str(home / "job.py")
        at = ["submit", "--ha-dir", str(home / "ha")]
        told = CliRunner().invoke(app, [*at, "--ha-storage", str(home / "storage"), script])
        assert "--cluster-id: it has to be named" in refused(SettingsError, told)
        told = CliRunner().invoke(app, [*at, "--cluster-id", "c", script])
        assert "--ha-storage: what is submitted is kept there" in refused(SettingsError, told)
        told = CliRunner().invoke(app, [*at, "--cluster-id", "c", "--ha-storage", "gs://b/p", script])
        assert "--ha-storage: 'gs://b/p' is no place for blobs" in refused(SettingsError, told)
        told = CliRunner().invoke(app, [*at, "--cluster-id", "../c", "--ha-storage", str(home / "storage"), script])
        assert "--cluster-id: '../c' is not a DNS label" in refused(SettingsError, told)
        assert not (home / "ha").exists()

    def test_a_cluster_id_of_another_job_is_refused(self, home: Path) -> None:
        done(submit(home))
        before = artifacts(home)
        refused(IdentityConflict, submit(home, "--job-id", "other"))
        assert artifacts(home) == before

    def test_a_bucket_that_does_not_answer_is_an_error_before_a_job_is_bound(self, home: Path) -> None:
        (home / "storage").write_text("a file")
        told = submit(home)
        assert told.exception.exit_code == 4
        assert not (home / "ha").exists()


class TestWhatGoes:
    def test_gc_shows_and_removes_what_no_replica_will_run(self, home: Path) -> None:
        for number in (1, 2):
            done(submit(home, "--conf", f"a={number}"))
        torn = home / "storage" / "artifacts" / "c" / "c" / "7" / "torn"
        torn.parent.mkdir()
        torn.write_text("of a submission that broke off")
        told = done(invoke(home, "gc")).splitlines()
        assert told == [
            "would remove artifacts/c/c/1/ in artifacts: replicas that start run submission 2",
            "would remove artifacts/c/c/7/ in artifacts: replicas that start run submission 2",
            "nothing was changed; --remove removes it",
        ]
        assert job(home).submissions.last == 2
        done(invoke(home, "gc", "--remove"))
        assert {name.split("/")[3] for name in artifacts(home)} == {"2"}
        assert job(home).submissions.last == 7, "no submitter of a number that was removed is let in"
        assert "submission 8 is job.py" in done(submit(home, "--conf", "a=3"))

    def test_purge_removes_all_of_it(self, home: Path) -> None:
        done(submit(home))
        refused(RequestRefused, invoke(home, "purge", "--remove"))
        end(home)
        assert "would remove artifacts: 2 below artifacts/c/c/" in done(invoke(home, "purge"))
        done(invoke(home, "purge", "--remove"))
        assert artifacts(home) == set()
        refused(IdentityConflict, submit(home))
        assert artifacts(home) == set()


class TestBackup:
    def test_what_was_submitted_is_there_again_before_the_document_that_names_it(self, home: Path) -> None:
        done(submit(home, "--py-files", str(home / "lib.py")))
        file, other = home / "backup.json", home / "other"
        assert "3 files of what was submitted" in done(invoke(home, "backup", str(file)))
        at = ["restore", str(file), "--ha-dir", str(other / "ha")]
        told = CliRunner().invoke(app, at)
        assert "0 results and 3 files that were submitted" in refused(SettingsError, told)
        told = CliRunner().invoke(app, [*at, "--ha-storage", str(other / "storage")])
        assert done(told).index("artifacts/c/c/1/") < done(told).index("c-c")
        assert artifacts(other) == artifacts(home)
        assert job(other).submissions == job(home).submissions
        assert "nothing was changed" in done(CliRunner().invoke(app, [*at, "--ha-storage", str(other / "storage")]))

    def test_a_copy_without_it_is_read_by_releases_that_do_not_know_it(self, home: Path) -> None:
        done(submit(home))
        assert "artifacts" in self.taken(home, storage=True)
        assert "artifacts" not in self.taken(home, storage=False)

    def taken(self, home: Path, *, storage: bool) -> dict[str, Any]:
        file = home / f"backup-{storage}.json"
        done(invoke(home, "backup", str(file), storage=storage))
        return dict(json.loads(file.read_text()))

    def test_what_was_spoiled_is_neither_copied_nor_restored(self, home: Path) -> None:
        done(submit(home))
        done(invoke(home, "backup", str(home / "whole.json")))
        for name in artifacts(home):
            (home / "storage" / name).chmod(0o600)
            (home / "storage" / name).write_text("tampered")
        refused(DocumentUnreadable, invoke(home, "backup", str(home / "spoiled.json")))
        assert not (home / "spoiled.json").exists()
        told = invoke(home, "restore", str(home / "whole.json"))
        assert told.exit_code != 0
        file = home / "whole.json"
        file.write_text(file.read_text().replace("cHJpbnQoMSk=", "cHJpbnQoMik="))
        assert "damaged" in refused(SettingsError, CliRunner().invoke(app, ["restore", str(file)]))


async def _led(store: JobStore, generation: Generation) -> None:
    await store.begin_attempt(1, "a", nothing_granted, generation)


class Replica:
    """``understudy run --submitted``, as a process."""

    def __init__(self, home: Path, *words: str, storage: bool = True) -> None:
        command = [sys.executable, "-m", "understudy.cli.main", "run", "--submitted", *places(home, storage), *words]
        self.process = subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


@pytest.fixture
def waiting(home: Path) -> Iterator[Replica]:
    """One for which nothing was submitted, as status tells."""
    replica = Replica(home)
    until = time.monotonic() + PATIENCE
    while WAITS not in invoke(home, "status", storage=False).output:
        assert replica.process.poll() is None, replica.ended()
        assert time.monotonic() < until
        time.sleep(0.1)
    yield replica
    if replica.process.poll() is None:
        replica.process.kill()
        replica.ended()


class TestARunOfIt:
    @pytest.mark.parametrize(
        ("words", "storage", "said"),
        [
            (["job.py"], True, "--submitted: what was submitted is to run, and job.py"),
            ([], False, "--submitted: there is no HA storage to fetch it from"),
            (["--sausage"], True, "--sausage: neither an option"),
        ],
    )
    def test_bad_input_is_one_error(self, home: Path, words: list[str], storage: bool, said: str) -> None:
        code, told = Replica(home, *words, storage=storage).ended()
        assert (code, len(told.splitlines())) == (2, 1), told
        assert said in told
        assert not (home / "ha" / "c" / "documents").exists()

    def test_one_that_waits_says_so_and_ends_when_it_is_told_to(self, home: Path, waiting: Replica) -> None:
        os.kill(waiting.process.pid, signal.SIGTERM)
        assert waiting.ended()[0] == 0
        assert WAITS not in invoke(home, "status", storage=False).output

    def test_what_was_tampered_with_is_never_run(self, home: Path) -> None:
        (home / "job.py").write_text(f"open({str(home / 'ran')!r}, 'w')")
        done(submit(home))
        for name in artifacts(home):
            path = home / "storage" / name
            if path.read_text().startswith("open("):
                path.write_text(path.read_text().replace("ran", "RAN"))
        code, told = Replica(home).ended()
        assert code == DocumentUnreadable.exit_code, told
        assert "job.py of submission 1 is not what was submitted" in told.splitlines()[-1]
        assert not list(home.glob("[rR][aA][nN]"))
        assert not list((home / "ha" / "c" / "artifacts").iterdir()), "nor is it kept"
        assert WAITS not in invoke(home, "status", storage=False).output
