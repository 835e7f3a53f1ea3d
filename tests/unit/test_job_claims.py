"""One start of a driver claims its job: what of it a pod can know that has never led."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.config.timings import Timings
from understudy.documents.model import Content
from understudy.errors import DocumentEmptied, IdentityConflict
from understudy.fencing.claim import Claimed, Reason, claim
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.moved import Moved, State
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.ha.requests import Action, Request
from understudy.protocol.claim import Claim
from understudy.protocol.token import NONE, Token
from understudy.supervisor.claims import JobClaims, claimed_by_another
from understudy.supervisor.settings import RunSettings

CODE = Generation(1, "c0de")
LEADER = Replica("a", "leader", False, "", 0, 0.0, "", "", 1, 1, "a", 0, "", 0.0)


class Lock:
    async def raise_above(self, epoch: int) -> int | None:
        return epoch + 1


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    script = tmp_path / "flights.py"
    script.touch()
    return RunSettings(script, (), (), "flights", "flights", tmp_path, Timings())


class Cluster:
    """Documents that all pods see, and HA storage that each pod has for itself."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.documents = MemoryDocumentStore(MemoryServer())
        self.replicas = ReplicaStore(self.documents, settings.names.replicas)

    def pod(self, holder: str) -> JobClaims:
        settings = self.settings
        jobs = JobStore(self.documents, settings.names.job_document, settings.job, str(settings.script))
        return JobClaims(settings, holder, jobs, self.replicas, MemoryDocumentStore(MemoryServer()))

    async def begin(self, pod: JobClaims, epoch: int) -> Token:
        job = await pod.begin_attempt(epoch, CODE, Lock(), NONE)
        assert job is not None
        return job.token

    async def led(self) -> None:
        """A pod has joined, led and told of it."""
        await self.replicas.join("flights")
        await self.begin(self.pod("a"), 1)
        await self.replicas.publish(LEADER)

    def lose(self, name: str) -> None:
        del self.documents.server.stored[name]


def test_a_job_whose_document_is_lost_while_nobody_leads_is_not_begun_again_by_a_pod_that_never_led(
    settings: RunSettings,
) -> None:
    async def run() -> None:
        cluster = Cluster(settings)
        await cluster.led()
        cluster.lose(settings.names.job_document)
        with pytest.raises(DocumentEmptied, match="is missing"):
            await cluster.begin(cluster.pod("b"), 2)

    asyncio.run(run())


def test_a_leader_that_died_before_it_claimed_leaves_a_new_job(settings: RunSettings) -> None:
    async def run() -> None:
        cluster = Cluster(settings)
        await cluster.replicas.join("flights")
        assert await cluster.begin(cluster.pod("b"), 2) == Token(2, 1)

    asyncio.run(run())


def test_where_every_document_is_lost_the_job_is_new_and_the_claims_in_its_roots_are_what_is_left(
    settings: RunSettings,
) -> None:
    async def run() -> None:
        cluster = Cluster(settings)
        await cluster.led()
        cluster.lose(settings.names.job_document)
        cluster.lose(settings.names.replicas)
        await cluster.replicas.join("flights")
        assert await cluster.begin(cluster.pod("b"), 1) == Token(1, 1)

    asyncio.run(run())


def planted(root: Path, epoch: int) -> str:
    """A claim as the JVM leaves it."""
    (root / "_understudy").mkdir(parents=True)
    body = Claim(Token(epoch, 1), "a", "flights", "flights", "file").to_body()
    (root / "_understudy" / "claim@1").write_text(json.dumps(body))
    return str(root)


@pytest.mark.parametrize("how", ["a file stands there", "the claim is damaged", "the disk hangs"])
def test_an_abandoned_root_that_cannot_be_read_stops_no_election_and_is_told_of_once(
    settings: RunSettings, tmp_path: Path, how: str
) -> None:
    async def script() -> None:
        cluster, told = Cluster(settings), list[str]()
        pod = replace(cluster.pod("a"), unread=told.append)
        token = await cluster.begin(pod, 3)
        old, claim = tmp_path / "old", tmp_path / "old" / "_understudy" / "claim@3"
        if how == "a file stands there":
            old.write_text("kept here now")
        else:
            claim.parent.mkdir(parents=True)
            os.mkfifo(claim) if how == "the disk hangs" else claim.write_text('{"version": 1, "tok')
        await pod.jobs.claims(token, (str(old), planted(tmp_path / "new", 7)))
        assert [await pod.highest_epoch(CODE) for _ in range(3)] == [7, 7, 7]
        (only,) = told
        assert str(old) in only
        if how == "the disk hangs":
            os.close(os.open(claim, os.O_RDWR))

    asyncio.run(script())


