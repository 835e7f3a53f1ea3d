"""``understudy result``: each way a run may stand has its exit code, from the documents and from HA storage."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.cli import result as command
from understudy.cli.main import app
from understudy.cli.where import Where
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import (
    AccessDenied,
    DocumentUnreadable,
    IdentityConflict,
    JobFailed,
    JobNotBegun,
    JobNotEnded,
    ServerUnreachable,
    SettingsError,
    UnderstudyError,
)
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.results import JobResult, JobResultStore
from understudy.protocol.token import Token

LEADER = Token(1, 1)


@pytest.fixture
def jobs(tmp_path: Path) -> JobStore:
    """A job whose run ``monday`` is led."""
    documents = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    made = JobStore(documents, "c-j", "j", "job.py")

    async def begin() -> None:
        await ReplicaStore(documents, "c-replicas").join("j")
        await made.begin_attempt(1, "a", nothing_granted, Generation(), run="monday", now=10.0)

    asyncio.run(begin())
    return made


def result(home: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["result", "--ha-dir", str(home), *words])


async def awaited(work: Awaitable[object]) -> None:
    await work


def end(jobs: JobStore, status: Status, reason: str) -> Coroutine[Any, Any, object]:
    async def ended() -> None:
        if status is Status.FAILED:
            await jobs.failed_once(LEADER, 20.0, 600.0, reason)
        await jobs.end(LEADER, status, reason, 20.0)

    return ended()


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (Status.FINISHED, "the script ended", None),
        (Status.CANCELED, "canceled by ann", None),
        (Status.FAILED, "no memory", JobFailed),
    ],
)
def test_of_a_run_that_has_ended(
    jobs: JobStore, tmp_path: Path, status: Status, reason: str, error: type[UnderstudyError] | None
) -> None:
    asyncio.run(end(jobs, status, reason))
    for words in ((), ("--run-id", "monday")):
        shown = result(tmp_path, *words)
        assert (type(shown.exception) if error else None) is error
        assert shown.stdout == f"run monday of job j: {status}: {reason}\n"
    body = json.loads(result(tmp_path, "--json").stdout)
    assert body == {"job": "j", "run": "monday", "status": status, "reason": reason, "began": 10.0, "ended": 20.0}


def test_of_a_run_that_has_not_ended(jobs: JobStore, tmp_path: Path) -> None:
    shown = result(tmp_path)
    assert isinstance(shown.exception, JobNotEnded)
    assert shown.exception.exit_code == 13
    shown = result(tmp_path, "--json", "--wait", "--timeout", "0.3")
    assert isinstance(shown.exception, JobNotEnded)
    assert json.loads(shown.stdout)["status"] == "RUNNING"


def test_of_a_run_that_ends_while_it_is_waited_for(jobs: JobStore, tmp_path: Path) -> None:
    def later() -> None:
        time.sleep(0.3)
        asyncio.run(end(jobs, Status.FINISHED, "the script ended"))

    leader = threading.Thread(target=later)
    leader.start()
    shown = result(tmp_path, "--wait")
    leader.join()
    assert (shown.exit_code, "FINISHED" in shown.stdout) == (0, True), shown.exception


def test_of_a_run_that_begins_while_it_is_waited_for(jobs: JobStore, tmp_path: Path) -> None:
    async def another() -> None:
        await end(jobs, Status.FINISHED, "the script ended")
        await jobs.begin_attempt(2, "a", nothing_granted, Generation(), run="tuesday", now=30.0)
        await jobs.end(Token(2, 1), Status.FINISHED, "the script ended", 40.0)

    def later() -> None:
        time.sleep(0.3)
        asyncio.run(another())

    scheduler = threading.Thread(target=later)
    scheduler.start()
    shown = result(tmp_path, "--run-id", "tuesday", "--wait")
    scheduler.join()
    assert shown.stdout == "run tuesday of job j: FINISHED: the script ended\n", shown.exception


def test_a_cluster_id_that_comes_while_it_is_waited_for(tmp_path: Path) -> None:
    """A scheduler's task may wait before the first replica is up."""

    async def appear() -> None:
        documents = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
        await ReplicaStore(documents, "c-replicas").join("j")
        made = JobStore(documents, "c-j", "j", "job.py")
        await made.begin_attempt(1, "a", nothing_granted, Generation())
        await made.end(LEADER, Status.FINISHED, "the script ended", 20.0)

    def later() -> None:
        time.sleep(0.3)
        asyncio.run(appear())

    leader = threading.Thread(target=later)
    leader.start()
    shown = result(tmp_path, "--cluster-id", "c", "--wait", "--timeout", "30")
    leader.join()
    assert (shown.exit_code, "FINISHED" in shown.stdout) == (0, True), shown.exception


@pytest.mark.parametrize("words", [("--cluster-id", "c"), ()])
def test_a_cluster_id_that_does_not_come_is_waited_for_and_no_longer(tmp_path: Path, words: tuple[str, ...]) -> None:
    began = time.monotonic()
    shown = result(tmp_path, *words, "--wait", "--timeout", "0.3")
    assert isinstance(shown.exception, SettingsError)
    assert shown.exception.exit_code == 2
    assert 0.3 <= time.monotonic() - began < 10.0


