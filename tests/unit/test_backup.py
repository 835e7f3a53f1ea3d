"""``understudy backup`` and ``restore``: round trips, and each thing that is refused with nothing changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.cli.main import app
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Content, Document
from understudy.election.records import Attempt, GrantEntry
from understudy.errors import (
    DocumentUnreadable,
    JobNotBegun,
    RequestRefused,
    SettingsError,
    UnderstudyError,
)
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.requests import Action, Request
from understudy.ha.results import JobResult, JobResultStore
from understudy.protocol.token import Token

RESULT = JobResult("c", "j", "sunday", "FINISHED", "the script ended", int(Token(1, 1)), int(Token(1, 1)), 1.0, 2.0)


@dataclass
class Home:
    """A machine's HA directory, with the HA storage in it."""

    path: Path

    @property
    def documents(self) -> FilesystemDocumentStore:
        return FilesystemDocumentStore(self.path / "c" / "documents", 5.0)

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.documents, "c-j", "j", "job.py")

    @property
    def replicas(self) -> ReplicaStore:
        return ReplicaStore(self.documents, "c-replicas")

    @property
    def storage(self) -> Path:
        return self.path / "storage"

    @property
    def results(self) -> JobResultStore:
        return JobResultStore(FilesystemBlobStore(self.storage, 5.0), "c", "j")

    async def lead(self) -> None:
        """Run ``monday`` runs under token 2.1, after one that has a result."""
        await self.replicas.join("j")
        entry = Replica("a", "leader", False, "", 0, 0.0, "", "", 0, 1, "host", 1, "boot", 0.0)
        await self.replicas.publish(entry)
        await self.jobs.begin_attempt(2, "a", nothing_granted, Generation(), run="monday", now=10.0)
        await self.results.commit(RESULT)

    async def hold_lock(self, number: int, lease: float = 3.0) -> None:
        """One renewal; ``lease`` in seconds."""
        seen = await self.documents.read("c-lock")
        grant = GrantEntry(2, "a", f"nonce-{number}")
        from understudy.documents.model import LeaderRecord

        sent = Attempt("c-lock", seen, grant, LeaderRecord("a", lease, "", "", 0), 0.0, acquires=False).content
        await (self.documents.create("c-lock", sent) if seen is None else self.documents.replace(seen, sent))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    asyncio.run(made.lead())
    return made


@pytest.fixture
def other(tmp_path: Path) -> Home:
    return Home(tmp_path / "other")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backup.json"


def run(home: Home, command: str, file: Path, *words: str, storage: bool = True) -> Any:
    at = ["--ha-storage", str(home.storage)] if storage else []
    return CliRunner().invoke(app, [command, str(file), "--ha-dir", str(home.path), *at, *words])


def done(home: Home, command: str, file: Path, *words: str) -> str:
    told = run(home, command, file, *words)
    assert told.exit_code == 0, told.exception
    return str(told.output)


def refused(error: type[UnderstudyError], told: Any) -> str:
    assert type(told.exception) is error, told.exception
    return str(told.exception)


def test_what_was_copied_is_there_again_and_tokens_go_on(home: Home, other: Home, file: Path) -> None:
    assert "2 documents and 1 results" in done(home, "backup", file)
    assert "wrote c-j, c-replicas, job-results/c/j/sunday/result.json" in done(other, "restore", file)

    async def check() -> None:
        assert await other.jobs.read() == await home.jobs.read()
        assert await other.replicas.job() == "j"
        assert await other.replicas.begun()
        assert await other.replicas.read() == [], "what replicas say of themselves is not copied"
        assert await other.results.all() == [RESULT]
        job = await other.jobs.begin_attempt(3, "b", nothing_granted, Generation(), run="monday")
        assert job.token == Token(3, 1)

    asyncio.run(check())


def test_what_was_asked_of_a_job_is_not_asked_again(home: Home, other: Home, file: Path) -> None:
    asyncio.run(cancel(home))
    done(home, "backup", file)
    done(other, "restore", file)
    job = asyncio.run(other.jobs.read())
    assert job is not None
    assert job.requests.under_way is None


async def cancel(home: Home) -> None:
    await home.jobs.ask(Request("1", Action.CANCEL, by="ann", at=1.0))


def test_restoring_twice_changes_nothing_the_second_time(home: Home, other: Home, file: Path) -> None:
    done(home, "backup", file)
    done(other, "restore", file)
    body = json.loads(done(other, "restore", file, "--json"))
    assert body == {"cluster": "c", "job": "j", "written": []}


def test_one_that_broke_off_is_gone_on_with(home: Home, other: Home, file: Path) -> None:
    done(home, "backup", file)
    (other.path / "c" / "documents").mkdir(parents=True)
    for each in (home.path / "c" / "documents").glob("c-j@*"):
        (other.path / "c" / "documents" / each.name).write_bytes(each.read_bytes())
    assert "wrote c-replicas, job-results" in done(other, "restore", file)


