"""Requests to a job: what the store keeps of them, who may answer, and what overrides what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents.model import Content
from understudy.errors import LeadershipLost, RequestRefused
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.requests import Action, Answer, Pause, Request, Requests, Result
from understudy.protocol.token import HIGHEST, NONE, Token

NOW = 1000.0
SUSPEND = Request("s1", Action.SUSPEND, "ann@host", NOW, 300.0)
CANCEL = Request("c1", Action.CANCEL, "ann@host", NOW, 60.0)
HAND_OVER = Request("h1", Action.HAND_OVER, "ann@host", NOW, 60.0)


def on(script: Callable[[JobStore], Awaitable[None]]) -> None:
    """Run ``script`` with a job that ``a`` leads under 1.1."""

    async def run() -> None:
        jobs = JobStore(MemoryDocumentStore(MemoryServer()), "c-j", "j", "job.py")
        await jobs.begin_attempt(1, "a", nothing_granted, Generation())
        await script(jobs)

    asyncio.run(run())


async def requests(jobs: JobStore) -> Requests:
    job = await jobs.read()
    assert job is not None
    return job.requests


def test_a_request_is_under_way_until_its_leader_has_answered() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        assert (await requests(jobs)).under_way == SUSPEND
        await jobs.answer(Token(1, 1), SUSPEND.id, Result.FAILED, "too slow", NOW + 5)
        assert await requests(jobs) == Requests(SUSPEND, Answer(SUSPEND.id, "failed", NOW + 5, "too slow"))
        assert (await requests(jobs)).under_way is None

    on(script)


def test_a_request_survives_what_leaders_write() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        await jobs.claims(Token(1, 1), ("/root",))
        await jobs.committed(Token(1, 1), NOW)
        job = await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        assert job.requests.under_way == SUSPEND

    on(script)


@pytest.mark.parametrize(("second", "taken"), [(HAND_OVER, False), (replace(SUSPEND, id="s2"), False), (CANCEL, True)])
def test_one_request_at_a_time_and_only_to_cancel_overrides_it(second: Request, taken: bool) -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        if taken:
            await jobs.ask(second)
        else:
            with pytest.raises(RequestRefused, match=r"another request is under way: suspend \(s1\)"):
                await jobs.ask(second)
        assert (await requests(jobs)).under_way == (second if taken else SUSPEND)

    on(script)


@pytest.mark.parametrize(
    ("first", "second", "remedy"),
    [
        (SUSPEND, HAND_OVER, "understudy resume withdraws it"),
        (CANCEL, HAND_OVER, "the leader ends the job, or else the next leader does"),
        (CANCEL, replace(CANCEL, id="c2"), "the leader ends the job, or else the next leader does"),
    ],
)
def test_what_a_second_request_is_refused_with_can_be_done(first: Request, second: Request, remedy: str) -> None:
    """One to cancel the job is neither overridden nor withdrawn."""

    async def script(jobs: JobStore) -> None:
        await jobs.ask(first)
        with pytest.raises(RequestRefused) as refused:
            await jobs.ask(second)
        assert remedy in str(refused.value)
        assert ("resume" in str(refused.value)) == (first is SUSPEND)
        assert (await requests(jobs)).under_way == first

    on(script)


def test_a_job_that_no_replica_has_led_is_canceled_without_a_leader() -> None:
    async def script() -> None:
        jobs = JobStore(MemoryDocumentStore(MemoryServer()), "c-j", "j", "job.py")
        await jobs.change(HIGHEST, lambda job: replace(job, script="submitted.py"), nothing_granted)
        # as an earlier release has left it, which waited for a leader
        left = replace(CANCEL, id="c0")
        await jobs.change(HIGHEST, lambda job: replace(job, requests=Requests(left)))
        assert (await jobs.begin_suspended()).status is Status.RUNNING, "it is to end, and not to wait for a resume"
        job = await jobs.ask(CANCEL)
        assert (job.status, job.token) == (Status.CANCELED, NONE)
        assert job.reason == "canceled by ann@host, before any replica had led it"
        assert job.requests.answer == Answer(CANCEL.id, "done", NOW, "the job is CANCELED")
        assert (await jobs.begin_attempt(1, "a", nothing_granted, Generation())).status is Status.CANCELED

    asyncio.run(script())


def test_only_the_highest_token_answers() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        with pytest.raises(LeadershipLost):
            await jobs.suspend(Token(1, 1), SUSPEND.id, NOW)
        with pytest.raises(LeadershipLost):
            await jobs.answer(Token(1, 1), SUSPEND.id, Result.DONE, "", NOW)

    on(script)


def test_a_suspended_job_is_claimed_by_no_leader_until_it_is_resumed() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        job = await jobs.suspend(Token(1, 1), SUSPEND.id, NOW)
        assert (job.status, job.requests.under_way) == (Status.SUSPENDED, None)
        for run in ("", "another run"):
            tried = await jobs.begin_attempt(2, "b", nothing_granted, Generation(), run=run)
            assert (tried.status, tried.token) == (Status.SUSPENDED, Token(1, 1))
        found = await jobs.resume(now=NOW)
        assert found.status is Status.SUSPENDED
        led = await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        assert (led.status, led.token) == (Status.RUNNING, Token(2, 1))

    on(script)


def test_a_request_that_was_withdrawn_suspends_nothing() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        await jobs.resume(now=NOW)
        job = await jobs.suspend(Token(1, 1), SUSPEND.id, NOW)
        assert job.status is Status.RUNNING
        assert job.requests.answer is not None
        assert job.requests.answer.result == Result.WITHDRAWN

    on(script)


def test_to_cancel_is_not_withdrawn() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(CANCEL)
        await jobs.resume(now=NOW)
        assert (await requests(jobs)).under_way == CANCEL

    on(script)


@pytest.mark.parametrize(
    ("asked", "status", "result"),
    [
        (CANCEL, Status.CANCELED, Result.DONE),
        (SUSPEND, Status.CANCELED, Result.REFUSED),
        (SUSPEND, Status.FINISHED, Result.REFUSED),
    ],
)
def test_the_end_of_a_job_answers_what_it_was_asked(asked: Request, status: Status, result: Result) -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(asked)
        job = await jobs.end(Token(1, 1), status, "over", NOW)
        assert job.status is status
        assert job.requests.answer is not None
        assert job.requests.answer.result == result

    on(script)


def test_a_suspended_job_is_canceled_without_a_leader_and_asked_nothing_else() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        await jobs.suspend(Token(1, 1), SUSPEND.id, NOW)
        with pytest.raises(RequestRefused, match="job j is SUSPENDED. understudy resume"):
            await jobs.ask(HAND_OVER)
        job = await jobs.ask(CANCEL)
        assert job.status is Status.CANCELED
        assert job.requests.answer == Answer(CANCEL.id, "done", NOW, "the job is CANCELED")
        with pytest.raises(RequestRefused, match="job j is CANCELED. Nothing of it runs again"):
            await jobs.ask(replace(CANCEL, id="c2"))

    on(script)


def test_a_request_to_one_run_is_none_to_the_next() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.begin_attempt(1, "a", nothing_granted, Generation(), run="one")
        await jobs.ask(CANCEL)
        job = await jobs.begin_attempt(2, "b", nothing_granted, Generation(), run="two", now=NOW)
        assert (job.runs.run, job.requests.under_way) == ("two", None)
        assert job.requests.answer is not None
        assert job.requests.answer.result == Result.REFUSED

    on(script)


def test_a_request_that_is_sent_once_more_is_the_same_one() -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        await jobs.suspend(Token(1, 1), SUSPEND.id, NOW)
        assert (await jobs.ask(SUSPEND)).status is Status.SUSPENDED

    on(script)


@pytest.mark.parametrize(
    ("to", "leads", "result"),
    [("", "b", Result.DONE), ("b", "b", Result.DONE), ("c", "b", Result.FAILED), ("", "a", None)],
    ids=["anyone", "the one that was named", "another one", "the same replica again"],
)
def test_the_next_leader_answers_a_handover(to: str, leads: str, result: Result | None) -> None:
    async def script(jobs: JobStore) -> None:
        await jobs.ask(replace(HAND_OVER, to=to))
        job = await jobs.begin_attempt(2, leads, nothing_granted, Generation(), now=NOW)
        answer = job.requests.answer
        assert (None if answer is None else answer.result) == result

    on(script)


@pytest.mark.parametrize(
    "text", ["", "{}", "suspend, please", '{"body":{},"checksum":"0","kind":"request","version":1}']
)
def test_a_request_that_cannot_be_read_is_one_without_an_action_and_keeps_no_replica_from_leading(text: str) -> None:
    async def script(jobs: JobStore) -> None:
        store = jobs._store
        document = await store.read(jobs.name)
        assert document is not None
        await store.replace(document, Content({"request": text}, document.leader))
        job = await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        asked = job.requests.under_way
        assert asked is not None
        assert asked.action == ""
        await jobs.answer(Token(2, 1), asked.id, Result.REFUSED, "it cannot be read", NOW)
        assert (await requests(jobs)).under_way is None

    on(script)


def test_an_answer_that_cannot_be_read_answers_what_was_asked() -> None:
    """Else it would be done a second time."""

    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        document = await jobs._store.read(jobs.name)
        assert document is not None
        await jobs._store.replace(document, Content({"answer": "{}"}, document.leader))
        assert (await requests(jobs)).under_way is None

    on(script)


def test_a_paused_job_is_not_taken_over_but_for_a_handover() -> None:
    async def script(jobs: JobStore) -> None:
        assert (await jobs.pause("ann@host", NOW)).requests.paused is None
        await jobs.pause("ben@host", NOW + 1)
        found = await requests(jobs)
        assert found.paused == Pause("ann@host", NOW), "a second pause changes nothing"
        assert found.keeps_from_leading("b", "a")
        assert found.keeps_from_leading("a", "a")
        await jobs.ask(replace(HAND_OVER, to="b"))
        assert not (await requests(jobs)).keeps_from_leading("b", "a")
        assert not (await requests(jobs)).keeps_from_leading("a", "a"), "back to the one that has tried to hand over"
        assert (await requests(jobs)).keeps_from_leading("c", "a")
        await jobs.ask(CANCEL)
        assert not (await requests(jobs)).keeps_from_leading("c", "a"), "a leader that opens no gate"
        await jobs.unpause()
        assert not (await requests(jobs)).keeps_from_leading("c", "a")

    on(script)


def test_fields_of_a_newer_release_are_no_obstacle() -> None:
    from understudy.documents import codec

    async def script(jobs: JobStore) -> None:
        await jobs.ask(SUSPEND)
        document = await jobs._store.read(jobs.name)
        assert document is not None
        body = codec.decode("request", document.entries["request"])[1]
        newer = codec.encode("request", 1, {**body, "reason": "maintenance"})
        await jobs._store.replace(document, Content({"request": newer}, document.leader))
        assert (await requests(jobs)).under_way == SUSPEND

    on(script)
