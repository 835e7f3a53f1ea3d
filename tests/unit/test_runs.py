"""Runs of a job: which one a replica may work for, and how they stand in the job's document."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents import codec
from understudy.documents.model import Content
from understudy.errors import DocumentUnreadable, IdentityConflict, JobFailed, LeadershipLost, SettingsError
from understudy.ha import runs as run_store
from understudy.ha.generation import Generation
from understudy.ha.job import ENTRY, Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.runs import Begins, Joins, Over, Part, PastRun, Runs, UnderWay, check_run_id, part_of
from understudy.protocol.token import NONE, Token
from understudy.supervisor.ended import end_of, run_begins

NAME = "flights-flights"
CODE = Generation(1, "c0de")
SUNDAY = PastRun("sunday", "FINISHED", 5.0)


def with_store(check: Callable[[MemoryDocumentStore, JobStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryDocumentStore(MemoryServer())
        await check(store, JobStore(store, NAME, "flights", "flights.py"))

    asyncio.run(run())


async def nothing_known() -> int:
    return 0


async def begin(jobs: JobStore, epoch: int, run: str, now: float = 1.0) -> Job:
    return await jobs.begin_attempt(epoch, f"holder-{epoch}", nothing_known, CODE, run=run, now=now)


@pytest.mark.parametrize(
    ("own", "current", "status", "part"),
    [
        ("", "", "RUNNING", Joins()),
        ("", "monday", "RUNNING", Joins()),
        ("monday", "monday", "RUNNING", Joins()),
        ("monday", "", "RUNNING", Joins()),
        ("tuesday", "monday", "RUNNING", UnderWay("monday")),
        ("", "", "FINISHED", Over(PastRun("", "FINISHED", 7.0))),
        ("", "monday", "FINISHED", Over(PastRun("monday", "FINISHED", 7.0))),
        ("monday", "monday", "FINISHED", Over(PastRun("monday", "FINISHED", 7.0))),
        ("monday", "", "FINISHED", Begins()),
        ("tuesday", "monday", "FINISHED", Begins()),
        ("monday", "monday", "FAILED", Over(PastRun("monday", "FAILED", 7.0))),
        ("", "monday", "FAILED", Over(PastRun("monday", "FAILED", 7.0))),
        ("tuesday", "monday", "FAILED", Begins()),
        ("sunday", "monday", "RUNNING", Over(SUNDAY)),
        ("sunday", "monday", "FINISHED", Over(SUNDAY)),
    ],
)
def test_what_a_replica_may_do_follows_from_its_run_and_the_jobs(
    own: str, current: str, status: str, part: Part
) -> None:
    runs = Runs(current, 1.0, 1, 7.0, (SUNDAY,))
    assert part_of(own, runs, status, terminal=status != "RUNNING") == part


def test_another_run_begins_under_a_higher_token_from_the_same_roots_with_all_of_its_restarts() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        first = await begin(jobs, 1, "monday", 10.0)
        assert first.runs == Runs("monday", 10.0, int(Token(1, 1)))
        await jobs.claims(first.token, ("checkpoint",))
        await jobs.failed_once(first.token, 11.0, 100.0, "died")
        await jobs.end(first.token, Status.FINISHED, "the script ended", 20.0)
        for same in ("monday", ""):
            assert await begin(jobs, 2, same) == await jobs.read(), "a finished run never runs again"
        second = await begin(jobs, 2, "tuesday", 30.0)
        assert (second.status, second.token, second.roots) == (Status.RUNNING, Token(2, 1), ("checkpoint",))
        assert (second.failures, second.reason) == ((), "")
        assert second.runs == Runs("tuesday", 30.0, int(Token(2, 1)), 0.0, (PastRun("monday", "FINISHED", 20.0),))
        assert await jobs.read() == second
        with pytest.raises(LeadershipLost):
            await jobs.end(first.token, Status.FINISHED, "a predecessor's", 40.0)
        again = await begin(jobs, 3, "monday")
        assert again == second, "nor when another has begun since"

    with_store(check)


def test_a_restart_in_place_and_a_takeover_stay_in_their_run() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        first = await begin(jobs, 1, "monday", 10.0)
        for epoch, run in ((1, "monday"), (2, "monday"), (3, "")):
            job = await begin(jobs, epoch, run, 20.0)
            assert job.token > first.token
            assert job.runs == first.runs

    with_store(check)


def test_a_run_without_an_id_takes_that_of_the_first_leader_that_has_one() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        assert (await begin(jobs, 1, "", 10.0)).runs.run == ""
        named = await begin(jobs, 2, "monday", 20.0)
        assert (named.runs.run, named.runs.began, named.runs.past) == ("monday", 10.0, ())

    with_store(check)


def test_a_failed_run_is_resumed_and_another_one_begins_without_it() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        token = (await begin(jobs, 1, "monday", 10.0)).token
        await jobs.failed_once(token, 11.0, 100.0, "died")
        await jobs.end(token, Status.FAILED, "too often", 20.0)
        assert (await begin(jobs, 2, "monday")).status is Status.FAILED
        await jobs.resume()
        resumed = await begin(jobs, 2, "monday", 30.0)
        assert (resumed.status, resumed.runs.run, resumed.runs.ended) == (Status.RUNNING, "monday", 0.0)
        await jobs.failed_once(resumed.token, 31.0, 100.0, "died")
        await jobs.end(resumed.token, Status.FAILED, "too often", 40.0)
        other = await begin(jobs, 3, "tuesday", 50.0)
        assert (other.status, other.failures) == (Status.RUNNING, ())
        assert other.runs.past == (PastRun("monday", "FAILED", 40.0),)
        await jobs.resume()
        assert await jobs.read() == other, "there is nothing to resume"

    with_store(check)


def test_whoever_is_granted_the_lock_supersedes_a_run_that_nobody_runs_any_more() -> None:
    async def check(_: MemoryDocumentStore, jobs: JobStore) -> None:
        await begin(jobs, 1, "monday", 10.0)
        job = await begin(jobs, 2, "tuesday", 20.0)
        assert job.runs.past == (PastRun("monday", "SUPERSEDED", 20.0),)
        assert run_begins(job.runs).startswith("run tuesday begins; run monday had not ended")
        assert (await begin(jobs, 3, "monday")).over_for("monday")

    with_store(check)


def test_replicas_that_know_no_runs_keep_them() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        first = await begin(jobs, 1, "monday", 10.0)
        seen = await store.read(NAME)
        assert seen is not None
        assert "run" not in replace(first).body(), "a field of the job's entry would be dropped"
        older = replace(first, status=Status.FINISHED, reason="the script ended")  # by a write of the entry `job` alone
        entry = codec.encode("job", 1, {**older.body(), "nonce": "n"})
        await store.replace(seen, Content({ENTRY: entry}))
        found = await jobs.read()
        assert found is not None
        assert (found.status, found.runs) == (Status.FINISHED, first.runs)
        assert found.over_for("monday")
        assert (await begin(jobs, 2, "tuesday")).runs.past[0].status == "FINISHED"

    with_store(check)


def test_a_record_of_runs_that_cannot_be_read_is_no_job_without_runs() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        await begin(jobs, 1, "monday")
        seen = await store.read(NAME)
        assert seen is not None
        await store.replace(seen, Content({run_store.ENTRY: "{}"}))
        with pytest.raises(DocumentUnreadable):
            await jobs.read()

    with_store(check)


def test_what_a_newer_replica_adds_to_the_record_is_no_obstacle_and_stays() -> None:
    async def check(store: MemoryDocumentStore, jobs: JobStore) -> None:
        job = await begin(jobs, 1, "monday")
        seen = await store.read(NAME)
        assert seen is not None
        _, body = codec.decode("run", seen.entries["run"])
        await store.replace(seen, Content({"run": codec.encode("run", 1, {**body, "more": 1})}))
        found = await jobs.read()
        assert found is not None
        assert found.runs == job.runs
        await jobs.end(job.token, Status.FINISHED, "the script ended", 9.0)
        later = await store.read(NAME)
        assert later is not None
        assert codec.decode("run", later.entries["run"])[1] == {**body, "ended": 9.0, "more": 1}

    with_store(check)


def test_so_many_runs_are_remembered_and_no_more() -> None:
    runs = Runs("0")
    for number in range(1, 100):
        runs = runs.next(str(number), "FINISHED", number, float(number))
    assert [each.run for each in runs.past] == [str(number) for number in range(67, 99)]
    assert len(runs.encode()) < 4000


@pytest.mark.parametrize("name", ["", "2026-11-25", "6f0c-uid", "scheduled__2026-11-25T00:00:00+00:00", "a" * 128])
def test_what_schedulers_call_their_runs_is_a_name(name: str) -> None:
    assert check_run_id(name) == name


@pytest.mark.parametrize("name", ["a b", "a/b", "monday\n", "-a", "a" * 129, "ä"])
def test_anything_else_is_not(name: str) -> None:
    with pytest.raises(SettingsError, match="--run-id"):
        check_run_id(name)


def ended_job(status: Status, *past: PastRun) -> Job:
    runs = Runs("monday", 1.0, 1, 1764029520.0, past)
    return Job("flights", "flights.py", status, Token(1, 1), NONE, "h", reason="the script ended", runs=runs)


def test_a_start_after_the_end_says_when_it_was_and_how_to_begin_a_new_run() -> None:
    end = end_of(ended_job(Status.FINISHED), "")
    assert end.exit_code == 0
    assert end.sentence == (
        "job flights is FINISHED: the script ended (run monday, ended 2025-11-25 00:12:00 UTC). "
        "Nothing of it runs again; to begin a new run, start it with --run-id and a new id"
    )


def test_the_exit_code_is_that_of_the_run_that_was_asked_for() -> None:
    past = [PastRun("good", "FINISHED", 1.0), PastRun("bad", "FAILED", 1.0), PastRun("gone", "SUPERSEDED", 1.0)]
    job = ended_job(Status.RUNNING, *past)
    codes = [end_of(job, each.run).exit_code for each in past]
    assert codes == [0, JobFailed.exit_code, IdentityConflict.exit_code]
    assert "run monday has begun since" in end_of(job, "good").sentence
    failed = end_of(ended_job(Status.FAILED), "monday")
    assert failed.exit_code == JobFailed.exit_code
    assert "understudy resume lets it run again" in failed.sentence