def test_empty_documents_as_the_bundle_makes_them_are_filled(home: Home, other: Home, file: Path) -> None:
    done(home, "backup", file)
    asyncio.run(create(other, "c-j", Content(labels={"app": "flights"})))
    done(other, "restore", file)
    found = asyncio.run(read(other, "c-j"))
    assert found.labels["app"] == "flights"
    assert asyncio.run(other.jobs.read()) == asyncio.run(home.jobs.read())


async def create(home: Home, name: str, content: Content) -> None:
    await home.documents.create(name, content)


async def read(home: Home, name: str) -> Document:
    found = await home.documents.read(name)
    assert found is not None
    return found


def test_other_data_is_replaced_only_where_that_is_said(home: Home, file: Path) -> None:
    done(home, "backup", file)
    asyncio.run(suspend(home))
    before = asyncio.run(home.jobs.read())
    assert "other HA data already: c-j" in refused(RequestRefused, run(home, "restore", file))
    assert asyncio.run(home.jobs.read()) == before
    assert "wrote c-j\n" in done(home, "restore", file, "--overwrite")
    job = asyncio.run(home.jobs.read())
    assert job is not None
    assert job.status is Status.RUNNING


async def suspend(home: Home) -> None:
    await home.jobs._update(Token(9, 9), lambda job: replace(job, status=Status.SUSPENDED))


def test_a_document_that_is_damaged_is_replaced_where_that_is_said(home: Home, file: Path) -> None:
    done(home, "backup", file)
    newest = max((home.path / "c" / "documents").glob("c-j@*"), key=lambda each: int(each.name.split("@")[1]))
    newest.write_text("damaged")
    refused(DocumentUnreadable, run(home, "backup", file.with_name("another.json")))
    assert not file.with_name("another.json").exists()
    refused(RequestRefused, run(home, "restore", file))
    done(home, "restore", file, "--overwrite")
    job = asyncio.run(home.jobs.read())
    assert job is not None
    assert job.token == Token(2, 1)


def test_documents_are_not_replaced_under_a_leader_that_lives(home: Home, file: Path) -> None:
    async def while_renewed(call: Callable[[], Awaitable[Any]]) -> Any:
        async def renew() -> None:
            for number in range(10_000):
                await home.hold_lock(number)
                await asyncio.sleep(0.02)

        await home.hold_lock(-1)
        renewing = asyncio.create_task(renew())
        try:
            return await call()
        finally:
            renewing.cancel()

    done(home, "backup", file)
    asyncio.run(suspend(home))

    async def restore() -> Any:
        return await asyncio.to_thread(run, home, "restore", file, "--overwrite")

    assert "replica a leads the job" in refused(RequestRefused, asyncio.run(while_renewed(restore)))
    job = asyncio.run(home.jobs.read())
    assert job is not None
    assert job.status is Status.SUSPENDED
    asyncio.run(home.hold_lock(-2, lease=0.3))
    done(home, "restore", file, "--overwrite")  # its lease has run out


def test_a_result_that_is_there_is_not_replaced(home: Home, other: Home, file: Path) -> None:
    done(home, "backup", file)
    asyncio.run(commit(other, replace(RESULT, reason="it was another one")))
    assert "wrote c-j, c-replicas\n" in done(other, "restore", file)
    (kept,) = asyncio.run(other.results.all())
    assert kept.reason == "it was another one"


async def commit(home: Home, result: JobResult) -> None:
    await home.results.commit(result)


def test_results_need_a_place(home: Home, other: Home, file: Path) -> None:
    done(home, "backup", file)
    assert "--ha-storage" in refused(SettingsError, run(other, "restore", file, storage=False))
    assert not (other.path / "c").exists()


def damaged(text: str, what: str) -> str:
    body = json.loads(text)
    match what:
        case "truncated":
            return text[: len(text) // 2]
        case "another kind":
            return json.dumps({**body, "kind": "x"})
        case "a newer version":
            return json.dumps({**body, "version": 2})
        case "edited":
            return json.dumps({**body, "at": 0.0})
        case _:
            return "[]"


@pytest.mark.parametrize("what", ["truncated", "another kind", "a newer version", "edited", "no object"])
def test_what_is_no_whole_backup_changes_nothing(home: Home, other: Home, file: Path, what: str) -> None:
    done(home, "backup", file)
    file.write_text(damaged(file.read_text(), what))
    assert "no backup of ours, or a damaged one" in refused(SettingsError, run(other, "restore", file))
    assert not other.path.exists()


def test_a_file_is_not_written_over_and_has_to_be_there(home: Home, other: Home, file: Path) -> None:
    refused(SettingsError, run(home, "restore", file))
    file.write_text("mine")
    refused(SettingsError, run(home, "backup", file))
    assert file.read_text() == "mine"
    refused(SettingsError, run(home, "backup", file.parent / "nowhere" / "b.json"))
    (other.path / "c" / "documents").mkdir(parents=True)
    refused(JobNotBegun, run(other, "backup", file.with_name("none.json")))
