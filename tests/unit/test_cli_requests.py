"""``understudy suspend``, ``cancel`` and ``hand-over``: what is said of a job that cannot do it, and of a leader that does not answer."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.cli import requests
from understudy.cli.main import app
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import (
    DocumentEmptied,
    JobNotBegun,
    RequestFailed,
    RequestRefused,
    RequestUnanswered,
    SettingsError,
    UnderstudyError,
)
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.requests import Request, Result
from understudy.protocol.token import HIGHEST, Token


@pytest.fixture
def jobs(tmp_path: Path) -> JobStore:
    """A job that is led, by a leader that does nothing."""
    documents = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    made = JobStore(documents, "c-j", "j", "job.py")

    async def begin() -> None:
        await ReplicaStore(documents, "c-replicas").join("j")
        await made.begin_attempt(1, "a", nothing_granted, Generation())

    asyncio.run(begin())
    return made


def understudy(home: Path, *words: str) -> Any:
    """What the command line came to; an error of ours is its ``exception``."""
    return CliRunner().invoke(app, [words[0], "--ha-dir", str(home), *words[1:]])


def test_without_waiting_it_says_the_id_of_the_request(jobs: JobStore, tmp_path: Path) -> None:
    done = understudy(tmp_path, "suspend", "--no-wait", "--json")
    assert done.exit_code == 0, done.exception
    shown = json.loads(done.stdout)
    job = asyncio.run(jobs.read())
    assert job is not None
    assert job.requests.under_way is not None
    assert shown["request"] == job.requests.under_way.id
    assert (shown["action"], shown["result"]) == ("suspend", "asked")
    status = understudy(tmp_path, "status").stdout
    assert "request suspend is under way, asked for by" in status


@pytest.mark.parametrize("action", ["suspend", "drain", "cancel", "hand-over"])
def test_a_leader_that_does_not_answer_leaves_the_request_where_it_is(
    jobs: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(requests, "_SLACK", 0.0)
    done = understudy(tmp_path, action, "--timeout", "0.3")
    assert isinstance(done.exception, RequestUnanswered)
    assert ("understudy resume withdraws it" in str(done.exception)) == (action != "cancel"), (
        "that one is not withdrawn"
    )
    job = asyncio.run(jobs.read())
    assert job is not None
    assert job.requests.under_way is not None


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (Result.DONE, None),
        (Result.REFUSED, RequestRefused),
        (Result.FAILED, RequestFailed),
        (Result.WITHDRAWN, RequestFailed),
    ],
)
def test_the_answer_decides_the_exit_code(
    jobs: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result, error: type[UnderstudyError] | None
) -> None:
    asked = JobStore.ask

    async def ask_and_answer(self: JobStore, request: Request) -> Any:
        await asked(self, request)
        return await self.answer(Token(1, 1), request.id, result, "so it is", 1.0)

    monkeypatch.setattr(JobStore, "ask", ask_and_answer)
    done = understudy(tmp_path, "suspend")
    assert (type(done.exception) if error else None) is error
    assert "so it is" in (done.stdout if error is None else str(done.exception))


def test_a_request_that_another_one_has_overridden_has_failed(
    jobs: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = JobStore.ask

    async def ask_and_cancel(self: JobStore, request: Request) -> Any:
        found = await asked(self, request)
        await asked(self, Request("c1", "cancel"))
        return found

    monkeypatch.setattr(JobStore, "ask", ask_and_cancel)
    done = understudy(tmp_path, "suspend")
    assert isinstance(done.exception, RequestFailed)
    assert "another request has taken its place" in str(done.exception)


def test_a_replica_that_does_not_exist_is_told_who_does(jobs: JobStore, tmp_path: Path) -> None:
    done = understudy(tmp_path, "hand-over", "--to", "nope")
    assert isinstance(done.exception, SettingsError)
    assert str(done.exception) == "--to: 'nope' is the name of no replica. There is none"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
def test_a_time_that_makes_no_sense_is_refused(jobs: JobStore, tmp_path: Path, seconds: str) -> None:
    done = understudy(tmp_path, "suspend", "--timeout", seconds)
    assert isinstance(done.exception, SettingsError)
    assert done.exception.where == "--timeout"


def suspend(jobs: JobStore) -> Awaitable[object]:
    async def script() -> None:
        await jobs.ask(Request("s1", "suspend"))
        await jobs.suspend(Token(1, 1), "s1", 1.0)

    return script()


def drain(jobs: JobStore) -> Awaitable[object]:
    async def script() -> None:
        await jobs.ask(Request("d1", "drain"))
        await jobs.drain(Token(1, 1), "d1", ("file:/checkpoint",))

    return script()


@pytest.mark.parametrize(
    ("before", "says"),
    [
        (suspend, "goes on; it was SUSPENDED"),
        (lambda jobs: jobs.ask(Request("s1", "suspend")), "request s1 (suspend) is withdrawn"),
        (lambda jobs: jobs.ask(Request("c1", "cancel")), "request c1 (cancel) stays"),
        (drain, "is DRAINING; request d1 (drain) stays"),
        (lambda jobs: jobs.end(Token(1, 1), Status.CANCELED, "canceled by ann"), "was CANCELED: canceled by ann"),
    ],
)
def test_resume_says_what_it_found(
    jobs: JobStore, tmp_path: Path, before: Callable[[JobStore], Awaitable[object]], says: str
) -> None:
    async def run() -> None:
        await before(jobs)

    asyncio.run(run())
    done = understudy(tmp_path, "resume")
    assert says in (done.stdout or str(done.exception))


def test_resume_waits_until_a_leader_has_committed_again(jobs: JobStore, tmp_path: Path) -> None:
    asyncio.run(awaited(suspend(jobs)))

    async def lead() -> None:
        while (job := await jobs.read()) is None or job.status is not Status.RUNNING:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        token = (await jobs.begin_attempt(2, "b", nothing_granted, Generation())).token
        await jobs.serving(token, 2.0)

    leader = threading.Thread(target=lambda: asyncio.run(lead()))
    leader.start()
    done = understudy(tmp_path, "resume", "--wait", "--json")
    leader.join()
    shown = json.loads(done.stdout)
    assert (done.exit_code, shown["result"]) == (0, "done")
    assert "goes on; it was SUSPENDED; b leads and has committed a batch" in shown["text"]


def test_resume_waits_for_queries_that_find_no_rows_to_commit(jobs: JobStore, tmp_path: Path) -> None:
    asyncio.run(awaited(suspend(jobs)))
    replicas = ReplicaStore(FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0), "c-replicas")

    async def lead() -> None:
        while (job := await jobs.read()) is None or job.status is not Status.RUNNING:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        await replicas.publish(leading("a", queries=2))  # one that leads no more, and has not said so
        await asyncio.sleep(0.5)
        await replicas.publish(leading("b", queries=1))

    leader = threading.Thread(target=lambda: asyncio.run(lead()))
    leader.start()
    done = understudy(tmp_path, "resume", "--wait")
    leader.join()
    assert "b leads and runs 1 query, " in done.stdout


@pytest.mark.parametrize("fails", [True, False])
def test_resume_waits_no_longer_for_a_job_that_has_ended_again(jobs: JobStore, tmp_path: Path, fails: bool) -> None:
    asyncio.run(awaited(suspend(jobs)))

    async def lead() -> None:
        while (job := await jobs.read()) is None or job.status is not Status.RUNNING:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        token = (await jobs.begin_attempt(2, "b", nothing_granted, Generation())).token
        await jobs.failed_once(token, 1.0, 600.0, "no memory")
        await jobs.end(token, Status.FAILED if fails else Status.FINISHED, "no memory" if fails else "the script ended")

    leader = threading.Thread(target=lambda: asyncio.run(lead()))
    leader.start()
    done = understudy(tmp_path, "resume", "--wait")
    leader.join()
    if fails:
        assert isinstance(done.exception, RequestFailed)
        assert "it has FAILED again: no memory" in str(done.exception)
    else:
        assert "it is FINISHED: the script ended" in done.stdout


def test_resume_says_of_a_leader_without_queries_that_it_leads(jobs: JobStore, tmp_path: Path) -> None:
    asyncio.run(awaited(suspend(jobs)))

    async def lead() -> None:
        while (job := await jobs.read()) is None or job.status is not Status.RUNNING:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
        await jobs.begin_attempt(2, "b", nothing_granted, Generation())

    leader = threading.Thread(target=lambda: asyncio.run(lead()))
    leader.start()
    done = understudy(tmp_path, "resume", "--wait", "--timeout", "3")
    leader.join()
    assert "b leads, and its script has started no query in 3 s" in done.stdout


def test_resume_does_not_wait_for_ever_for_a_leader(jobs: JobStore, tmp_path: Path) -> None:
    asyncio.run(awaited(suspend(jobs)))
    done = understudy(tmp_path, "resume", "--wait", "--timeout", "0.3")
    assert isinstance(done.exception, RequestUnanswered)
    assert "no leader runs its queries within 0.3 s" in str(done.exception)
    job = asyncio.run(jobs.read())
    assert job is not None
    assert job.status is Status.RUNNING, "it may run again all the same"


def test_an_ended_job_is_not_paused(jobs: JobStore, tmp_path: Path) -> None:
    asyncio.run(jobs.end(Token(1, 1), Status.CANCELED, "canceled by ann"))
    done = understudy(tmp_path, "pause")
    assert isinstance(done.exception, RequestRefused)
    assert understudy(tmp_path, "unpause").exit_code == 0


def leading(holder: str, queries: int) -> Replica:
    return Replica(holder, "leader", False, "", 0, 0.0, "", "", 1, 1, holder, 0, "", 0.0, queries=queries)


async def awaited(work: Awaitable[object]) -> None:
    await work


def test_resume_says_of_a_job_that_failed_while_it_was_drained_that_it_is_drained_on(
    jobs: JobStore, tmp_path: Path
) -> None:
    async def fail() -> None:
        await jobs.ask(Request("d1", "drain"))
        await jobs.drain(Token(1, 1), "d1", ("file:/checkpoint",))
        await jobs.failed_once(Token(1, 1), 1.0, 600.0, "no memory")
        await jobs.end(Token(1, 1), Status.FAILED, "no memory")

    asyncio.run(fail())
    assert "is DRAINING again; it had failed: no memory" in understudy(tmp_path, "resume").stdout


async def submitted(home: Path) -> JobStore:
    """A job whose script was submitted, and which no replica has led."""
    documents = FilesystemDocumentStore(home / "c" / "documents", 5.0)
    await ReplicaStore(documents, "c-replicas").join("j")
    made = JobStore(documents, "c-j", "j", "job.py")
    await made.change(HIGHEST, lambda job: replace(job, script="submitted.py"), nothing_granted)
    return made


class TestAJobThatNoReplicaHasLed:
    @pytest.mark.parametrize(
        "words",
        [
            ["suspend", "--no-wait"],
            ["drain", "--no-wait"],
            ["hand-over", "--no-wait"],
            ["resume"],
            ["pause"],
            ["savepoints"],
            ["result", "--run-id", "monday"],
        ],
        ids=lambda words: words[0],
    )
    def test_it_takes_up_no_request(self, tmp_path: Path, words: list[str]) -> None:
        jobs = asyncio.run(submitted(tmp_path))
        before = asyncio.run(jobs.read())
        done = understudy(tmp_path, *words)
        assert isinstance(done.exception, JobNotBegun), done.exception
        assert "no replica has ever led job j of cluster c" in str(done.exception)
        assert asyncio.run(jobs.read()) == before

    def test_it_is_canceled_at_once_and_then_it_can_be_purged(self, tmp_path: Path) -> None:
        asyncio.run(submitted(tmp_path))
        refused = CliRunner().invoke(app, ["purge", "--cluster-id", "c", "--ha-dir", str(tmp_path)])
        assert "End it first: understudy cancel" in str(refused.exception)
        done = understudy(tmp_path, "cancel")
        assert done.exit_code == 0, done.exception
        assert "the job is CANCELED" in done.stdout
        purged = CliRunner().invoke(app, ["purge", "--cluster-id", "c", "--ha-dir", str(tmp_path)])
        assert purged.exit_code == 0, purged.exception

    def test_a_record_that_was_begun_after_that_of_a_led_job_was_lost_is_not_taken_for_it(self, tmp_path: Path) -> None:
        jobs = asyncio.run(submitted(tmp_path))
        entry = Replica("a", "leader", False, "", 0, 0.0, "", "", 0, 1, "host", 1, "boot", 0.0)
        replicas = ReplicaStore(FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0), "c-replicas")
        asyncio.run(replicas.publish(entry))
        for action in ("cancel", "suspend"):
            done = understudy(tmp_path, action)
            assert isinstance(done.exception, DocumentEmptied), done.exception
        job = asyncio.run(jobs.read())
        assert job is not None
        assert job.status is Status.RUNNING, "its leader may live"
