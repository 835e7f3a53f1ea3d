"""What may be removed, and what never is; and that removing it goes on until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.blobs import MemoryBlobStore
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Content
from understudy.errors import ServerUnreachable
from understudy.ha.checkpoints import Checkpoints
from understudy.ha.cleanup import Cleanup, Facts, Leftover, Place, expired, forgotten, plan, scratch_of
from understudy.ha.job import Job, Status
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.requests import Request, Requests
from understudy.ha.results import JobResult, JobResultStore
from understudy.ha.savepoints import Savepoint, Savepoints
from understudy.protocol.token import Token

RESULT = JobResult("c", "j", "monday", "FINISHED", "the script ended", int(Token(3, 1)), int(Token(2, 1)), 10.0, 20.0)
SCRATCH = ("c/a/q0.1/state", "c/a/q0.2/state", "c/b/q0.0/.x.crc", "other/d/q0.0/state")


def replica(holder: str) -> Replica:
    return Replica(holder, "standby", True, "live", 3, 0.0, "", "", 0, 1, "host", 1, "boot", 0.0)


@dataclass
class Stores:
    """Of cluster ``c`` with job ``j``, on a disk; blobs in memory."""

    replicas: ReplicaStore
    storage: MemoryBlobStore
    scratch: MemoryBlobStore

    @property
    def results(self) -> JobResultStore:
        return JobResultStore(self.storage, "c", "j")

    @property
    def cleanup(self) -> Cleanup:
        return Cleanup("c", self.results, self.replicas, self.scratch)

    async def remove_all(self, own: str = "") -> None:
        for each in await self.cleanup.find(own):
            await self.cleanup.remove(each)


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    documents = FilesystemDocumentStore(tmp_path, 5.0)
    scratch = MemoryBlobStore(dict.fromkeys(SCRATCH, b""))
    return Stores(ReplicaStore(documents, "c-replicas"), MemoryBlobStore(), scratch)


def once(fault: str, number: int) -> Callable[[str], str]:
    """Befalls the request of that number."""
    requests = iter(range(100))
    return lambda _: fault if next(requests) == number else ""


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


def test_the_same_facts_make_the_same_plan_and_no_facts_make_none() -> None:
    assert plan(Facts("c")) == ()
    facts = Facts("c", scratch=SCRATCH, living=["a"])
    assert plan(facts) == plan(facts) == (Leftover(Place.SCRATCH, "c/b/", "replica b is gone"),)


def test_scratch_of_the_living_and_of_other_clusters_stays(stores: Stores) -> None:
    async def script() -> None:
        await stores.replicas.join("j")
        await stores.replicas.publish(replica("a"))
        await stores.remove_all()
        assert set(stores.scratch.stored) == {name for name in SCRATCH if not name.startswith("c/b/")}
        await stores.remove_all(own="a")
        assert set(stores.scratch.stored) == {"other/d/q0.0/state"}

    run(script)


def test_a_replica_whose_entry_cannot_be_read_lives(stores: Stores, tmp_path: Path) -> None:
    async def script() -> None:
        await stores.replicas.join("j")
        documents = FilesystemDocumentStore(tmp_path, 5.0)
        seen = await documents.read("c-replicas")
        assert seen is not None
        await documents.replace(seen, Content({"replica.b": "what a later release writes"}, labels=seen.labels))
        assert [each.name for each in await stores.cleanup.find()] == ["c/a/"]

    run(script)


def test_a_dirty_result_goes_only_beside_a_clean_one(stores: Stores) -> None:
    async def script() -> None:
        tuesday = replace(RESULT, run="tuesday")
        await stores.results.begin(RESULT)
        await stores.results.begin(tuesday)
        stores.storage.fault = lambda verb: "lost" if verb == "delete" else ""
        with pytest.raises(ServerUnreachable):
            await stores.results.commit(RESULT)
        stores.storage.fault = lambda _: ""
        await stores.remove_all()
        below = "job-results/c/j"
        assert set(stores.storage.stored) == {f"{below}/monday/result.json", f"{below}/tuesday/result_DIRTY.json"}

    run(script)


@pytest.mark.parametrize("fault", ["lost", "late"])
def test_a_cleanup_that_is_killed_at_any_request_is_finished_by_the_next_one(stores: Stores, fault: str) -> None:
    """The request that broke off was done, or was not."""

    async def script() -> None:
        for broken in range(20):
            stores.scratch.stored = dict.fromkeys(SCRATCH, b"")
            stores.scratch.fault = once(fault, broken)
            try:
                await stores.remove_all()
            except ServerUnreachable:
                await stores.remove_all()
            else:
                assert broken == 3, "one listing, and two removals"
                return
            assert set(stores.scratch.stored) == {"other/d/q0.0/state"}
        raise AssertionError("it never came through")

    run(script)


def savepoint_names(*numbers: int, manifest: bool = True) -> list[str]:
    ends = ["firsts/metadata", "firsts.files", *(["manifest.json"] if manifest else [])]
    return [f"savepoints/c/j/{number}/{end}" for number in numbers for end in ends]


def job_with(*known: Savepoint, counter: int, asked: Request | None = None) -> Job:
    return Job(
        "j",
        "job.py",
        Status.RUNNING,
        Token(1, 1),
        Token(1, 1),
        "a",
        savepoints=Savepoints(known),
        requests=Requests(asked),
        checkpoints=Checkpoints(counter=counter),
    )


def savepoint(number: int, state: str, request: str = "old") -> Savepoint:
    return Savepoint(number, f"file:///s/{number}", 0.0, state, request)


def test_of_savepoints_only_what_has_failed_is_removed_without_being_asked() -> None:
    states = ("failed", "begun", "begun", "verified", "rehearsed", "of a newer release")
    known = [savepoint(number, state, "now" if number == 3 else "old") for number, state in enumerate(states, 1)]
    job = job_with(*known, counter=9, asked=Request("now", "savepoint"))
    facts = Facts("c", saved=savepoint_names(*range(1, 12), manifest=False), job=job)
    assert [(each.name, each.why) for each in plan(facts)] == [
        ("savepoints/c/j/1/", "savepoint 1 has failed"),
        ("savepoints/c/j/2/", "savepoint 2 has failed"),
    ]
    assert plan(replace(facts, saved=[])) == ()
    assert plan(replace(facts, saved=savepoint_names(1, 2))) == (), "their directories hold complete ones"
    assert plan(replace(facts, cluster="other")) == ()


def test_what_is_found_is_known_by_its_directory_and_not_by_its_number() -> None:
    known = replace(savepoint(2, "rehearsed"), place="file:///s/2-0123abcd")
    saved = [f"savepoints/c/j/{each}/firsts/metadata" for each in ("2", "2-0123abcd", "2-89abcdef", "2-other")]
    facts = Facts("c", saved=saved, job=job_with(known, counter=2))
    assert [each.name for each in forgotten(facts)] == ["savepoints/c/j/2/", "savepoints/c/j/2-89abcdef/"]


def test_a_person_removes_what_the_job_has_forgotten_and_nothing_that_a_restored_document_may_have_lost() -> None:
    full = [savepoint(number, "rehearsed") for number in range(10, 42)]
    saved = [*savepoint_names(2, 9, 10, 41, 44, 50), *savepoint_names(43, 51, manifest=False)]
    facts = Facts("c", saved=saved, job=job_with(*full, counter=45))
    assert [each.name for each in forgotten(facts)] == ["savepoints/c/j/2/", "savepoints/c/j/9/", "savepoints/c/j/43/"]
    fewer = replace(facts, job=job_with(*full[:31], counter=45))
    assert [each.name for each in forgotten(fewer)] == ["savepoints/c/j/43/"], "it has not forgotten any"
    unreadable = replace(job_with(counter=45), savepoints=Savepoints(readable=False))
    assert forgotten(replace(facts, job=unreadable)) == ()


def test_a_failed_savepoint_goes_manifest_first_and_a_complete_one_stays(stores: Stores) -> None:
    async def script() -> None:
        stores.storage.stored = dict.fromkeys([*savepoint_names(1, manifest=False), *savepoint_names(2)], b"")
        job = job_with(savepoint(1, "failed"), savepoint(2, "verified"), counter=2)
        (left,) = [each for each in await stores.cleanup.find(job=job) if each.place is Place.SAVEPOINTS]
        stores.storage.fault = once("lost", 1)
        with pytest.raises(ServerUnreachable):
            await stores.cleanup.remove(left)
        assert "savepoints/c/j/1/manifest.json" not in stores.storage.stored
        stores.storage.fault = lambda _: ""
        await stores.cleanup.remove(left)
        assert set(stores.storage.stored) == set(savepoint_names(2))

    run(script)


def test_results_expire_by_their_tokens_and_never_that_of_the_run_under_way() -> None:
    results = [replace(RESULT, run=name, token=number) for name, number in (("b", 2), ("a", 1), ("c", 3))]
    assert [each.run for each in expired(results, 1, "")] == ["a", "b"]
    assert [each.run for each in expired(results, 1, "a")] == ["b"]
    assert [each.run for each in expired(results, 0, "c")] == ["a", "b"]
    assert expired(results, 3, "") == []


def test_where_a_replica_writes_is_told_by_its_cluster() -> None:
    assert scratch_of("c", "a") == "c/a/"
    assert scratch_of("c") == "c/"
