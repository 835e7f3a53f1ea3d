"""How the job's document counts failures: one for each start of a driver, however often it is told."""

from __future__ import annotations

import pytest

from tests.doubles.memory import MemoryDocumentStore
from tests.unit.test_job_store import CODE, known, record, with_store
from understudy.documents import codec
from understudy.documents.model import Content, Written
from understudy.errors import LeadershipLost
from understudy.ha.job_store import JobStore
from understudy.protocol.token import Token


def test_a_failure_whose_answer_was_lost_counts_once_and_the_one_of_the_next_start_counts_again() -> None:
    """A job with three restarts was FAILED after two failures: the second write of one had been counted, too."""

    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        for now in (10.0, 12.0):
            job = await jobs.failed_once(token, now, 100.0, "died")
            assert (job.failures, job.failed) == ((10.0,), token)
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        for now in (20.0, 22.0):
            job = await jobs.failed_once(token, now, 100.0, "died")
            assert (job.failures, job.failed) == ((10.0, 20.0), token)

    with_store(check)


def test_a_record_of_an_older_image_says_of_no_token_that_it_has_failed() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        document, body = await record(store)
        del body["failed"]
        assert isinstance(await store.replace(document, Content({"job": codec.encode("job", 1, body)})), Written)
        assert (await jobs.failed_once(token, 10.0, 100.0, "died")).failures == (10.0,)

    with_store(check)


def test_failures_count_until_a_driver_has_run_well() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await jobs.begin_attempt(1, "a", known(0), CODE)).token
        await jobs.failed_once(token, 10.0, 100.0, "died")
        token = (await jobs.begin_attempt(2, "a", known(0), CODE)).token
        job = await jobs.failed_once(token, 500.0, 100.0, "died")
        assert job.failures == (10.0, 500.0), "no driver ran in between"
        assert (await jobs.ran_well(token)).failures == job.failures, "told late: it has failed since"
        token = (await jobs.begin_attempt(3, "a", known(0), CODE)).token
        assert (await jobs.ran_well(token)).failures == ()
        assert (await jobs.failed_once(token, 900.0, 100.0, "died")).failures == (900.0,)

    with_store(check)


def test_a_leader_that_counts_no_failure_reads_its_job_and_writes_nothing() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        begun = await jobs.begin_attempt(1, "a", known(0), CODE)
        assert await jobs.still_led(begun.token) == begun == await jobs.read()
        with pytest.raises(LeadershipLost):
            await jobs.still_led(Token(0, 1))

    with_store(check)