@pytest.mark.parametrize(
    ("error", "tries", "raised"),
    [(ServerUnreachable("no answer"), 2, type(None)), (AccessDenied("may not get"), 1, AccessDenied)],
)
def test_a_server_that_does_not_answer_at_first_is_asked_again_and_a_missing_right_is_told_at_once(
    jobs: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, tries: int, raised: type
) -> None:
    asyncio.run(end(jobs, Status.FINISHED, "the script ended"))
    opened, tried = Where.open, []

    def open_later(self: Where) -> Any:
        tried.append(self)
        if len(tried) == 1:
            raise error
        return opened(self)

    monkeypatch.setattr(Where, "open", open_later)
    monkeypatch.setattr(command, "_OPEN_AGAIN", 0.01)
    shown = result(tmp_path, "--wait")
    assert (len(tried), type(shown.exception)) == (tries, raised)


def test_a_right_that_is_missing_is_told_at_once_also_at_the_job(
    jobs: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []

    async def read(self: object, name: str) -> None:
        looked.append(name)
        raise AccessDenied("may not get")

    monkeypatch.setattr(FilesystemDocumentStore, "read", read)
    assert isinstance(result(tmp_path, "--wait", "--timeout", "5").exception, AccessDenied)
    assert len(looked) == 1


def test_of_a_job_that_was_declared_and_never_led(tmp_path: Path) -> None:
    documents = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    made = JobStore(documents, "c-j", "j", "job.py")

    async def declare() -> None:
        await ReplicaStore(documents, "c-replicas").join("j")
        await made.begin_suspended()
        await made.resume()

    asyncio.run(declare())
    shown = result(tmp_path)
    assert isinstance(shown.exception, JobNotBegun), "as understudy status says; it was called RUNNING"


def test_of_a_run_whose_place_another_one_has_taken(jobs: JobStore, tmp_path: Path) -> None:
    asyncio.run(awaited(jobs.begin_attempt(2, "b", nothing_granted, Generation(), run="tuesday", now=30.0)))
    shown = result(tmp_path, "--run-id", "monday")
    assert isinstance(shown.exception, IdentityConflict)
    assert "run monday of job j is SUPERSEDED" in str(shown.exception)


def test_of_an_earlier_run_and_of_none(jobs: JobStore, tmp_path: Path) -> None:
    async def another() -> None:
        await end(jobs, Status.FINISHED, "the script ended")
        await jobs.begin_attempt(2, "a", nothing_granted, Generation(), run="tuesday", now=30.0)

    asyncio.run(another())
    assert result(tmp_path, "--run-id", "monday").stdout == "run monday of job j: FINISHED\n"
    assert isinstance(result(tmp_path).exception, JobNotEnded)
    refused = result(tmp_path, "--run-id", "sunday")
    assert isinstance(refused.exception, SettingsError)
    assert "There is tuesday, monday" in str(refused.exception)


def test_of_a_job_that_never_ran(tmp_path: Path) -> None:
    FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    assert isinstance(result(tmp_path).exception, JobNotBegun)


class TestFromHaStorage:
    RESULT = JobResult("c", "j", "monday", "FINISHED", "the script ended", int(Token(3, 1)), 1, 10.0, 20.0)

    @staticmethod
    def stored(home: Path, *words: str) -> Any:
        return CliRunner().invoke(app, ["result", "--ha-storage", str(home), "--job-id", "j", *words])

    def test_no_document_is_asked(self, tmp_path: Path) -> None:
        asyncio.run(JobResultStore(FilesystemBlobStore(tmp_path, 5.0), "c", "j").commit(self.RESULT))
        for words in ((), ("--run-id", "monday")):
            shown = self.stored(tmp_path, "--cluster-id", "c", *words)
            assert shown.stdout == "run monday of job j: FINISHED: the script ended\n", shown.exception

    @pytest.mark.parametrize(
        ("words", "error", "says"),
        [
            (("--cluster-id", "c"), JobNotEnded, "c/j: there is no result. It has not FINISHED"),
            (
                ("--cluster-id", "c", "--run-id", "monday"),
                JobNotEnded,
                "there is no result of run monday",
            ),
            ((), SettingsError, "--cluster-id: it has to be named"),
        ],
    )
    def test_what_is_not_there(self, tmp_path: Path, words: tuple[str, ...], error: type[Exception], says: str) -> None:
        shown = self.stored(tmp_path, *words)
        assert isinstance(shown.exception, error)
        assert says in str(shown.exception)

    def test_a_result_that_comes_while_it_is_waited_for(self, tmp_path: Path) -> None:
        def later() -> None:
            time.sleep(0.3)
            asyncio.run(JobResultStore(FilesystemBlobStore(tmp_path, 5.0), "c", "j").commit(self.RESULT))

        replica = threading.Thread(target=later)
        replica.start()
        shown = self.stored(tmp_path, "--cluster-id", "c", "--wait")
        replica.join()
        assert "run monday of job j: FINISHED" in shown.stdout, shown.exception

    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        path = tmp_path / "job-results" / "c" / "j" / "monday" / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text("{")
        assert isinstance(self.stored(tmp_path, "--cluster-id", "c").exception, DocumentUnreadable)

    @pytest.mark.parametrize("url", ["gs://b/p", "s3a://", "hdfs://n/p"])
    def test_what_is_no_place(self, url: str) -> None:
        shown = CliRunner().invoke(app, ["result", "--ha-storage", url, "--cluster-id", "c"])
        assert isinstance(shown.exception, SettingsError)
        assert shown.exception.where == "--ha-storage"
