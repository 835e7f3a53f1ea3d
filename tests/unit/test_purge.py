"""``understudy purge``: what goes for good, what stays, what is refused, and that it may break off anywhere."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run as execute
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.blobs import MemoryBlobStore
from tests.doubles.epochs import nothing_granted
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.cli.main import app
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Document, Outcome, Unknown
from understudy.errors import DocumentError, IdentityConflict, JobNotBegun, RequestRefused, SettingsError
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.purge import Purge
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.results import JobResult, JobResultStore
from understudy.ha.savepoints import Proof, Savepoint, Savepoints
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.names import Names
from understudy.protocol.token import HIGHEST

RESULT = JobResult("c", "j", "1", "FINISHED", "the script ended", 1, 1, 10.0, 20.0)
NAMES = Names("c", "j")
KEPT = {"storage/job-results/d/j/1/result.json", "scratch/d/x/q0.0/state"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Job ``j`` of cluster ``c`` has FINISHED; cluster ``d`` has a result and scratch, too."""
    documents = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    storage = FilesystemBlobStore(tmp_path / "storage", 5.0)
    scratch = FilesystemBlobStore(tmp_path / "scratch", 5.0)

    async def begin() -> None:
        replicas = ReplicaStore(documents, NAMES.replicas)
        await replicas.join("j")
        await replicas.publish(Replica("a", "leader", False, "", 0, 0.0, "", "", 0, 1, "host", 1, "boot", 0.0))
        jobs = JobStore(documents, NAMES.job_document, "j", "job.py")
        begun = await jobs.begin_attempt(9, "a", nothing_granted, Generation())
        await jobs.end(begun.token, Status.FINISHED, "the script ended")
        await JobResultStore(storage, "c", "j").commit(RESULT)
        await JobResultStore(storage, "d", "j").commit(RESULT)
        for name in ("c/a/q0.0/state", "d/x/q0.0/state"):
            await scratch.create(name, b"")

    asyncio.run(begin())
    return tmp_path


def documents_of(home: Path) -> FilesystemDocumentStore:
    return FilesystemDocumentStore(home / "c" / "documents", 5.0)


def purge(home: Path, *words: str) -> Any:
    places = ["--ha-dir", str(home), "--ha-storage", str(home / "storage"), "--scratch", str(home / "scratch")]
    return CliRunner().invoke(app, ["purge", "--cluster-id", "c", *places, *words])


def blobs(home: Path) -> set[str]:
    return {
        str(path.relative_to(home))
        for place in ("storage", "scratch")
        for path in (home / place).rglob("*")
        if path.is_file()
    }


def buried(home: Path) -> list[bool]:
    async def read(name: str) -> bool:
        document = await documents_of(home).read(name)
        assert document is not None
        return document.buried

    return [asyncio.run(read(name)) for name in (NAMES.job_document, NAMES.replicas)]


def test_it_shows_what_would_go_and_removes_it_when_that_is_said(home: Path) -> None:
    before = blobs(home)
    told = purge(home)
    assert told.exit_code == 0, told.output
    assert told.output.splitlines() == [
        "would remove scratch: 1 below c/",
        "would remove results: 1 below job-results/c/j/",
        "would remove document c-replicas, which becomes a tombstone",
        "would remove document c-j, which becomes a tombstone",
        "nothing was changed; --remove removes it, for good",
    ]
    assert (blobs(home), buried(home)) == (before, [False, False])
    told = purge(home, "--remove", "--json")
    assert told.exit_code == 0, told.output
    assert [json.loads(told.output)[key] for key in ("cluster", "removed")] == ["c", True]
    assert (blobs(home), buried(home)) == (KEPT, [True, True])
    assert purge(home, "--remove").output == "nothing is left to remove\n"


