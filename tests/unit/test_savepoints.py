"""Savepoints in a job's document and in HA storage, without a driver: what is recorded, listed, forked, and removed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doubles.blobs import MemoryBlobStore
from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.savepoint_builders import MANIFEST, NOW, query, written
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.cli.main import app
from understudy.config.timings import Timings
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import DocumentUnreadable, LeadershipLost, RequestRefused, SettingsError
from understudy.ha import saved_files, savepoint_changes
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.requests import Action, Request, Result
from understudy.ha.savepoints import REMEMBERED, Manifest, Proof, Savepoint, Savepoints
from understudy.protocol.token import HIGHEST, Token
from understudy.supervisor.settings import RunSettings

LED = Token(1, 1)
SAVE = Request("s1", Action.SAVEPOINT, "ann@host", NOW, 300.0)
FOUND = (Checkpoint("file:/checkpoint", "flights", "parquet", 12, NOW),)


def place(number: int) -> str:
    return f"file:///store/savepoints/c/j/{number}"


def on(script: Callable[[JobStore], Awaitable[None]]) -> None:
    """Run ``script`` with a job that ``a`` leads under 1.1."""

    async def run() -> None:
        jobs = JobStore(MemoryDocumentStore(MemoryServer()), "c-j", "j", "job.py")
        await jobs.begin_attempt(1, "a", nothing_granted, Generation())
        await script(jobs)

    asyncio.run(run())


async def begun(jobs: JobStore) -> Savepoint:
    await jobs.ask(SAVE)
    job = await jobs.change(LED, savepoint_changes.begin(SAVE.id, place, NOW, FOUND))
    one = job.savepoints.of_request(SAVE.id)
    assert one is not None
    return one


async def read(jobs: JobStore) -> Job:
    job = await jobs.read()
    assert job is not None
    return job


def test_a_savepoint_has_the_number_of_its_boundary_and_gets_one_only() -> None:
    async def script(jobs: JobStore) -> None:
        one = await begun(jobs)
        again = await jobs.change(LED, savepoint_changes.begin(SAVE.id, place, NOW + 1, FOUND))
        job = await read(jobs)
        assert job == again
        assert job.savepoints.known == (one,) == (Savepoint(1, place(1), NOW, Proof.BEGUN, SAVE.id),)
        assert (job.checkpoints.counter, job.checkpoints.batches) == (1, {"file:/checkpoint": 12})
        assert job.saving

    on(script)


def test_what_is_complete_is_answered_in_the_same_write_and_the_job_runs_on_or_is_suspended() -> None:
    async def script(jobs: JobStore) -> None:
        one = replace(await begun(jobs), state=Proof.REHEARSED, batches={"flights": 12})
        change = savepoint_changes.complete(one, "savepoint 1 is rehearsed", NOW, suspend=True)
        for _ in range(2):  # the answer to the first try was lost
            job = await jobs.change(LED, change)
            assert (job.status, job.savepoints.known) == (Status.SUSPENDED, (one,))
            assert job.requests.answer is not None
            assert job.requests.answer.result == Result.DONE

    on(script)


def test_one_that_was_withdrawn_changes_nothing_and_counts_as_failed() -> None:
    async def script(jobs: JobStore) -> None:
        one = await begun(jobs)
        assert (await read(jobs)).savepoints_now[0].state == Proof.BEGUN
        await jobs.resume((), NOW)
        done = replace(one, state=Proof.REHEARSED)
        job = await jobs.change(LED, savepoint_changes.complete(done, "done", NOW, suspend=True))
        assert (job.status, job.savepoints.known) == (Status.RUNNING, (one,))
        assert job.savepoints_now[0].state == Proof.FAILED
        assert not job.saving
        with pytest.raises(LeadershipLost):
            await jobs.change(Token(0, 9), savepoint_changes.fail(1, SAVE.id, "late", NOW))

    on(script)


def test_a_failed_one_leaves_the_job_running_and_names_why() -> None:
    async def script(jobs: JobStore) -> None:
        await begun(jobs)
        job = await jobs.change(LED, savepoint_changes.fail(1, SAVE.id, "no space left", NOW))
        assert (job.status, job.savepoints.known[0].state) == (Status.RUNNING, Proof.FAILED)
        assert job.requests.answer is not None
        assert (job.requests.answer.result, job.requests.answer.text) == (Result.FAILED, "no space left")

    on(script)


def test_one_that_is_being_taken_is_not_forgotten() -> None:
    async def script(jobs: JobStore) -> None:
        await begun(jobs)
        with pytest.raises(RequestRefused, match="is being taken"):
            await jobs.change(HIGHEST, savepoint_changes.forget(1))
        await jobs.change(LED, savepoint_changes.fail(1, SAVE.id, "no space left", NOW))
        assert (await jobs.change(HIGHEST, savepoint_changes.forget(1))).savepoints.known == ()

    on(script)


def test_the_newest_are_remembered_and_what_cannot_be_read_is_never_written_over() -> None:
    known = Savepoints()
    for number in range(1, REMEMBERED + 3):
        known = known.with_one(Savepoint(number, place(number), NOW, Proof.REHEARSED))
    assert [each.number for each in known.known] == list(range(3, REMEMBERED + 3))
    assert replace(known, readable=False).entries(Savepoints()) == {}


def test_a_savepoint_is_rehearsed_only_if_every_query_was_that_had_begun() -> None:
    assert MANIFEST.proof is Proof.REHEARSED
    assert replace(MANIFEST, queries=[query(), query("new", batch=-1, how="")]).proof is Proof.REHEARSED
    assert replace(MANIFEST, queries=[query(), query("other", how="")]).proof is Proof.VERIFIED
    assert replace(MANIFEST, queries=[query("new", batch=-1, how="")]).proof is Proof.VERIFIED


def test_a_manifest_of_a_newer_version_or_of_another_job_is_refused() -> None:
    assert Manifest.decode(MANIFEST.encode(), "there") == MANIFEST
    newer = MANIFEST.encode().replace(b'"version": 1', b'"version": 2')
    with pytest.raises(DocumentUnreadable, match="its version is 2"):
        Manifest.decode(newer, "there")
    store = MemoryBlobStore({"manifest.json": MANIFEST.encode()})
    one = Savepoint(1, place(1), NOW, Proof.REHEARSED)
    assert asyncio.run(saved_files.read_manifest(store, one, "c", "j")) == MANIFEST
    with pytest.raises(DocumentUnreadable, match="is of savepoint 1 of job j of cluster c"):
        asyncio.run(saved_files.read_manifest(store, one, "c", "other"))
    with pytest.raises(DocumentUnreadable, match="has no manifest"):
        asyncio.run(saved_files.read_manifest(MemoryBlobStore(), one, "c", "j"))


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def jobs(tmp_path: Path) -> JobStore:
    """A job with a savepoint on a disk."""
    documents = FilesystemDocumentStore(tmp_path / "ha" / "c" / "documents", 5.0)
    made = JobStore(documents, "c-j", "j", "job.py")

    async def begin() -> None:
        await ReplicaStore(documents, "c-replicas").join("j")
        await made.begin_attempt(1, "a", nothing_granted, Generation())
        store = FilesystemBlobStore(tmp_path / "store" / "savepoints" / "c" / "j" / "1", 5.0)
        for name, data in written()[0].items():
            await store.create(name, data)
        await made.ask(SAVE)
        await made.change(
            LED, savepoint_changes.begin(SAVE.id, lambda n: f"file://{tmp_path}/store/savepoints/c/j/{n}", NOW, ())
        )
        one = (await read(made)).savepoints.known[0]
        done = replace(one, state=Proof.REHEARSED, batches={"flights": 12})
        await made.change(LED, savepoint_changes.complete(done, "done", NOW, suspend=False))

    asyncio.run(begin())
    return made


def understudy(home: Path, *words: str) -> Any:
    """What the command line came to; an error of ours is its ``exception``."""
    return CliRunner().invoke(app, [words[0], "--ha-dir", str(home / "ha"), *words[1:]])


def test_savepoints_are_listed(jobs: JobStore, tmp_path: Path) -> None:
    assert "1  rehearsed  1970-01-01 00:16:40Z" in understudy(tmp_path, "savepoints").stdout
    shown = json.loads(understudy(tmp_path, "savepoints", "--json").stdout)
    assert [(each["number"], each["batches"]) for each in shown] == [(1, {"flights": 12})]


def test_a_fork_is_made_once_and_only_for_a_cluster_that_has_never_run(jobs: JobStore, tmp_path: Path) -> None:
    fork = ("fork", "--from", "1", "--job-id", "other", "--cluster-id")
    done = understudy(tmp_path, *fork, "new")
    assert done.exit_code == 0, done.exception
    made = tmp_path / "ha" / "new" / "checkpoints" / "other" / "flights"
    assert (made / "offsets" / "12").read_text() == "v1"
    assert "goes on after batch 12" in done.stdout
    assert "not into its sink (parquet /out)" in done.stdout
    again = understudy(tmp_path, *fork, "new")
    assert isinstance(again.exception, RequestRefused)
    assert "it is not empty" in str(again.exception)
    used = understudy(tmp_path, *fork, "c", "--from-cluster", "c")
    assert "a job has run under c already" in str(used.exception)
    assert isinstance(understudy(tmp_path, *fork, "Not An Id").exception, SettingsError)
    assert isinstance(understudy(tmp_path, *fork, "third", "--job-id", "Not An Id").exception, SettingsError)
    missing = understudy(tmp_path, "fork", "--from", "7", "--cluster-id", "third")
    assert isinstance(missing.exception, SettingsError)
    assert "There is 1" in str(missing.exception)


def test_a_fork_is_where_the_new_job_looks_for_the_checkpoints_of_its_queries(jobs: JobStore, tmp_path: Path) -> None:
    at = tmp_path / "store" / "savepoints" / "c" / "j" / "1"
    manifest = written()[1]
    named = replace(manifest, queries=[replace(manifest.queries[0], query="my flights/eu")])
    (at / "manifest.json").write_bytes(named.encode())
    fork = ("fork", "--from", "1", "--cluster-id", "new")
    unknown = understudy(tmp_path, *fork)
    assert isinstance(unknown.exception, SettingsError)
    assert "--job-id: the job of cluster c is called j" in str(unknown.exception)
    assert not (tmp_path / "ha" / "new").exists()
    done = understudy(tmp_path, *fork, "--job-id", "j")
    assert done.exit_code == 0, done.exception
    settings = RunSettings(Path(__file__), (), (), "new", "j", tmp_path / "ha", Timings())
    made = Path(settings.checkpoint_base) / "my flights/eu"
    assert (made / "offsets" / "12").read_text() == "v1"
    assert str(made) in done.stdout


def test_a_name_that_leads_elsewhere_is_none_of_a_forks_directory() -> None:
    odd = [replace(query(), query=name) for name in ("../up", "a//b", "same", "same", "", "x")]
    manifest = replace(MANIFEST, queries=odd)
    assert [saved_files.directory_for(each, manifest) for each in odd] == [*["flights"] * 5, "x"]


def test_what_is_disposed_of_is_gone_and_only_that(jobs: JobStore, tmp_path: Path) -> None:
    other = tmp_path / "store" / "savepoints" / "c" / "j" / "2"
    other.mkdir()
    assert isinstance(understudy(tmp_path, "dispose", "2").exception, SettingsError)
    assert understudy(tmp_path, "dispose", "1").exit_code == 0
    assert sorted(each.name for each in other.parent.iterdir()) == ["2"]
    assert "has no savepoint" in understudy(tmp_path, "savepoints").stdout


@pytest.mark.parametrize("command", [("dispose", "1"), ("fork", "--from", "1", "--cluster-id", "new", "--job-id", "j")])
def test_a_savepoint_on_a_disk_that_is_not_here_is_not_taken_for_one_that_is_gone(
    jobs: JobStore, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = asyncio.run(read(jobs)).savepoints
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").mkdir()  # where it is mounted on another machine
    done = understudy(tmp_path, *command)
    assert isinstance(done.exception, RequestRefused)
    assert f"{tmp_path}/store: this machine does not have that HA storage" in str(done.exception)
    assert f"make the directory {tmp_path}/store/savepoints/c/j here first" in str(done.exception)
    assert asyncio.run(read(jobs)).savepoints == before
    assert not (tmp_path / "ha" / "new").exists()


@pytest.mark.parametrize("left", ["probe", "savepoints/c/j/"])
def test_what_is_gone_from_a_disk_that_is_here_is_forgotten(jobs: JobStore, tmp_path: Path, left: str) -> None:
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    place = tmp_path / "store" / left
    (place if left.endswith("/") else place.parent).mkdir(parents=True)
    if not left.endswith("/"):
        place.touch()
    assert understudy(tmp_path, "dispose", "1").exit_code == 0
    assert asyncio.run(read(jobs)).savepoints.known == ()


def test_what_has_failed_in_the_directory_of_a_complete_one_is_not_disposed_of(jobs: JobStore, tmp_path: Path) -> None:
    failed = replace(asyncio.run(read(jobs)).savepoints.known[0], state=Proof.FAILED)
    later = replace(failed, at=NOW + 1)
    asyncio.run(jobs.change(HIGHEST, lambda job: replace(job, savepoints=job.savepoints.with_one(later))))
    done = understudy(tmp_path, "dispose", "1")
    assert isinstance(done.exception, RequestRefused)
    assert "this manifest is of another one" in str(done.exception)
    assert (tmp_path / "store" / "savepoints" / "c" / "j" / "1" / "manifest.json").exists()
    assert [each.number for each in asyncio.run(read(jobs)).savepoints.known] == [1]
    asyncio.run(jobs.change(HIGHEST, lambda job: replace(job, savepoints=job.savepoints.with_one(failed))))
    assert understudy(tmp_path, "dispose", "1").exit_code == 0, "its own"


def test_a_place_that_is_none_of_a_savepoint_is_not_touched(jobs: JobStore, tmp_path: Path) -> None:
    elsewhere = replace(asyncio.run(read(jobs)).savepoints.known[0], place=f"file://{tmp_path}")
    asyncio.run(jobs.change(HIGHEST, lambda job: replace(job, savepoints=job.savepoints.with_one(elsewhere))))
    assert "is no place of a savepoint" in str(understudy(tmp_path, "dispose", "1").exception)
    assert (tmp_path / "store").exists()


def test_a_savepoint_of_a_newer_spark_is_not_forked(
    jobs: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.cli.savepoints.version", lambda _: "4.1.0")
    done = understudy(tmp_path, "fork", "--from", "1", "--cluster-id", "new", "--job-id", "j")
    assert "was written by Spark 4.2.1, and this is 4.1.0" in str(done.exception)
    assert not (tmp_path / "ha" / "new").exists()


def test_only_to_suspend_may_follow(jobs: JobStore, tmp_path: Path) -> None:
    assert isinstance(understudy(tmp_path, "savepoint", "--then", "dance").exception, SettingsError)
