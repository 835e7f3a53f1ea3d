"""``understudy ensure``: a declared state is brought about from every state a job may be in, and is never brought about twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from understudy.cli import requests
from understudy.cli.main import app
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.errors import (
    DocumentEmptied,
    IdentityConflict,
    RequestFailed,
    RequestRefused,
    RequestUnanswered,
    SettingsError,
)
from understudy.fencing.claim import claim
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.requests import Request, Requests, Result
from understudy.protocol.claim import Claim
from understudy.protocol.token import HIGHEST, NONE, Token

LEADER = Token(1, 1)


@pytest.fixture
def documents(tmp_path: Path) -> DocumentStore:
    return FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)


@pytest.fixture
def jobs(documents: DocumentStore) -> JobStore:
    return JobStore(documents, "c-j", "j", "job.py")


async def begin(documents: DocumentStore, jobs: JobStore) -> None:
    await ReplicaStore(documents, "c-replicas").join("j")
    await jobs.begin_attempt(1, "a", nothing_granted, Generation())


@pytest.fixture
def led(documents: DocumentStore, jobs: JobStore) -> JobStore:
    """A job with a leader that does nothing."""
    asyncio.run(begin(documents, jobs))
    return jobs


def ensure(home: Path, state: str, *words: str) -> Any:
    return CliRunner().invoke(app, ["ensure", state, "--ha-dir", str(home), *words])


def found(jobs: JobStore) -> Job:
    job = asyncio.run(jobs.read())
    assert job is not None
    return job


def done(work: Awaitable[object]) -> None:
    async def awaited() -> None:
        await work

    asyncio.run(awaited())


async def suspend(jobs: JobStore) -> None:
    await jobs.ask(Request("s1", "suspend"))
    await jobs.suspend(LEADER, "s1", 1.0)


async def drain(jobs: JobStore) -> None:
    await jobs.ask(Request("d1", "drain"))
    await jobs.drain(LEADER, "d1", ("file:/checkpoint",))


async def fail(jobs: JobStore) -> None:
    await jobs.failed_once(LEADER, 1.0, 600.0, "no memory")
    await jobs.end(LEADER, Status.FAILED, "no memory")


async def cancel(jobs: JobStore) -> None:
    await jobs.end(LEADER, Status.CANCELED, "canceled by ann")


class TestBeforeTheFirstLeader:
    def test_a_job_that_is_declared_suspended_is_led_by_no_replica_until_it_is_declared_running(
        self, tmp_path: Path, documents: DocumentStore, jobs: JobStore
    ) -> None:
        for _ in range(2):
            shown = ensure(tmp_path, "suspended", "--job-id", "j")
            assert "is SUSPENDED; it has not begun" in shown.stdout, shown.exception
        done(begin(documents, jobs))
        assert (found(jobs).status, found(jobs).token) == (Status.SUSPENDED, NONE)

        refused = ensure(tmp_path, "running", "--timeout", "0.3")
        assert isinstance(refused.exception, RequestUnanswered)
        assert found(jobs).status is Status.RUNNING
        done(jobs.begin_attempt(1, "a", nothing_granted, Generation()))
        assert found(jobs).token == LEADER

    def test_a_job_that_is_being_canceled_is_not_declared_suspended(
        self, tmp_path: Path, documents: DocumentStore, jobs: JobStore
    ) -> None:
        """An earlier release has left the request to the first leader."""
        done(ReplicaStore(documents, "c-replicas").join("j"))
        asked = Requests(Request("c1", "cancel"))
        done(jobs.change(HIGHEST, lambda job: replace(job, requests=asked), nothing_granted))
        refused = ensure(tmp_path, "suspended")
        assert isinstance(refused.exception, RequestRefused), refused.exception
        assert (found(jobs).status, found(jobs).requests) == (Status.RUNNING, asked)

    def test_a_job_that_is_declared_running_is_left_to_its_replicas(self, tmp_path: Path, jobs: JobStore) -> None:
        shown = ensure(tmp_path, "running", "--job-id", "j")
        assert "has not begun; its replicas begin it" in shown.stdout
        assert asyncio.run(jobs.read()) is None

    def test_another_job_than_the_cluster_s_is_refused(self, led: JobStore, tmp_path: Path) -> None:
        refused = ensure(tmp_path, "suspended", "--job-id", "k")
        assert isinstance(refused.exception, IdentityConflict)

    @pytest.mark.parametrize("state", ["running", "suspended"])
    def test_a_job_whose_record_is_gone_is_not_begun_again(
        self, documents: DocumentStore, tmp_path: Path, state: str
    ) -> None:
        """Its leader has said that it has begun."""
        store = ReplicaStore(documents, "c-replicas")

        async def begun() -> None:
            await store.join("j")
            await store._change({}, begins=True)

        asyncio.run(begun())
        refused = ensure(tmp_path, state)
        assert isinstance(refused.exception, DocumentEmptied)

    def test_no_cluster_at_all(self, tmp_path: Path) -> None:
        refused = ensure(tmp_path, "suspended")
        assert isinstance(refused.exception, SettingsError)

    def test_a_job_that_was_canceled_before_its_first_leader_stays_so(self, tmp_path: Path, jobs: JobStore) -> None:
        ensure(tmp_path, "suspended", "--job-id", "j")
        assert CliRunner().invoke(app, ["cancel", "--ha-dir", str(tmp_path)]).exit_code == 0
        for state in ("suspended", "running"):
            assert ensure(tmp_path, state).stdout.endswith("is CANCELED, and stays so\n")
        assert found(jobs).status is Status.CANCELED

    def test_a_claim_on_this_machine_tells_that_a_record_is_gone(self, tmp_path: Path, jobs: JobStore) -> None:
        """Also where the replicas' document is gone with it."""
        floor = FilesystemDocumentStore(tmp_path / "c" / "floor", 5.0)
        done(claim(floor, "claim", Claim(LEADER, "a", "c", "j", "file")))
        refused = ensure(tmp_path, "suspended", "--job-id", "j")
        assert isinstance(refused.exception, DocumentEmptied)


