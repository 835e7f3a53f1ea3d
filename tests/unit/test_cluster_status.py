"""What ``understudy status`` shows of replicas that say otherwise than the lock."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.doctor_builders import TOKEN, Ward
from tests.unit.election_builders import FAST, NAME, join, virtually
from understudy.election.retrieval import ComponentLeader
from understudy.election.state import Role
from understudy.ha.components import ENDPOINT
from understudy.ha.generation import Generation
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.token import Token
from understudy.supervisor.cluster_status import ClusterStatus, _committed_at, read_cluster_status

CLUSTER = NAME.removesuffix("-lock")
STALE = Replica("cut-off_1", "leader", True, "live", 4, 1.0, "", "", 1, 7, "cut-off", 1, "boot", 1.0, "10.0.0.1:8080")


def test_a_leader_that_was_deposed_and_does_not_know_it_is_not_shown_as_one() -> None:
    async def look() -> ClusterStatus:
        server = MemoryServer()
        member = join(server, "new_2")
        await member.until(Role.LEADING)
        documents = MemoryDocumentStore(server)
        replicas = ReplicaStore(documents, f"{CLUSTER}-replicas")
        await replicas.join("flights")
        for each in (STALE, replace(STALE, holder="new_2", host="new", address="10.0.0.2:8080")):
            await replicas.publish(each, [])
        await asyncio.sleep(FAST.retry)
        return await read_cluster_status(documents, documents, CLUSTER)

    picture = virtually(look())
    assert {each.host: each.role for each in picture.replicas} == {"cut-off": "deposed", "new": "leader"}
    lines = picture.lines(2.0)
    assert lines[1].startswith("leader  new at 10.0.0.2:8080   epoch 1")
    assert [line.split()[0] for line in lines if "leads" in line] == ["new"]


def test_the_address_is_the_one_that_the_leader_has_confirmed() -> None:
    """Of one that leads no more, only what another replica says of itself counts."""

    async def look(holder: str) -> str:
        server = MemoryServer()
        member = join(server, "new_2")
        await member.until(Role.LEADING)
        documents = MemoryDocumentStore(server)
        replicas = ReplicaStore(documents, f"{CLUSTER}-replicas")
        await replicas.join("flights")
        await replicas.publish(replace(STALE, holder="new_2", host="new", address="of-the-replica:1"), [])

        def confirmed(job: Job) -> Job:
            leaders = {ENDPOINT: ComponentLeader(Token(1, 0), holder, "confirmed:1")}
            return replace(job, components=job.components.under(1, job.holder, leaders))

        jobs = JobStore(documents, f"{CLUSTER}-flights", "flights", "job.py")
        await jobs.begin_attempt(1, holder, nothing_granted, Generation(), also=confirmed)
        return (await read_cluster_status(documents, documents, CLUSTER)).endpoint

    assert virtually(look("new_2")) == "confirmed:1"
    assert virtually(look("gone_1")) == "of-the-replica:1"


def test_a_standby_that_knows_one_of_four_queries_is_not_shown_as_rehearsed_and_no_more() -> None:
    leader = replace(STALE, holder="new_2", host="new", queries=4, held="")
    knows = replace(STALE, holder="a_1", role="standby", host="knows", queries=4, held="job.py:9")
    lacks = replace(STALE, holder="b_1", role="standby", host="lacks", queries=1, held="job.py:5")
    older = replace(STALE, holder="c_1", role="standby", host="older", held="job.py:9")
    shown = ClusterStatus("c", "j", "RUNNING", "new_2", 1, 1, 0, None, 0, [leader, knows, lacks, older], [])
    notes = {line.split()[0]: line for line in shown.lines(2.0) if "job.py" in line}
    assert notes["lacks"].endswith("rehearsed 1 of 4 queries, held at job.py:5")
    assert notes["knows"].endswith("job.py:9")
    assert notes["older"].endswith("job.py:9"), "an older image does not say how many"


def test_an_entry_of_a_checkpoint_that_goes_while_it_is_looked_at_is_left_out(tmp_path: Path) -> None:
    """Spark removes old entries between the listing and the look; the command ended with a traceback."""
    commits = tmp_path / "commits"
    commits.mkdir()
    (commits / "7").touch()
    os.utime(commits / "7", (1000.0, 1000.0))
    (commits / "6").symlink_to(tmp_path / "it is gone")
    assert _committed_at(tmp_path) == [1000.0]
    assert _committed_at(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("renewed", "told"), [(5.0, False), (44.0, False), (46.0, True), (-3600.0, False), (None, False)]
)
def test_a_leader_whose_record_has_outlived_its_lease_is_not_shown_as_if_it_led(
    renewed: float | None, told: bool
) -> None:
    """All replicas were killed: the record stays, and status showed its leader for days."""
    shown = ClusterStatus("c", "j", "RUNNING", "new_2", 1, 1, 0, None, 0, [], [], lease_s=15.0, renewed_age_s=renewed)
    assert any("not renewed for" in line for line in shown.lines(2.0)) is told


def test_the_age_of_a_renewal_is_read_of_the_record(tmp_path: Path) -> None:
    async def look() -> ClusterStatus:
        ward = Ward(tmp_path, ahead=-3600.0)
        await ward.begin()
        return await read_cluster_status(ward.documents, ward.documents, "c")

    picture = asyncio.run(look())
    assert picture.lease_s is not None
    assert picture.renewed_age_s == pytest.approx(3600.0, abs=60.0)
    assert [line.split()[0] for line in picture.lines(time.time())[:3]] == ["cluster", "leader", "not"]


def test_what_a_leader_has_noted_counts_beside_an_older_checkpoint_on_a_disk(tmp_path: Path) -> None:
    """One query writes to a bucket, another one's directory is here: status told the age of the latter alone."""

    async def look() -> ClusterStatus:
        ward = Ward(tmp_path)
        await ward.begin()
        for each in (ward.checkpoint / "commits").iterdir():
            os.utime(each, (1000.0, 1000.0))
        await ward.jobs.committed(TOKEN, time.time() - 30.0)
        return await read_cluster_status(ward.documents, ward.documents, "c")

    assert asyncio.run(look()).commit_age_s == pytest.approx(30.0, abs=10.0)
