"""What an ended run leaves, on every backend of blobs: the contract of FLIP-194's store of results, and a cleanup that is killed anywhere."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.contract.blob_backends import Made
from tests.contract.mortal import Killed, Life, MortalBlobs
from understudy.blobs.model import BlobStore
from understudy.config.timings import Timings
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import DocumentUnreadable
from understudy.events import Log
from understudy.ha.cleanup import Cleanup
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.results import JobResult, JobResultStore, as_job
from understudy.protocol.token import Token
from understudy.supervisor.results import Results
from understudy.supervisor.settings import RunSettings

RESULT = JobResult("c", "j", "monday", "FINISHED", "the script ended", int(Token(3, 1)), int(Token(2, 1)), 10.0, 20.0)
BELOW = "job-results/c/j/monday"
DIRTY, CLEAN = f"{BELOW}/result_DIRTY.json", f"{BELOW}/result.json"
#: Left by two replicas that are gone, by one that lives, and by a replica of another cluster.
SCRATCH = ("c/dead/q0.1/state", "c/dead/q0.2/state", "c/gone/q0.0/state", "c/lives/q0.0/state", "other/dead/q0.0/state")


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


async def settle(blobs: BlobStore, replicas: ReplicaStore, home: Path, *, deletes: bool) -> None:
    """As a replica of an ended run does it."""
    store = JobResultStore(blobs, "c", "j", delete_on_commit=deletes)
    (home / "job.py").touch()
    settings = RunSettings(home / "job.py", (), (), "c", "j", home, Timings())
    jobs = JobStore(FilesystemDocumentStore(home / "documents", 30.0), "c-j", "j", "job.py")
    cleanup = Cleanup("c", store, replicas, blobs)
    log = Log(stream=io.StringIO())
    results = Results(settings, store, jobs, replicas, cleanup, "ends", stays=False, log=log)
    await results.settle(as_job([RESULT]), asyncio.Event())


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("done", [False, True])
def test_a_replica_that_is_killed_at_any_request_leaves_what_the_next_one_finishes(
    another: Made, tmp_path: Path, done: bool, deletes: bool
) -> None:
    async def script() -> None:
        replicas = ReplicaStore(FilesystemDocumentStore(tmp_path / "documents", 30.0), "c-replicas")
        await replicas.join("j")
        await replicas.publish(Replica("lives", "standby", True, "live", 3, 0.0, "", "", 0, 1, "host", 1, "boot", 0.0))
        left = {"c/lives/q0.0/state", "other/dead/q0.0/state", *(() if deletes else (CLEAN,))}
        store = another()
        for number in range(1, 30):
            for name in SCRATCH:
                await store.create(name, b"")
            try:
                await settle(MortalBlobs(another(), Life(number, done)), replicas, tmp_path, deletes=deletes)
            except Killed:
                await settle(store, replicas, tmp_path, deletes=deletes)
            else:
                assert number > 5, "a result, a listing, two removals and a commit at least"
                return
            assert set(await store.names("")) == left, number
            await store.discard(f"{BELOW}/")
        raise AssertionError("it never came through")

    run(script)


class TestContractOfFlip194:
    """Flink's contract, by the names of ``JobResultStoreContractTest`` and ``FileSystemJobResultStoreFileOperationsTest``.

    What differs: an entry that is there already, or is not there, is no error but an answer, as any replica writes them.
    """

    @pytest.fixture
    def results(self, store: BlobStore) -> JobResultStore:
        return JobResultStore(store, "c", "j")

    def test_store_job_results_with_duplicate_ids_keeps_the_first(self, results: JobResultStore) -> None:
        async def script() -> None:
            assert await results.begin(RESULT) == RESULT
            assert await results.begin(replace(RESULT, status="CANCELED")) == RESULT

        run(script)

    def test_store_dirty_entry_for_already_cleaned_job_result_changes_nothing(self, results: JobResultStore) -> None:
        async def script() -> None:
            await results.commit(await results.begin(RESULT))
            assert await results.begin(replace(RESULT, status="CANCELED")) == RESULT
            assert await results.names() == [CLEAN]

        run(script)

    def test_cleaning_duplicate_entry_is_no_error(self, results: JobResultStore) -> None:
        async def script() -> None:
            for _ in range(2):
                await results.commit(await results.begin(RESULT))
            assert await results.names() == [CLEAN]

        run(script)

    def test_cleaning_non_existent_entry_stores_a_clean_one(self, results: JobResultStore) -> None:
        """Flink's throws. Ours knows the result from the job's document, and has nothing of the run left to remove."""

        async def script() -> None:
            await results.commit(RESULT)
            assert await results.names() == [CLEAN]

        run(script)

    def test_has_job_result_entry_with_dirty_entry_with_clean_entry_and_with_empty_store(
        self, results: JobResultStore
    ) -> None:
        async def script() -> None:
            assert await results.read("monday") is None
            await results.begin(RESULT)
            assert await results.read("monday") == RESULT
            await results.commit(RESULT)
            assert await results.read("monday") == RESULT
            assert await results.read("tuesday") is None

        run(script)

    def test_get_dirty_results_with_no_entry_with_dirty_entry_and_with_dirty_and_clean_entry(
        self, results: JobResultStore
    ) -> None:
        async def script() -> None:
            async def dirty() -> list[str]:
                return [name for name in await results.names() if name.endswith("_DIRTY.json")]

            assert await dirty() == []
            await results.begin(RESULT)
            assert await dirty() == ["job-results/c/j/monday/result_DIRTY.json"]
            await results.commit(RESULT)
            await results.begin(replace(RESULT, run="tuesday"))
            assert await dirty() == ["job-results/c/j/tuesday/result_DIRTY.json"]

        run(script)

    def test_delete_on_commit_leaves_neither(self, store: BlobStore) -> None:
        async def script() -> None:
            results = JobResultStore(store, "c", "j", delete_on_commit=True)
            await results.commit(await results.begin(RESULT))
            assert await results.names() == []

        run(script)

    def test_what_was_kept_before_stays_when_results_are_deleted_on_commit(self, store: BlobStore) -> None:
        async def script() -> None:
            kept = JobResultStore(store, "c", "j")
            await kept.commit(await kept.begin(RESULT))
            results = JobResultStore(store, "c", "j", delete_on_commit=True)
            await results.commit(await results.begin(RESULT))
            assert await results.read("monday") == RESULT

        run(script)

    def test_job_result_serialization_deserialization_and_version_serialization(
        self, store: BlobStore, results: JobResultStore
    ) -> None:
        """Also by an older release of fields it does not know, and refused by name where the version is a later one."""

        async def script() -> None:
            body = {**json.loads(RESULT.encode()), "later": 1}
            await store.create(CLEAN, json.dumps(body).encode())
            assert await results.read("monday") == RESULT
            await store.delete(CLEAN)
            await store.create(CLEAN, json.dumps({**body, "version": 2}).encode())
            with pytest.raises(DocumentUnreadable, match="version 2"):
                await results.read("monday")

        run(script)
