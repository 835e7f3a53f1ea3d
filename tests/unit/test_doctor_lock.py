"""What ``understudy doctor`` finds of a lock: one that is renewed, one that is not, one that nothing can be made of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.doctor_builders import TOKEN, Ward, examined, grave, replica
from understudy.doctor import lock
from understudy.doctor.finding import Finding, Severity
from understudy.doctor.lock import Watched
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Document
from understudy.election.records import GRANT, GrantEntry
from understudy.errors import DocumentError
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.replicas import ReplicaStore
from understudy.ha.requests import Action, Request

Harm = Callable[[Ward], Awaitable[object]]
PROBLEM = Severity.PROBLEM


def of_lock(findings: list[Finding]) -> Finding:
    return next(each for each in findings if each.check == "lock")


async def nothing(ward: Ward) -> None:
    assert await ward.documents.read("c-lock") is not None


async def missing(ward: Ward) -> None:
    ward.lose("c-lock")


async def released(ward: Ward) -> None:
    ward.grant = replace(ward.grant, released=True)
    await ward.renew(1)


async def without_replicas(ward: Ward) -> None:
    for each in "ab":
        await ward.replicas.leave(each)


async def paused(ward: Ward) -> None:
    await ward.jobs.pause("ann", 1.0)


@pytest.mark.parametrize(
    ("harm", "words", "remedy", "code"),
    [
        (
            nothing,
            "a holds the lock, and did not renew it for 1 s, although the job is RUNNING",
            "A living standby",
            12,
        ),
        (without_replicas, "did not renew it for 1 s, although the job is RUNNING", "Start replicas", 12),
        (paused, "did not renew it for 1 s", "understudy unpause", 12),
        (released, "no replica holds the lock, although the job is RUNNING", "A living standby", 12),
        (missing, "the lock is missing, although an epoch was granted before", "living leader writes it again", 4),
        (
            lambda ward: ward.entry("c-lock", GRANT, "x"),
            "the lock cannot be read: c-lock (grant)",
            "docs/operations.md",
            4,
        ),
    ],
    ids=["dead", "all gone", "paused", "released", "missing", "damaged"],
)
def test_a_running_job_whose_lock_no_replica_renews(
    tmp_path: Path, harm: Harm, words: str, remedy: str, code: int
) -> None:
    found = of_lock(examined(tmp_path, harm, leader=False))

    assert (found.severity, found.exit_code) == (PROBLEM, code)
    assert words in found.text
    assert remedy in found.remedy


@pytest.mark.parametrize("status", [Status.FINISHED, Status.CANCELED])
@pytest.mark.parametrize("harm", [nothing, released])
def test_a_job_that_has_ended_needs_no_leader_and_its_lock_is_not_watched(
    tmp_path: Path, harm: Harm, status: Status
) -> None:
    async def ended(ward: Ward) -> None:
        await ward.jobs.end(TOKEN, status, "the script ended", 20.0)
        await harm(ward)

    found = examined(tmp_path, ended, leader=False)

    assert grave(found) == []
    assert of_lock(found).severity is Severity.OK
    assert f"c-j: {status}" in "\n".join(each.text for each in found)


def test_a_suspended_job_needs_no_leader(tmp_path: Path) -> None:
    async def suspended(ward: Ward) -> None:
        await ward.jobs.ask(Request("s1", Action.SUSPEND))
        await ward.jobs.suspend(TOKEN, "s1", 20.0)
        await released(ward)

    found = examined(tmp_path, suspended, leader=False)

    assert grave(found) == []
    assert any("c-j: SUSPENDED. understudy resume lets it go on" in str(each) for each in found)


def test_a_job_that_never_ran_has_no_problem(tmp_path: Path) -> None:
    async def run() -> list[Finding]:
        ward = Ward(tmp_path)
        await ReplicaStore(ward.documents, "c-replicas").join("j")
        return await ward.findings()

    found = asyncio.run(run())
    assert grave(found) == []
    assert {"c-j: no replica has ever led the job", "c-lock: no replica has ever taken the lock"} <= {
        each.text for each in found
    }


def test_a_lock_that_comes_back_while_it_is_watched_is_sound(tmp_path: Path) -> None:
    assert grave(examined(tmp_path, missing, leader=True)) == []


@pytest.mark.parametrize(("ahead", "severity"), [(0.0, Severity.OK), (-90.0, Severity.NOTE), (3600.0, Severity.NOTE)])
def test_a_clock_that_is_wrong_is_a_note_at_most(tmp_path: Path, ahead: float, severity: Severity) -> None:
    async def wrong(ward: Ward) -> None:
        ward.ahead = ahead

    found = examined(tmp_path, wrong)

    assert grave(found) == []
    (clocks,) = (each for each in found if each.check == "clocks" and "leader" in each.text)
    assert clocks.severity is severity
    assert ("ahead of" in clocks.text) is (ahead > 0)


def job(status: Status = Status.RUNNING) -> Job:
    return Job("j", "job.py", status, TOKEN, TOKEN, "a", generation=Generation(1))


def test_a_lock_that_cannot_be_read_is_said_once() -> None:
    watched = Watched(error=DocumentError("no answer within 5 s", where="c-lock", remedy="Is the disk alive?"))

    (found,) = lock.findings(watched, "c-lock", job(), [], begun=True)

    assert (found.severity, found.exit_code, found.text) == (PROBLEM, 4, "c-lock: no answer within 5 s")


def test_a_tombstone_is_not_free() -> None:
    entries = {GRANT: GrantEntry(3, "a", "n").encode()}
    watched = Watched(Document("c-lock", entries, None, {"understudy.dev/buried": "true"}, "r1"))

    (found,) = lock.findings(watched, "c-lock", job(), [replica("a", "leader")], begun=True)

    assert (found.severity, found.exit_code) == (PROBLEM, 4)
    assert "tombstone" in found.text


def test_where_the_record_of_the_job_is_gone_a_leader_is_missed_if_there_ever_was_one() -> None:
    assert lock.led(None, begun=True)
    assert not lock.led(None, begun=False)
    assert lock.led(job(Status.DRAINING), begun=True)
    assert not lock.led(job(Status.SUSPENDED), begun=True)


def test_a_lock_that_no_replica_has_to_hold_is_read_once(tmp_path: Path) -> None:
    class Counting(FilesystemDocumentStore):
        reads = 0

        async def read(self, name: str) -> Document | None:
            self.reads += 1
            return await super().read(name)

    store = Counting(tmp_path, 5.0)
    for expected in (False, True):
        store.reads = 0
        asyncio.run(lock.watch(store, "c-lock", expected=expected, wall=lambda: 0.0, pause=0.01))
        assert (store.reads > 1) is expected


def test_a_store_that_does_not_answer_ends_the_watch(tmp_path: Path) -> None:
    async def run() -> Watched:
        store = FilesystemDocumentStore(tmp_path, 5.0)
        (tmp_path / "c-lock@1").mkdir()  # no file: to read it is an error of the disk
        return await lock.watch(store, "c-lock", expected=True, wall=lambda: 0.0)

    assert isinstance(asyncio.run(run()).error, DocumentError)