class TestSuspended:
    def test_the_leader_is_asked_and_its_answer_waited_for(
        self, led: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = JobStore.ask

        async def ask_and_suspend(self: JobStore, request: Request) -> Job:
            job = await asked(self, request)
            await self.suspend(LEADER, request.id, 1.0)
            return job

        monkeypatch.setattr(JobStore, "ask", ask_and_suspend)
        shown = ensure(tmp_path, "suspended")
        assert "the job is SUSPENDED; between two batches" in shown.stdout
        assert found(led).status is Status.SUSPENDED

    def test_a_leader_that_cannot_is_an_error(
        self, led: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = JobStore.ask

        async def ask_and_fail(self: JobStore, request: Request) -> Job:
            await asked(self, request)
            return await self.answer(LEADER, request.id, Result.FAILED, "a batch did not end", 1.0)

        monkeypatch.setattr(JobStore, "ask", ask_and_fail)
        refused = ensure(tmp_path, "suspended")
        assert isinstance(refused.exception, RequestFailed)
        assert "a batch did not end" in str(refused.exception)

    @pytest.mark.parametrize(
        ("before", "status"), [(suspend, "SUSPENDED"), (drain, "DRAINING"), (fail, "FAILED"), (cancel, "CANCELED")]
    )
    def test_a_job_that_stands_still_is_left_alone(
        self, led: JobStore, tmp_path: Path, before: Callable[[JobStore], Coroutine[Any, Any, None]], status: str
    ) -> None:
        done(before(led))
        was = found(led)
        shown = ensure(tmp_path, "suspended")
        assert (shown.exit_code, shown.stdout.endswith(f"is {status}, and stays so\n")) == (0, True), shown.stdout
        assert found(led) == was

    def test_a_suspension_that_is_under_way_is_waited_for_and_not_asked_for_again(
        self, led: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(requests, "_SLACK", 0.0)
        done(led.ask(Request("s1", "suspend")))
        refused = ensure(tmp_path, "suspended", "--timeout", "0.3")
        assert isinstance(refused.exception, RequestUnanswered)
        assert "request s1" in str(refused.exception)

    def test_a_savepoint_that_a_suspension_follows_is_waited_for_as_long_as_one_may_take(
        self, led: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(requests, "_SLACK", 0.0)
        done(led.ask(Request("s1", "savepoint", then="suspend")))
        refused = ensure(tmp_path, "suspended", "--timeout", "0.3")
        assert isinstance(refused.exception, RequestUnanswered)
        assert "request s1" in str(refused.exception)

    @pytest.mark.parametrize(("how", "status"), [(fail, "FAILED"), (cancel, "CANCELED")])
    def test_a_job_that_ends_while_its_suspension_is_waited_for_is_left_alone(
        self,
        led: JobStore,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        how: Callable[[JobStore], Coroutine[Any, Any, None]],
        status: str,
    ) -> None:
        asked = JobStore.ask

        async def ask_and_end(self: JobStore, request: Request) -> Job:
            await asked(self, request)
            await how(self)
            job = await self.read()
            assert job is not None
            return job

        monkeypatch.setattr(JobStore, "ask", ask_and_end)
        shown = ensure(tmp_path, "suspended")
        assert (shown.exit_code, shown.stdout.endswith(f"is {status}, and stays so\n")) == (0, True), shown.exception

    def test_another_request_that_is_under_way_is_not_overridden(self, led: JobStore, tmp_path: Path) -> None:
        done(led.ask(Request("h1", "hand-over")))
        refused = ensure(tmp_path, "suspended")
        assert isinstance(refused.exception, RequestRefused)
        assert found(led).requests.is_under_way("h1")


class TestRunning:
    @pytest.mark.parametrize(("before", "says"), [(suspend, "it was SUSPENDED"), (fail, "it had failed: no memory")])
    def test_a_job_that_stands_still_goes_on_and_its_queries_are_waited_for(
        self, led: JobStore, tmp_path: Path, before: Callable[[JobStore], Coroutine[Any, Any, None]], says: str
    ) -> None:
        done(before(led))
        refused = ensure(tmp_path, "running", "--timeout", "0.3")
        assert isinstance(refused.exception, RequestUnanswered)
        assert "no leader runs its queries within 0.3 s" in str(refused.exception)
        assert found(led).status is Status.RUNNING
        shown = ensure(tmp_path, "running")
        assert "is RUNNING; nothing was changed" in shown.stdout

    @pytest.mark.parametrize(
        "asked", [Request("s1", "suspend"), Request("s1", "savepoint", then="suspend")], ids=["suspend", "then-suspend"]
    )
    def test_a_suspension_that_is_under_way_is_withdrawn(self, led: JobStore, tmp_path: Path, asked: Request) -> None:
        done(led.ask(asked))
        assert f"request s1 ({asked.action}) is withdrawn" in ensure(tmp_path, "running").stdout
        answer = found(led).requests.answer
        assert answer is not None
        assert answer.result == Result.WITHDRAWN

    @pytest.mark.parametrize("action", ["drain", "savepoint", "hand-over", "one-of-a-newer-release"])
    def test_another_request_that_is_under_way_for_a_running_job_stays(
        self, led: JobStore, tmp_path: Path, action: str
    ) -> None:
        """It was withdrawn each time that the state of a repository was declared again."""
        done(led.ask(Request("r1", action)))
        shown = ensure(tmp_path, "running")
        assert shown.exit_code == 0
        assert f"request r1 ({action}) stays: it does not suspend the job" in shown.stdout
        assert found(led).requests.is_under_way("r1")

    @pytest.mark.parametrize(("before", "status"), [(drain, "DRAINING"), (cancel, "CANCELED")])
    def test_a_job_that_ends_for_good_is_left_alone(
        self, led: JobStore, tmp_path: Path, before: Callable[[JobStore], Coroutine[Any, Any, None]], status: str
    ) -> None:
        """Or no `pulumi up` would succeed any more."""
        done(before(led))
        was = found(led)
        shown = ensure(tmp_path, "running")
        assert (shown.exit_code, shown.stdout.endswith(f"is {status}, and stays so\n")) == (0, True), shown.stdout
        assert found(led) == was


def test_a_state_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    refused = ensure(tmp_path, "stopped")
    assert refused.exit_code == 2
    assert "running" in refused.output
    assert "suspended" in refused.output
