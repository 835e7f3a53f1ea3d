"""``understudy resume --accept-checkpoint``: a root that is lost is forgotten, by its name and no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from understudy.cli.resume import Wished, _resume
from understudy.cli.where import Where
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import SettingsError
from understudy.ha.generation import Generation
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore

ROOTS = ("file:/data/checkpoint", "s3a://bucket/out")


async def _none() -> int:
    return 0


@pytest.fixture
def jobs(tmp_path: Path) -> JobStore:
    store = FilesystemDocumentStore(tmp_path / "c" / "documents", 5.0)
    jobs = JobStore(store, "c-j", "j", script="")

    async def lead() -> None:
        await ReplicaStore(store, "c-replicas").join("j")
        job = await jobs.begin_attempt(1, "a", _none, Generation(1, "code"))
        await jobs.claims(job.token, ROOTS)

    asyncio.run(lead())
    return jobs


def recorded(jobs: JobStore) -> tuple[str, ...]:
    job = asyncio.run(jobs.read())
    assert job is not None
    return tuple(job.claimed.tokens)


@pytest.mark.parametrize("given", ["/data/checkpoint", "/data/checkpoint/", "file:/data/checkpoint"])
def test_an_accepted_root_is_forgotten_and_the_others_stay(jobs: JobStore, tmp_path: Path, given: str) -> None:
    _, said = asyncio.run(_resume(Where(tmp_path, "c", "", ""), Wished((given,))))
    assert "takes file:/data/checkpoint as it is now" in said
    assert recorded(jobs) == ("s3a://bucket/out",)


def test_a_root_that_is_not_recorded_is_not_accepted(jobs: JobStore, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has recorded no /data/check.* Name one of: file:/data/checkpoint, s3a"):
        asyncio.run(_resume(Where(tmp_path, "c", "", ""), Wished(("/data/check", "s3a://bucket/out"))))
    assert set(recorded(jobs)) == set(ROOTS)