def test_its_cluster_id_is_used_up(home: Path) -> None:
    purge(home, "--remove")
    with pytest.raises(IdentityConflict, match="were removed for good"):
        asyncio.run(ReplicaStore(documents_of(home), NAMES.replicas).join("j"))
    before = {path.name: path.read_bytes() for path in (home / "c" / "documents").iterdir()}
    (home / "job.py").write_text("")
    command = [sys.executable, "-m", "understudy.cli.main", "run", "--ha-dir", str(home), "--cluster-id", "c"]
    started = execute(
        [*command, "--job-id", "j", str(home / "job.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert started.returncode == IdentityConflict.exit_code, started.stderr
    assert "--cluster-id: the HA data of this cluster id were removed for good. Choose another one" in started.stderr
    assert {path.name: path.read_bytes() for path in (home / "c" / "documents").iterdir()} == before


@pytest.mark.parametrize("command", ["resume", "suspend", "cancel"])
def test_nothing_that_is_asked_of_it_afterwards_brings_it_back(home: Path, command: str) -> None:
    jobs = JobStore(documents_of(home), NAMES.job_document, "j", "job.py")
    begun = asyncio.run(jobs.begin_attempt(10, "b", nothing_granted, Generation(), run="2"))
    asyncio.run(jobs.failed_once(begun.token, 1.0, 600.0, "its driver failed"))
    asyncio.run(jobs.end(begun.token, Status.FAILED, "its driver failed"))
    assert purge(home, "--remove").exit_code == 0
    told = CliRunner().invoke(app, [command, "--cluster-id", "c", "--ha-dir", str(home)])
    assert isinstance(told.exception, IdentityConflict), told.output
    assert buried(home) == [True, True]
    assert purge(home, "--remove").output == "nothing is left to remove\n"


def test_what_has_not_ended_is_refused_and_nothing_is_changed(home: Path) -> None:
    jobs = JobStore(documents_of(home), NAMES.job_document, "j", "job.py")
    asyncio.run(jobs.begin_attempt(10, "b", nothing_granted, Generation(), run="2"))
    before = blobs(home)
    told = purge(home, "--remove")
    assert isinstance(told.exception, RequestRefused)
    assert "the job is RUNNING" in str(told.exception)
    assert (blobs(home), buried(home)) == (before, [False, False])


def test_savepoints_are_disposed_of_before(home: Path) -> None:
    storage = FilesystemBlobStore(home / "storage", 5.0)
    asyncio.run(storage.create("savepoints/c/j/7/manifest.json", b"{}"))
    before = blobs(home)
    told = purge(home, "--remove")
    assert isinstance(told.exception, RequestRefused)
    assert "savepoints/c/j/7/manifest.json" in str(told.exception)
    assert (blobs(home), buried(home)) == (before, [False, False])


@pytest.mark.parametrize("storage", [(), ("--ha-storage", "storage")])
def test_a_savepoint_that_the_record_knows_keeps_it_wherever_its_files_are(
    home: Path, storage: tuple[str, ...]
) -> None:
    jobs = JobStore(documents_of(home), NAMES.job_document, "j", "job.py")
    one = Savepoint(7, "file:///elsewhere/savepoints/c/j/7", 0.0, Proof.REHEARSED)
    asyncio.run(jobs.change(HIGHEST, lambda job: replace(job, savepoints=Savepoints((one,)))))
    words = [str(home / each) if each == "storage" else each for each in storage]
    told = CliRunner().invoke(app, ["purge", "--cluster-id", "c", "--ha-dir", str(home), "--remove", *words])
    assert isinstance(told.exception, RequestRefused)
    assert "the job has savepoint 7, in file:///elsewhere/savepoints/c/j/7" in str(told.exception)
    assert buried(home) == [False, False]


def test_an_ha_storage_that_is_not_mounted_here_is_not_taken_for_an_empty_one(home: Path) -> None:
    (home / "storage").rename(home / "elsewhere")
    told = purge(home, "--remove")
    assert isinstance(told.exception, RequestRefused)
    assert "this machine does not have that HA storage" in str(told.exception)
    assert buried(home) == [False, False]


def test_bad_input(home: Path) -> None:
    told = CliRunner().invoke(app, ["purge", "--ha-dir", str(home)])
    assert isinstance(told.exception, SettingsError)
    assert "--cluster-id" in str(told.exception)
    told = CliRunner().invoke(app, ["purge", "--ha-dir", str(home), "--cluster-id", "x"])
    assert isinstance(told.exception, SettingsError)
    (home / "e" / "documents").mkdir(parents=True)
    told = CliRunner().invoke(app, ["purge", "--ha-dir", str(home), "--cluster-id", "e"])
    assert isinstance(told.exception, JobNotBegun)


class _Impatient(FilesystemDocumentStore):
    """Its first so many burials land, and the answer to the next one is lost."""

    answered = 0

    async def bury(self, seen: Document) -> Outcome:
        outcome = await super().bury(seen)
        self.answered -= 1
        return outcome if self.answered >= 0 else Unknown("no answer")


@pytest.mark.parametrize("answered", [0, 1])
def test_where_it_breaks_off_the_next_one_goes_on(home: Path, answered: int) -> None:
    async def script() -> None:
        documents = _Impatient(home / "c" / "documents", 5.0)
        documents.answered = answered
        blobs = MemoryBlobStore({f"job-results/c/j/{run}/result.json": RESULT.encode() for run in range(3)})
        with pytest.raises(DocumentError, match="not buried"):
            await removed(Purge(NAMES, documents, [documents], blobs))
        documents.answered = 10
        await removed(Purge(NAMES, documents, [documents], blobs))
        assert blobs.stored == {}

    asyncio.run(script())
    assert buried(home) == [True, True]


async def removed(purge: Purge) -> None:
    await purge.check()
    async for _ in purge.remove():
        pass


def test_services_that_are_closed_and_cleaned_up_leave_the_other_jobs_alone(home: Path) -> None:
    async def script() -> None:
        closed = []

        async def close() -> None:
            closed.append(True)

        documents = documents_of(home)
        storage = FilesystemBlobStore(home / "storage", 5.0)
        scratch = FilesystemBlobStore(home / "scratch", 5.0)
        await HighAvailabilityServices(documents, documents, documents, {}, close, storage, scratch).close_and_cleanup(
            NAMES
        )
        assert closed == [True]

    asyncio.run(script())
    assert (blobs(home), buried(home)) == (KEPT, [True, True])
