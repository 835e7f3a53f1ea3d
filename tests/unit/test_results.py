"""FLIP-194's contract for results, by name; and how results of other releases are read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.blobs import MemoryBlobStore
from understudy.errors import DocumentUnreadable, ServerUnreachable
from understudy.ha.job import Job, Status
from understudy.ha.results import JobResult, JobResultStore, as_job, result_of
from understudy.ha.runs import Runs
from understudy.protocol.token import Token

RESULT = JobResult("c", "j", "monday", "FINISHED", "the script ended", int(Token(3, 1)), int(Token(2, 1)), 10.0, 20.0)
DIRTY, CLEAN = "job-results/c/j/monday/result_DIRTY.json", "job-results/c/j/monday/result.json"


def with_store(check: Callable[[MemoryBlobStore, JobResultStore], Any]) -> None:
    async def run() -> None:
        blobs = MemoryBlobStore()
        await check(blobs, JobResultStore(blobs, "c", "j"))

    asyncio.run(run())


def test_a_result_is_dirty_first_and_clean_once_it_is_committed() -> None:
    async def check(blobs: MemoryBlobStore, results: JobResultStore) -> None:
        assert await results.read("monday") is None
        assert await results.begin(RESULT) == RESULT
        assert set(blobs.stored) == {DIRTY}
        assert await results.read("monday") == RESULT
        await results.commit(RESULT)
        assert set(blobs.stored) == {CLEAN}
        assert await results.read("monday") == RESULT

    with_store(check)


def test_both_steps_may_be_taken_twice() -> None:
    async def check(blobs: MemoryBlobStore, results: JobResultStore) -> None:
        for _ in range(2):
            assert await results.begin(RESULT) == RESULT
        for _ in range(2):
            await results.commit(RESULT)
        assert await results.begin(RESULT) == RESULT
        assert set(blobs.stored) == {CLEAN}, "what is clean does not become dirty again"

    with_store(check)


def test_a_clean_result_beside_a_dirty_one_wins() -> None:
    async def check(blobs: MemoryBlobStore, results: JobResultStore) -> None:
        await results.commit(RESULT)
        blobs.stored[DIRTY] = replace(RESULT, status="CANCELED").encode()
        assert await results.read("monday") == RESULT
        assert await results.all() == [RESULT]

    with_store(check)


def test_the_first_result_of_a_run_stands() -> None:
    async def check(_: MemoryBlobStore, results: JobResultStore) -> None:
        other = replace(RESULT, status="CANCELED", reason="canceled by ann")
        await results.begin(RESULT)
        assert await results.begin(other) == RESULT
        await results.commit(RESULT)
        await results.commit(other)
        assert await results.read("monday") == RESULT

    with_store(check)


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("fault", ["lost", "late"])
def test_a_writer_that_is_killed_after_any_step_leaves_a_result_that_the_next_one_finishes(
    step: int, fault: str
) -> None:
    async def check(blobs: MemoryBlobStore, results: JobResultStore) -> None:
        taken = iter(range(100))
        blobs.fault = lambda _: fault if next(taken) == step else ""
        try:
            await results.commit(await results.begin(RESULT))
        except ServerUnreachable:
            blobs.fault = lambda _: ""
            await results.commit(await results.begin(RESULT))
        assert set(blobs.stored) == {CLEAN}
        assert await results.read("monday") == RESULT

    with_store(check)


def test_results_are_in_the_order_of_their_tokens_and_of_one_job() -> None:
    async def check(blobs: MemoryBlobStore, results: JobResultStore) -> None:
        assert await results.all() == []
        later = replace(RESULT, run="a-tuesday", token=int(Token(5, 1)))
        for each in (later, RESULT):
            await results.commit(each)
        await JobResultStore(blobs, "c", "other").commit(replace(later, job="other", token=int(Token(9, 1))))
        blobs.stored["job-results/c/j/notes.txt"] = b"by hand"
        assert await results.all() == [RESULT, later]

    with_store(check)


def test_results_are_read_several_at_a_time() -> None:
    """A replica reads all of them before it begins, where the documents are lost: one after the other took longer than its probes wait."""

    class Slow(MemoryBlobStore):
        most = reads = 0

        async def read(self, name: str) -> bytes | None:
            self.reads += 1
            self.most = max(self.most, self.reads)
            await asyncio.sleep(0.001)
            self.reads -= 1
            return await super().read(name)

    async def check() -> None:
        blobs = Slow()
        results = JobResultStore(blobs, "c", "j")
        for number in range(20):
            await results.commit(replace(RESULT, run=f"run-{number}", token=int(Token(3, 1 + number))))
        assert len(await results.all()) == 20
        assert 1 < blobs.most <= 8

    asyncio.run(check())


def test_runs_without_an_id_are_told_apart_by_the_token_they_began_under() -> None:
    async def check(_: MemoryBlobStore, results: JobResultStore) -> None:
        plain = replace(RESULT, run="")
        await results.commit(plain)
        assert await results.read("", plain.first) == plain
        assert await results.read("", plain.first + 1) is None

    with_store(check)


class TestSchema:
    def test_it_is_json_with_a_version_for_everyone(self) -> None:
        body = json.loads(RESULT.encode())
        assert (body["kind"], body["version"]) == ("understudy/job-result", 1)
        assert (body["run"], body["status"], body["reason"]) == ("monday", "FINISHED", "the script ended")

    def test_what_a_newer_release_adds_is_left_out(self) -> None:
        body = {**json.loads(RESULT.encode()), "savepoint": 7}
        assert JobResult.decode(json.dumps(body).encode(), "r") == RESULT

    def test_a_newer_version_is_refused_with_the_remedy(self) -> None:
        body = {**json.loads(RESULT.encode()), "version": 2}
        with pytest.raises(DocumentUnreadable, match="r: the result has version 2, newer than 1.*Upgrade"):
            JobResult.decode(json.dumps(body).encode(), "r")

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            b"[]",
            b"{}",
            b'{"kind": "understudy/job-result"}',
            b'{"kind": "understudy/job-result", "version": 0}',
            b"\xff",
        ],
    )
    def test_what_cannot_be_read_is_not_taken_for_absent(self, data: bytes) -> None:
        with pytest.raises(DocumentUnreadable, match="cannot be read"):
            JobResult.decode(data, "r")

    @pytest.mark.parametrize(("name", "value"), [("status", 1), ("token", "1"), ("token", True), ("ended", None)])
    def test_a_field_of_another_type_is_refused_by_name(self, name: str, value: object) -> None:
        body = {**json.loads(RESULT.encode()), name: value}
        with pytest.raises(DocumentUnreadable, match=f"JobResult.{name} is"):
            JobResult.decode(json.dumps(body).encode(), "r")


class TestOfAJob:
    JOB = Job(
        "j",
        "job.py",
        Status.FINISHED,
        Token(3, 1),
        Token(3, 1),
        "a",
        reason="the script ended",
        runs=Runs("monday", 10.0, int(Token(2, 1)), 20.0),
    )

    def test_it_is_made_of_the_document_and_makes_it_again(self) -> None:
        assert result_of(self.JOB, "c") == RESULT
        again = as_job([RESULT])
        assert (again.status, again.token, again.runs, again.reason) == (
            Status.FINISHED,
            self.JOB.token,
            self.JOB.runs,
            self.JOB.reason,
        )
        assert result_of(again, "c") == RESULT

    def test_of_several_runs_none_is_forgotten_and_tokens_go_on_above_all(self) -> None:
        later = replace(RESULT, run="tuesday", token=int(Token(7, 1)))
        job = as_job([later, RESULT])
        assert (job.token, job.runs.run) == (Token(7, 1), "tuesday")
        assert job.over_for("monday")
        assert job.over_for("tuesday")
        assert not job.over_for("wednesday")

    @pytest.mark.parametrize("status", [Status.RUNNING, Status.SUSPENDED, Status.DRAINING, Status.FAILED])
    def test_a_job_that_may_run_again_has_none(self, status: Status) -> None:
        assert result_of(replace(self.JOB, status=status), "c") is None


def test_a_directory_holds_results_as_files_for_people(tmp_path: Path) -> None:
    from understudy.blobs.filesystem import FilesystemBlobStore

    asyncio.run(JobResultStore(FilesystemBlobStore(tmp_path, 5.0), "c", "j").commit(RESULT))
    assert json.loads((tmp_path / CLEAN).read_text())["status"] == "FINISHED"
