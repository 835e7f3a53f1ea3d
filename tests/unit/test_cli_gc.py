"""``understudy gc``: what it shows, what it removes, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.cli.main import app
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import JobNotBegun, SettingsError
from understudy.ha.generation import Generation
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.results import JobResult, JobResultStore
from understudy.ha.savepoints import Proof, Savepoint, Savepoints
from understudy.protocol.token import HIGHEST

RESULT = JobResult("c", "j", "1", "FINISHED", "the script ended", 1, 1, 10.0, 20.0)


async def awaited(work: Awaitable[object]) -> None:
    await work


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Run 3 is under way; runs 0 to 2 have results, and that of run 2 is dirty beside a clean one. Replica ``a`` lives, ``b`` is gone."""
    documents = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    storage = FilesystemBlobStore(tmp_path / "storage", 5.0)
    scratch = FilesystemBlobStore(tmp_path / "scratch", 5.0)
    results = JobResultStore(storage, "c", "j")

    async def begin() -> None:
        replicas = ReplicaStore(documents, "c-replicas")
        await replicas.join("j")
        await replicas.publish(Replica("a", "leader", False, "", 0, 0.0, "", "", 0, 1, "host", 1, "boot", 0.0))
        await JobStore(documents, "c-j", "j", "job.py").begin_attempt(9, "a", nothing_granted, Generation(), run="3")
        for number in range(3):
            await results.commit(replace(RESULT, run=str(number), token=number + 1))
        await storage.create("job-results/c/j/2/result_DIRTY.json", replace(RESULT, run="2").encode())
        for name in ("c/a/q0.0/state", "c/b/q0.0/state", "d/x/q0.0/state"):
            await scratch.create(name, b"")

    asyncio.run(begin())
    return tmp_path


def gc(home: Path, *words: str) -> Any:
    places = ["--ha-dir", str(home), "--ha-storage", str(home / "storage"), "--scratch", str(home / "scratch")]
    return CliRunner().invoke(app, ["gc", *places, *words])


def files(home: Path) -> set[str]:
    return {
        str(path.relative_to(home))
        for place in ("storage", "scratch")
        for path in (home / place).rglob("*")
        if path.is_file()
    }


def test_it_shows_what_would_go_and_removes_it_when_that_is_said(home: Path) -> None:
    before = files(home)
    told = gc(home)
    assert told.exit_code == 0
    assert told.output.splitlines() == [
        "would remove c/b/ in scratch: replica b is gone",
        "would remove job-results/c/j/2/result_DIRTY.json in results: its result is clean by now",
        "nothing was changed; --remove removes it",
    ]
    assert files(home) == before
    told = gc(home, "--remove")
    assert told.exit_code == 0
    assert before - files(home) == {"scratch/c/b/q0.0/state", "storage/job-results/c/j/2/result_DIRTY.json"}
    assert gc(home, "--remove").output == "nothing is left to remove\n"


def test_older_results_go_only_where_that_is_said(home: Path) -> None:
    told = json.loads(gc(home, "--keep-results", "1", "--remove", "--json").output)
    assert told["removed"]
    assert [each["name"] for each in told["leftovers"]][2:] == ["job-results/c/j/0/", "job-results/c/j/1/"]
    assert {name for name in files(home) if name.startswith("storage")} == {"storage/job-results/c/j/2/result.json"}


def test_files_of_a_savepoint_that_has_failed_go_and_those_of_a_complete_one_stay(home: Path) -> None:
    storage = FilesystemBlobStore(home / "storage", 5.0)
    jobs = JobStore(FilesystemDocumentStore(home / "c" / "documents", 5.0), "c-j", "j", "job.py")
    known = (Savepoint(1, "", 0.0, Proof.FAILED), Savepoint(2, "", 0.0, Proof.VERIFIED))

    async def save() -> None:
        for number in (1, 2):
            await storage.create(f"savepoints/c/j/{number}/firsts/metadata", b"{}")
        await jobs.change(HIGHEST, lambda job: replace(job, savepoints=Savepoints(known)))

    asyncio.run(save())
    assert "would remove savepoints/c/j/1/ in savepoints: savepoint 1 has failed" in gc(home).output
    gc(home, "--remove")
    assert {name for name in files(home) if "savepoints" in name} == {"storage/savepoints/c/j/2/firsts/metadata"}


def test_what_another_cluster_uses_is_not_touched_and_not_found(home: Path) -> None:
    told = gc(home, "--cluster-id", "d", "--remove")
    assert isinstance(told.exception, SettingsError)
    assert "no cluster 'd'" in str(told.exception)
    assert "scratch/d/x/q0.0/state" in files(home)


def test_a_place_that_is_none_changes_nothing(home: Path) -> None:
    before = files(home)
    told = gc(home, "--scratch", "gs://bucket/scratch", "--remove")
    assert type(told.exception) is SettingsError
    assert str(told.exception).startswith("--scratch: ")
    assert files(home) == before


def test_without_the_jobs_record_it_is_unknown_what_is_needed(home: Path) -> None:
    for path in (home / "c" / "documents").glob("c-j@*"):
        path.unlink()
    before = files(home)
    told = gc(home, "--remove")
    assert type(told.exception) is JobNotBegun
    assert "Restore it first" in str(told.exception)
    assert files(home) == before
