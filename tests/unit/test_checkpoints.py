"""What a job's document says of its checkpoints: which batch was committed at least, and how boundaries are numbered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents import codec
from understudy.documents.model import Content, Document
from understudy.errors import DocumentUnreadable, RequestRefused
from understudy.ha.checkpoints import COUNTER, ENTRY, Checkpoint, Checkpoints
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.requests import Action, Answer, Request, Requests, Result
from understudy.ha.savepoints import Savepoint
from understudy.protocol.token import HIGHEST, Token

TOKEN = Token(1, 1)
A = Checkpoint("file:/a", "flights", "parquet", 7, 1000.0)
B = Checkpoint("file:/b", "gates", "foreachbatch", 3, 1000.0)


def at(checkpoint: Checkpoint, batch: int, when: float = 1060.0) -> Checkpoint:
    return Checkpoint(checkpoint.root, checkpoint.query, checkpoint.sink, batch, when)


def on(script: Callable[[JobStore, MemoryDocumentStore], Awaitable[None]]) -> None:
    """Run ``script`` with a job that ``a`` leads under 1.1, whose roots are /a and /b."""

    async def run() -> None:
        documents = MemoryDocumentStore(MemoryServer())
        jobs = JobStore(documents, "c-j", "j", "job.py")
        await jobs.begin_attempt(1, "a", nothing_granted, Generation())
        await jobs.claims(TOKEN, (A.root, B.root))
        await script(jobs, documents)

    asyncio.run(run())


async def stands(jobs: JobStore) -> Checkpoints:
    job = await jobs.read()
    assert job is not None
    return job.checkpoints


def test_what_was_committed_is_noted_with_the_first_commit_and_with_later_ones() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.serving(TOKEN, 1000.0, (A, B))
        assert (await stands(jobs)).batches == {A.root: 7, B.root: 3}
        await jobs.committed(TOKEN, 1060.0, (at(A, 9), B))
        assert await stands(jobs) == Checkpoints((at(A, 9), B))

    on(script)


def test_a_checkpoint_that_its_script_began_again_is_noted_as_it_is() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.serving(TOKEN, 1000.0, (A,))
        await jobs.committed(TOKEN, 1060.0, (at(A, 2),))
        assert (await stands(jobs)).batches == {A.root: 2}

    on(script)


def test_what_is_accepted_is_forgotten() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.serving(TOKEN, 1000.0, (A, B))
        await jobs.resume((A.root,), 1070.0)
        assert (await stands(jobs)).batches == {B.root: 3}

    on(script)


def test_a_root_that_the_job_has_given_up_drops_out() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.serving(TOKEN, 1000.0, (A, B))
        for epoch in (2, 3):
            token = (await jobs.begin_attempt(epoch, "b", nothing_granted, Generation())).token
            await jobs.claims(token, (A.root,))
            await jobs.serving(token, 1000.0 + epoch, (at(A, 7 + epoch),))
        assert (await stands(jobs)).batches == {A.root: 10}

    on(script)


def test_a_suspension_between_two_batches_is_a_boundary_with_a_number() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        for number in (1, 2):
            await jobs.ask(Request(f"s{number}", Action.SUSPEND))
            job = await jobs.suspend(TOKEN, f"s{number}", 1000.0, (at(A, 7 + number),))
            assert (job.checkpoints.counter, job.checkpoints.batches) == (number, {A.root: 7 + number})
            assert job.requests.answer is not None
            assert f"boundary {number}" in job.requests.answer.text
            await jobs.resume()
        await jobs.ask(Request("s3", Action.SUSPEND))
        job = await jobs.suspend(TOKEN, "s3", 1000.0, between_batches=False)
        assert job.checkpoints.counter == 2, "where a batch was left in the middle there is no boundary"

    on(script)


def test_what_is_committed_at_the_end_is_kept() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.end(TOKEN, Status.FINISHED, "the script ended", 1000.0, (at(A, 11),))
        assert (await stands(jobs)).batches == {A.root: 11}

    on(script)


def test_nothing_is_written_where_nothing_has_changed() -> None:
    stood = Checkpoints((A,), 4)

    assert stood.noted((A,), (A.root,)).entries(stood) == {}
    assert set(stood.numbered().entries(stood)) == {COUNTER}
    assert set(stood.noted((at(A, 8),), (A.root,)).entries(stood)) == {ENTRY}


async def damage(jobs: JobStore, documents: MemoryDocumentStore) -> None:
    document = await documents.read(jobs.name)
    assert document is not None
    entries = {**document.entries, ENTRY: "garbage", COUNTER: "garbage"}
    await documents.replace(document, Content(entries, document.leader, document.labels))


def test_a_record_that_cannot_be_read_protects_nothing_and_no_number_is_given_twice() -> None:
    async def script(jobs: JobStore, documents: MemoryDocumentStore) -> None:
        await jobs.serving(TOKEN, 1000.0, (A,))
        await damage(jobs, documents)
        assert await stands(jobs) == Checkpoints(counter=None, readable=False)
        await jobs.ask(Request("s1", Action.SUSPEND))
        job = await jobs.suspend(TOKEN, "s1", 1000.0, (A,))
        assert job.checkpoints == Checkpoints((A,), None)
        assert job.requests.answer is not None
        assert job.requests.answer.text == "the job is SUSPENDED; between two batches"

    on(script)


def test_a_drain_whose_roots_cannot_be_read_is_no_drain_of_nothing() -> None:
    async def script(jobs: JobStore, documents: MemoryDocumentStore) -> None:
        await jobs.ask(Request("d1", Action.DRAIN))
        await jobs.drain(TOKEN, "d1", (A.root,), (A, B))
        await damage(jobs, documents)
        with pytest.raises(DocumentUnreadable, match="which of its queries are drained cannot be read"):
            await jobs.read()

    on(script)


def test_a_drain_has_its_end_with_the_job_and_what_it_drained_is_not_gone_on_from() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.serving(TOKEN, 1000.0, (A, B))
        await jobs.ask(Request("d1", Action.DRAIN))
        job = await jobs.drain(TOKEN, "d1", (A.root,))
        assert (job.status, job.draining, job.checkpoints.counter) == (Status.DRAINING, (A.root,), 1)
        assert await jobs.drain(TOKEN, "d1", (B.root,)) == job, "the first one counts"
        assert (await jobs.resume()).status is Status.DRAINING
        assert (await jobs.begin_attempt(2, "b", nothing_granted, Generation())).draining == (A.root,)
        job = await jobs.end(Token(2, 1), Status.FINISHED, "drained", 1100.0)
        assert job.draining is None
        assert job.checkpoints.drained == {A.root}
        assert job.checkpoints.batches == {B.root: 3}
        assert job.requests.answer is not None
        assert job.requests.answer.result == Result.DONE

    on(script)


@pytest.mark.parametrize(
    ("wanted", "taken", "text"),
    [
        (True, True, "the job is FINISHED; savepoint 7 was taken before: rehearsed, in s3a://bucket/7"),
        (True, False, "the job is FINISHED; no savepoint was taken before, for the job has no HA storage"),
        (False, False, "the job is FINISHED"),
    ],
)
def test_the_answer_to_a_drain_says_what_became_of_its_savepoint(wanted: bool, taken: bool, text: str) -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.ask(Request("d1", Action.DRAIN, savepoint=wanted))
        if taken:
            one = Savepoint(7, "s3a://bucket/7", 1000.0, "rehearsed", "d1")
            await jobs.change(TOKEN, lambda job: replace(job, savepoints=job.savepoints.with_one(one)))
        await jobs.drain(TOKEN, "d1", (A.root,))
        job = await jobs.end(TOKEN, Status.FINISHED, "drained", 1100.0)
        assert job.requests.answer is not None
        assert job.requests.answer.text == text

    on(script)


def test_a_job_that_fails_while_it_is_drained_is_drained_on_once_it_is_resumed() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await jobs.ask(Request("d1", Action.DRAIN))
        await jobs.drain(TOKEN, "d1", (A.root,))
        await jobs.failed_once(TOKEN, 1000.0, 60.0, "the sink is away")
        job = await jobs.end(TOKEN, Status.FAILED, "too often", 1000.0)
        assert job.requests.answer is not None
        assert job.requests.answer.result == Result.FAILED
        await jobs.resume()
        job = await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        assert (job.status, job.draining) == (Status.DRAINING, (A.root,))

    on(script)


async def _drains_without_a_request(jobs: JobStore) -> Job:
    """It FAILED while it was drained, and was resumed."""
    await jobs.ask(Request("d1", Action.DRAIN))
    await jobs.drain(TOKEN, "d1", (A.root,))
    await jobs.failed_once(TOKEN, 1000.0, 60.0, "the sink is away")
    await jobs.end(TOKEN, Status.FAILED, "too often", 1000.0)
    await jobs.resume()
    job = await jobs.read()
    assert job is not None
    assert (job.status, job.requests.under_way) == (Status.DRAINING, None)
    return job


@pytest.mark.parametrize("action", [Action.SUSPEND, Action.SAVEPOINT, Action.HAND_OVER])
def test_a_job_that_is_draining_is_asked_nothing_but_to_end(action: Action) -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        before = await _drains_without_a_request(jobs)
        with pytest.raises(RequestRefused, match=r"job j is DRAINING\. It ends by itself"):
            await jobs.ask(Request("r1", action))
        assert await jobs.read() == before
        asked = await jobs.ask(Request("d2", Action.DRAIN, savepoint=True))
        assert asked.requests.under_way == Request("d2", Action.DRAIN), "it is too late for a savepoint"
        with pytest.raises(RequestRefused, match=r"Wait for its answer; understudy cancel overrides it$"):
            await jobs.ask(Request("d3", Action.DRAIN))
        assert (await jobs.ask(Request("c1", Action.CANCEL))).requests.is_under_way("c1")

    on(script)


def test_a_job_that_is_draining_is_not_suspended_by_a_request_that_stands_there() -> None:
    """As an earlier release has accepted it."""

    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await _drains_without_a_request(jobs)
        suspend = Requests(Request("s1", Action.SUSPEND))
        await jobs.change(HIGHEST, lambda job: replace(job, requests=suspend))
        job = await jobs.suspend(TOKEN, "s1", 1100.0)
        assert (job.status, job.draining) == (Status.DRAINING, (A.root,))
        assert job.requests.answer == Answer("s1", Result.REFUSED, 1100.0, "the job is DRAINING")

    on(script)


@pytest.mark.parametrize("canceled", [False, True])
def test_a_job_that_was_suspended_while_it_was_drained_is_not_gone_on_from(canceled: bool) -> None:
    """An earlier release has suspended it."""

    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        await _drains_without_a_request(jobs)
        await jobs.change(HIGHEST, lambda job: replace(job, status=Status.SUSPENDED))
        if canceled:
            job = await jobs.ask(Request("c1", Action.CANCEL))
            assert job.checkpoints.drained == {A.root}
            return
        await jobs.resume()
        job = await jobs.begin_attempt(2, "b", nothing_granted, Generation())
        assert (job.status, job.draining) == (Status.DRAINING, (A.root,))

    on(script)


def test_another_run_does_not_take_the_place_of_one_that_is_drained() -> None:
    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        first = await jobs.begin_attempt(2, "a", nothing_granted, Generation(), run="first")
        await jobs.ask(Request("d1", Action.DRAIN))
        job = await jobs.drain(first.token, "d1", (A.root,))
        assert await jobs.begin_attempt(3, "b", nothing_granted, Generation(), run="second") == job
        assert job.not_led_for("second")
        assert not job.not_led_for("first")
        await jobs.failed_once(first.token, 1000.0, 60.0, "it failed")
        await jobs.end(first.token, Status.FAILED, "too often")
        job = await jobs.begin_attempt(4, "b", nothing_granted, Generation(), run="second")
        assert job.status is Status.RUNNING
        assert job.checkpoints.drained == {A.root}, "its entry may stand there"

    on(script)


def test_another_run_takes_the_place_of_one_that_is_drained_once_that_is_to_be_canceled() -> None:
    """Where no replica of it is left, none but another run's may carry that out."""

    async def script(jobs: JobStore, _: MemoryDocumentStore) -> None:
        first = await jobs.begin_attempt(2, "a", nothing_granted, Generation(), run="first")
        await jobs.ask(Request("d1", Action.DRAIN))
        await jobs.drain(first.token, "d1", (A.root,))
        job = await jobs.ask(Request("c1", Action.CANCEL))
        assert not job.not_led_for("second")
        job = await jobs.begin_attempt(3, "b", nothing_granted, Generation(), run="second", now=1100.0)
        assert (job.status, job.runs.run, job.runs.ended) == (Status.CANCELED, "first", 1100.0), (
            "its result comes first"
        )
        job = await jobs.begin_attempt(3, "b", nothing_granted, Generation(), run="second", now=1101.0)
        assert (job.status, job.runs.run, job.token) == (Status.RUNNING, "second", Token(3, 2))
        assert [(each.run, each.status) for each in job.runs.past if each.run] == [("first", "CANCELED")]
        assert job.requests.answer == Answer("c1", Result.DONE, 1100.0, "the run has ended as CANCELED")
        assert job.checkpoints.drained == {A.root}, "its entry may stand there"

    on(script)


def test_fields_of_a_newer_release_are_left_out() -> None:
    written = Checkpoints((A,)).entries(Checkpoints())[ENTRY]
    assert written is not None
    body = codec.decode(ENTRY, written)[1]
    known = body["known"]
    assert isinstance(known, list)
    newer = codec.encode(ENTRY, 1, {"known": [{**each, "format": "v3"} for each in known], "more": 1})

    assert Checkpoints.of(Document("c-j", {ENTRY: newer}, None, {}, "r1")) == Checkpoints((A,))


def test_the_marks_of_a_drained_checkpoint_stay() -> None:
    drained = Checkpoints((A, B)).drain_begins((A.root, "file:/c")).drain_ends()

    assert drained.drained == {A.root, "file:/c"}
    later = drained.noted((at(A, 8),), ())
    assert later.drained == {A.root, "file:/c"}
    assert later.batches == {}, "a drain that comes later waits for none of them"
    assert later.without((A.root,)).drained == {"file:/c"}
