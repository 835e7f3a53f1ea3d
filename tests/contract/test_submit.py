"""To submit and to clean up, on every backend of blobs: killed at any request, cut off, and met by others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testkit import s3
from tests.contract.blob_backends import Made, bucket
from tests.contract.mortal import Killed, Life, MortalBlobs, MortalDocuments
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.blobs.model import BlobStore
from understudy.documents.model import DocumentStore
from understudy.errors import RequestRefused, ServerUnreachable
from understudy.ha.artifacts import ArtifactStore, take_back
from understudy.ha.cleanup import Cleanup
from understudy.ha.draft import Draft, submit
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.results import JobResultStore
from understudy.ha.submissions import Submission
from understudy.protocol.names import Names
from understudy.protocol.token import HIGHEST

NAMES = Names("c", "j")


async def never() -> int:
    return 0


@dataclass
class Bench:
    """Job ``j`` of cluster ``c``: documents in memory, blobs where ``another`` has them."""

    home: Path
    another: Made
    server: MemoryServer = field(default_factory=MemoryServer)

    def draft(self, text: str) -> Draft:
        (self.home / "job.py").write_text(text)
        (self.home / "lib.py").write_text("x = 1")
        return Draft.of(("--py-files", str(self.home / "lib.py")), str(self.home / "job.py"), ())

    async def submit(self, draft: Draft, life: Life | None = None) -> Submission:
        blobs: BlobStore = self.another()
        documents: DocumentStore = MemoryDocumentStore(self.server)
        if life is not None:
            blobs, documents = MortalBlobs(blobs, life), MortalDocuments(documents, life)
        jobs = JobStore(documents, NAMES.job_document, NAMES.job, "")
        return (await submit(jobs, ArtifactStore(blobs, NAMES), draft, never, by="anna", at=1.0))[0]

    @property
    def jobs(self) -> JobStore:
        return JobStore(MemoryDocumentStore(self.server), NAMES.job_document, NAMES.job, "")

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore(self.another(), NAMES)

    async def job(self) -> Job | None:
        return await self.jobs.read()

    async def current(self) -> Submission | None:
        job = await self.job()
        return None if job is None else job.submissions.current

    async def clean_up(self, life: Life | None = None) -> None:
        """As ``understudy gc --remove`` does it."""
        blobs: BlobStore = self.another()
        documents: DocumentStore = MemoryDocumentStore(self.server)
        if life is not None:
            blobs, documents = MortalBlobs(blobs, life), MortalDocuments(documents, life)
        jobs = JobStore(documents, NAMES.job_document, NAMES.job, "")
        cleanup = Cleanup("c", JobResultStore(blobs, "c", "j"), ReplicaStore(documents, NAMES.replicas))
        job = await jobs.read()
        assert job is not None
        if number := await cleanup.broken_off(job):
            job = await jobs.change(HIGHEST, take_back(number))
        for each in await cleanup.find(job=job):
            await cleanup.remove(each)

    async def check_that_only_the_current_one_is_there(self) -> None:
        job = await self.job()
        assert job is not None
        assert await self.artifacts.needed(job.submissions) == await self.artifacts.there()


@pytest.fixture
def bench(tmp_path: Path, another: Made) -> Bench:
    return Bench(tmp_path, another)


def run(script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(script())


@pytest.mark.parametrize("done", [False, True])
def test_a_submitter_that_is_killed_at_any_request_leaves_what_ran_or_all_of_what_is_to_run(
    bench: Bench, done: bool
) -> None:
    async def script() -> None:
        for number in range(1, 30):
            before = await bench.current()
            draft = bench.draft(f"print({number})")
            try:
                await bench.submit(draft, Life(number, done))
            except Killed:
                standing = await bench.current()
                assert standing is None or await bench.artifacts.is_whole(standing), number
                await bench.submit(draft)
            else:
                assert number > 6, "a read, a script, a file, a manifest, another read and a write at least"
                return
            one = await bench.current()
            assert one is not None
            assert one != before
            assert await bench.artifacts.is_whole(one)
            await bench.clean_up()
            await bench.check_that_only_the_current_one_is_there()
        raise AssertionError("it never came through")

    run(script)


@pytest.mark.parametrize("done", [False, True])
def test_a_cleanup_that_is_killed_at_any_request_is_finished_by_the_next_one(bench: Bench, done: bool) -> None:
    async def script() -> None:
        for number in range(1, 40):
            for text in ("first", "last"):
                await bench.submit(bench.draft(f"print('{text} {number}')"))
            job = await bench.job()
            assert job is not None
            left = job.submissions.last + 1
            await bench.artifacts.keep(left, b"of one that broke off")
            try:
                await bench.clean_up(Life(number, done))
            except Killed:
                assert await bench.artifacts.is_whole(await bench.current() or pytest.fail("it is gone")), number
                await bench.clean_up()
                await bench.check_that_only_the_current_one_is_there()
            else:
                assert number > 6, "a read, a listing, a mark and two removals at least"
                return
        raise AssertionError("it never came through")

    run(script)


def test_a_submitter_whose_files_were_removed_on_the_way_is_refused_and_what_ran_goes_on(bench: Bench) -> None:
    async def script() -> None:
        before = await bench.submit(bench.draft("print(1)"))
        slow = bench.draft("print(2)")
        # all but the pointer
        with pytest.raises(Killed):
            await bench.submit(slow, Life(5, done=True))
        manifest = slow.manifest(NAMES).encode()
        await bench.clean_up()
        from understudy.blobs.digest import sha256
        from understudy.ha.artifacts import give

        late = Submission(before.number + 1, sha256(manifest), "job.py")
        with pytest.raises(RequestRefused):
            await bench.jobs.change(HIGHEST, give(late))
        assert await bench.current() == before
        assert await bench.artifacts.is_whole(before)
        assert (await bench.submit(slow)).number == before.number + 2

    run(script)


def test_two_submitters_at_once_store_two_whole_submissions_or_one_is_refused(bench: Bench, tmp_path: Path) -> None:
    async def script() -> None:
        drafts = [bench.draft("print(1)")]
        other = tmp_path / "other"
        other.mkdir()
        drafts.append(Bench(other, bench.another).draft("print(2)"))
        told = await asyncio.gather(*map(bench.submit, drafts), return_exceptions=True)
        assert {type(each) for each in told} <= {Submission, RequestRefused}
        one = await bench.current()
        assert one is not None
        assert one in told
        assert await bench.artifacts.is_whole(one)

    run(script)


class TestS3:
    def test_an_upload_that_breaks_off_is_never_pointed_to(self, server: int, tmp_path: Path) -> None:
        """The line breaks in the middle of the body of every PUT."""

        async def script() -> None:
            prefix = f"torn-{tmp_path.name}"
            with s3.S3Proxy(server, lambda line: "torn" if line.startswith("PUT") else "pass").running() as proxy:
                cut = Bench(tmp_path, lambda: bucket(proxy.port, prefix, timeout=5.0))
                with pytest.raises(ServerUnreachable):
                    await cut.submit(cut.draft("print(1)" * 40_000))
                assert await cut.job() is None
            whole = Bench(tmp_path, lambda: bucket(server, prefix), cut.server)
            one = await whole.submit(whole.draft("print(1)" * 40_000))
            assert await whole.artifacts.is_whole(one)

        run(script)

    def test_a_bucket_that_is_away_is_an_error_and_no_job_is_begun(self, server: int, tmp_path: Path) -> None:
        async def script() -> None:
            with s3.S3Proxy(server, lambda _: "503").running() as proxy:
                away = Bench(tmp_path, lambda: bucket(proxy.port, "away", timeout=1.0))
                with pytest.raises(ServerUnreachable):
                    await away.submit(away.draft("print(1)"))
                assert await away.job() is None

        run(script)
