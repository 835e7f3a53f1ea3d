"""``understudy claims move``, from each backend to another and back: killed before each of its requests, and repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from tests.contract.backends import Filesystem, Memory, Servers
from tests.contract.moving import (
    EPOCH,
    NAMES,
    PAIRS,
    THEN,
    Ends,
    Killed,
    Requests,
    api_server,
    begin,
    check_arrived,
    check_one_starts,
    lead,
    make_ends,
    one,
    replica,
    started,
)
from understudy.documents.model import Content, Document, LeaderRecord, Written
from understudy.election.records import GRANT, GrantEntry
from understudy.errors import DocumentError, JobNotBegun, RequestRefused
from understudy.fencing.claim import why_refused
from understudy.ha.job import Job
from understudy.ha.replicas import ReplicaStore
from understudy.protocol.claim import Claim
from understudy.protocol.token import Token


@pytest.fixture(params=PAIRS)
def ends(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Callable[[], Ends]:
    """Makes two places where nothing is."""
    numbers = count()
    return lambda: make_ends(request.param, tmp_path / f"{tmp_path.name}-{next(numbers)}", servers)


async def killed_and_repeated(way: Ends, last: int, job: Job) -> bool:
    """Whether it has fewer requests than ``last``."""
    requests = Requests(last)
    try:
        await way.moved(requests)
    except Killed:
        await check_one_starts(way)
        await way.moved()
    assert await way.moved() == []
    await check_arrived(way, job)
    return requests.sent < last


def test_killed_before_any_request_it_goes_on_and_never_do_both_places_start(ends: Callable[[], Ends]) -> None:
    """There, and back again; killed at the same request of both."""

    async def run() -> None:
        for last in count(1):
            there = ends()
            job = await begin(there.old, there.old_lock)
            whole = [await killed_and_repeated(way, last, job) for way in (there, there.back)]
            if all(whole):
                return

    asyncio.run(run())


def test_a_replica_at_the_new_place_leads_with_an_epoch_above(ends: Callable[[], Ends]) -> None:
    """There and back, and at each end it is the real elector that leads, at once."""
    granted: list[int] = []

    async def run() -> None:
        there = ends()
        await begin(there.old, there.old_lock)
        await there.moved()
        granted.append(await lead(there.new, there.new_lock))
        await there.back.moved()
        granted.append(await lead(there.old, there.old_lock))

    asyncio.run(run())
    assert granted == [EPOCH + 1, EPOCH + 2]


def test_the_lock_that_is_made_has_times_as_an_api_server_takes_them(there: Ends) -> None:
    async def run() -> None:
        await begin(there.old, there.old_lock)
        await there.moved()
        lock = await there.new.locks[there.new_lock].read(NAMES.lock)
        assert lock is not None
        assert lock.leader is not None
        made = "1970-01-01T00:16:40.000000Z"  # but one that is free and covered stays as it was
        assert {lock.leader.acquired, lock.leader.renewed} == {THEN if there.new_lock == "multi" else made}

    asyncio.run(run())


@pytest.fixture
def there(ends: Callable[[], Ends]) -> Ends:
    return ends()


async def stored(ends: Ends) -> list[Document | None]:
    stores = [ends.old.documents, ends.new.documents]
    found = [await store.read(name) for store in stores for name in (NAMES.job_document, NAMES.replicas)]
    return [*found, await ends.old.locks[ends.old_lock].read(NAMES.lock)]


def test_a_lock_that_is_renewed_refuses_the_move_and_nothing_is_changed(there: Ends) -> None:
    async def run() -> None:
        await begin(there.old, there.old_lock, released=False)
        lock = there.old.locks[there.old_lock]

        async def renewed(seconds: float) -> None:
            assert seconds == 1.0
            seen = await lock.read(NAMES.lock)
            assert seen is not None
            assert isinstance(await lock.replace(seen, Content({"renewed": "1"}, seen.leader)), Written)

        waiting = replace(there.move(), sleep=renewed)
        before = (await stored(there))[:4]
        with pytest.raises(RequestRefused, match="replica a leads the job"):
            _ = [each async for each in waiting.run()]
        assert (await stored(there))[:4] == before

    asyncio.run(run())


def test_a_lock_that_a_dead_leader_holds_is_watched_for_a_lease_and_left(there: Ends) -> None:
    async def run() -> None:
        job = await begin(there.old, there.old_lock, released=False)
        waited: list[float] = []

        async def wait(seconds: float) -> None:
            waited.append(seconds)

        assert [each async for each in replace(there.move(), sleep=wait).run()]
        assert set(waited) == {1.0}
        await check_arrived(there, job)

    asyncio.run(run())


def test_replicas_that_run_refuse_the_move_until_a_person_says_that_they_were_killed(there: Ends) -> None:
    async def run() -> None:
        job = await begin(there.old, there.old_lock)
        await ReplicaStore(there.old.documents, NAMES.replicas).publish(replica("b"))
        before = await stored(there)
        with pytest.raises(RequestRefused, match="replicas run: b"):
            await there.moved()
        assert await stored(there) == before
        assert await there.moved(ended=True)
        await check_arrived(there, job)
        assert not await ReplicaStore(there.new.documents, NAMES.replicas).read()

    asyncio.run(run())


def test_a_lock_that_was_taken_meanwhile_is_not_buried(there: Ends) -> None:
    """Its compare-and-set is on what was seen before both places refused."""

    async def run() -> None:
        await begin(there.old, there.old_lock)
        lock = there.old.locks[there.old_lock]
        steps = there.move().run()
        await anext(steps)
        taken = await lock.read(NAMES.lock)
        assert taken is not None
        grant = GrantEntry(EPOCH + 1, "b", "taken", lock=there.old_lock)
        leader = LeaderRecord("b", 1.0, THEN, THEN, 1)
        assert isinstance(await lock.replace(taken, Content({GRANT: grant.encode()}, leader)), Written)
        with pytest.raises(DocumentError, match="it has changed meanwhile"):
            _ = [each async for each in steps]
        now = await lock.read(NAMES.lock)
        assert now is not None
        assert not now.buried

    if there.new_lock != "multi":  # which leaves no lock, and makes its own by compare-and-set on both
        asyncio.run(run())


def test_other_data_at_the_new_place_stay(there: Ends) -> None:
    async def run() -> None:
        await begin(there.old, there.old_lock)
        await begin(there.new, there.new_lock)
        before = await stored(there)
        with pytest.raises(RequestRefused, match="there is other HA data already"):
            await there.moved()
        assert await stored(there) == before

    if there.old is not there.new:
        asyncio.run(run())


def test_a_job_that_no_replica_has_led_yet_goes_there_and_back(there: Ends) -> None:
    async def run() -> None:
        await ReplicaStore(there.old.documents, NAMES.replicas).join("flights")
        for way in (there, there.back):
            assert await way.moved()
            assert await way.moved() == []
            await started(way.new, way.new_lock)
        assert await lead(there.old, there.old_lock) == 1

    asyncio.run(run())


def test_where_no_replica_has_ever_run_there_is_nothing_to_move(there: Ends) -> None:
    with pytest.raises(JobNotBegun, match="no replica has ever run"):
        asyncio.run(there.moved())


def test_a_move_from_the_old_place_to_a_third_one_is_refused_with_where_the_job_is(tmp_path: Path) -> None:
    async def run() -> None:
        old, new, third = (
            one(f"--ha-dir {number}", Filesystem(tmp_path / f"{number}").client(), "file") for number in range(3)
        )
        await begin(old, "file")
        await Ends(old, "file", new, "file").moved()
        with pytest.raises(RequestRefused, match="the job has moved to --ha-dir 1 --lock file before"):
            await Ends(old, "file", third, "file").moved()
        await Ends(new, "file", third, "file").moved()
        assert (await started(third, "file")).epoch_before == EPOCH

    asyncio.run(run())


def test_claims_of_every_place_before_are_followed_and_later_ones_are_not(tmp_path: Path) -> None:
    """File, then kinds of a cluster, then file again: what a replica of each may claim after the others."""

    def claim(epoch: int, lock: str) -> Claim:
        return Claim(Token(epoch, 1), f"{lock}-{epoch}", "flights", "flights", lock)

    async def run() -> None:
        disk, cluster = one("--ha filesystem", Filesystem(tmp_path).client(), "file"), api_server()
        await begin(disk, "file")
        await Ends(disk, "file", cluster, "lease").moved()
        former = (await started(cluster, "lease")).former_locks
        assert why_refused(claim(EPOCH + 1, "lease"), claim(EPOCH, "file"), former) is None
        assert why_refused(claim(EPOCH + 2, "lease"), claim(EPOCH + 1, "file"), former) == "other-lock"
        assert why_refused(claim(EPOCH, "file"), claim(EPOCH + 1, "lease")) == "other-lock"
        assert await lead(cluster, "lease") == EPOCH + 1
        await Ends(cluster, "lease", disk, "file").moved()
        former = (await started(disk, "file")).former_locks
        for kind in ("lease", "multi", "file"):
            assert why_refused(claim(EPOCH + 2, "file"), claim(EPOCH + 1, kind), former) is None
        bucket = one("--ha s3", Memory().client(), "s3")
        await Ends(disk, "file", bucket, "s3").moved()
        former = (await started(bucket, "s3")).former_locks
        assert former == dict.fromkeys(("file", "lease", "configmap", "multi"), EPOCH + 1)

    asyncio.run(run())