def test_a_root_that_can_be_read_again_counts_again(settings: RunSettings, tmp_path: Path) -> None:
    async def script() -> None:
        cluster = Cluster(settings)
        pod = cluster.pod("a")
        token = await cluster.begin(pod, 3)
        root = tmp_path / "root"
        root.write_text("in the way")
        await pod.jobs.claims(token, (str(root),))
        assert await pod.highest_epoch(CODE) == 3
        root.unlink()
        planted(root, 9)
        assert await pod.highest_epoch(CODE) == 9

    asyncio.run(script())


@pytest.mark.parametrize("reason", sorted(set(get_args(Reason)) - {"higher-token"}))
def test_a_claim_that_refuses_ours_is_told_for_what_it_is(reason: str) -> None:
    told = str(claimed_by_another("/checkpoint", reason))
    assert told.startswith("/checkpoint: claimed")
    assert f"({reason})" in told
    assert len({str(claimed_by_another("/x", each)).partition("(")[0] for each in get_args(Reason)}) == len(
        get_args(Reason)
    )


def test_an_epoch_that_was_granted_twice_is_claimed_by_one_of_the_two(settings: RunSettings) -> None:
    """The lock was deleted between a grant and its first claim, and nothing told of that epoch when the next one was chosen."""

    async def run() -> None:
        cluster = Cluster(settings)
        first, second = cluster.pod("a"), cluster.pod("b")
        assert await cluster.begin(first, 1) == Token(1, 1)
        assert await cluster.begin(second, 1) == Token(2, 1)
        assert await cluster.begin(second, 2) == Token(2, 2)

    asyncio.run(run())


def test_a_job_that_was_moved_goes_on_above_its_claims_under_the_lock_it_was_moved_from(settings: RunSettings) -> None:
    """HA storage of this machine still has the claim of the old lock; one above the epoch of the move stays refused."""

    async def run(standing: int) -> int:
        cluster = Cluster(settings)
        here = Moved(State.HERE, "m", "elsewhere", "here", "file", 7, {"lease": 7})
        await cluster.documents.create(settings.names.replicas, Content({"moved": here.encode()}))
        await cluster.replicas.join("flights")
        pod = cluster.pod("b")
        left = Claim(Token(standing, 2), "a", "flights", "flights", "lease")
        assert isinstance(await claim(pod.claims, "claim", left), Claimed)
        before = await pod.highest_epoch(CODE)
        jobs = JobStore(cluster.documents, settings.names.job_document, "flights", "flights.py")
        await jobs.begin_attempt(1, "a", nothing_granted, CODE)
        assert (await cluster.begin(pod, before + 1)).epoch == before + 1
        return before

    assert asyncio.run(run(5)) == 7
    with pytest.raises(IdentityConflict, match="HA storage is claimed"):
        asyncio.run(run(8))


def test_a_run_that_the_next_one_cancels_has_its_result_before_that_one_begins(settings: RunSettings) -> None:
    """It was DRAINING, was to be canceled, and no replica of it was left."""
    seen: list[tuple[str, str]] = []

    async def run() -> None:
        cluster = Cluster(settings)
        cluster.settings = replace(settings, run_id="first")
        first = cluster.pod("a")
        token = await cluster.begin(first, 1)
        await first.jobs.ask(Request("d1", Action.DRAIN))
        await first.jobs.drain(token, "d1", ())
        await first.jobs.ask(Request("c1", Action.CANCEL))
        cluster.settings = replace(settings, run_id="second")
        second = cluster.pod("b")

        async def before_another_run() -> None:
            job = await second.jobs.read()
            assert job is not None
            seen.append((job.runs.run, job.status.value))

        results: Any = SimpleNamespace(before_another_run=before_another_run)
        assert await cluster.begin(replace(second, results=results), 2) == Token(2, 2)
        job = await second.jobs.read()
        assert job is not None
        assert (job.runs.run, job.status) == ("second", Status.RUNNING)

    asyncio.run(run())
    assert seen == [("first", "DRAINING"), ("first", "CANCELED")]
