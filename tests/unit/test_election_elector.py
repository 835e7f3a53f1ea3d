"""The elector against a store in memory, in virtual time: what it survives, and what its candidate is told and when."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from testkit.faults import Fault
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.election_builders import FAST, NAME, Member, join, leader, virtually
from understudy.documents.model import Content, Document, Outcome, Unknown
from understudy.election.commands import Grant
from understudy.election.records import GRANT, GrantEntry, view_grant
from understudy.election.state import Role
from understudy.errors import DocumentError

RETRY, RENEW, LEASE = FAST.retry, FAST.renew, FAST.lease


async def pass_(seconds: float) -> None:
    await asyncio.sleep(seconds)


def now() -> float:
    return asyncio.get_running_loop().time()


async def leader_of(server: MemoryServer) -> Member:
    member = join(server, "a")
    await member.until(Role.LEADING)
    return member


async def grant(server: MemoryServer) -> tuple[int, str, bool]:
    found = view_grant(await MemoryDocumentStore(server).read(NAME))
    assert found is not None
    return found.token_epoch, found.holder, found.released


async def hang() -> None:
    """Never answers, and does not let itself be cancelled either."""
    while True:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if closing:
                raise


closing: list[bool] = []


# --- what a candidate is told -----------------------------------------------------------------------------------------


def test_a_candidate_is_granted_and_then_renewed_with_send_times() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)
        started = member.driver.sent[0]
        await pass_(3 * RETRY)

        assert member.driver.heard[:3] == ["granted", "renewed", "renewed"]
        assert member.driver.epochs == [1]
        gaps = [later - earlier for earlier, later in zip(member.driver.sent, member.driver.sent[1:], strict=False)]
        assert started == member.driver.sent[0]
        assert all(gap == pytest.approx(RETRY, abs=0.01) for gap in gaps)
        assert member.elector.view.role is Role.LEADING
        assert member.elector.view.gate_deadline == pytest.approx(member.driver.sent[-1] + RENEW)
        assert member.elector.view.kill_deadline == pytest.approx(member.driver.sent[-1] + FAST.kill_after)

    virtually(main())


def test_a_renewals_time_is_when_it_was_sent_even_if_its_answer_takes_long() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)

        async def slow(call: Callable[[], Awaitable[Outcome]]) -> Outcome:
            await pass_(0.5)
            outcome = await call()
            await pass_(0.2)
            return outcome

        member.wire.write = slow
        before = len(member.driver.sent)
        await pass_(RETRY + 0.75)

        assert len(member.driver.sent) == before + 1
        assert member.driver.sent[-1] == pytest.approx(member.driver.sent[-2] + RETRY, abs=0.01)

    virtually(main())


def test_a_standby_takes_over_a_lease_after_it_last_saw_the_leader_renew() -> None:
    async def main() -> None:
        server = MemoryServer()
        leader, follower = await leader_of(server), join(server, "b", offset=-900.0)
        await pass_(1)
        leader.die()
        died = now()
        await follower.until(Role.LEADING)

        assert LEASE - RETRY - 0.1 <= now() - died <= LEASE + 0.2
        assert follower.driver.epochs == [2]

    virtually(main())


def test_evidence_takes_over_within_moments() -> None:
    async def main() -> None:
        server = MemoryServer()
        leader, follower = await leader_of(server), join(server, "b")
        await pass_(1.05)
        leader.die()
        died = now()
        follower.elector.evidence("a")
        await follower.until(Role.LEADING)

        assert now() - died < 0.05

    virtually(main())


def test_a_release_hands_over_within_moments_because_the_watch_tells() -> None:
    async def main() -> None:
        server = MemoryServer()
        leader, follower, other = await leader_of(server), join(server, "b"), join(server, "c")
        await pass_(1.05)
        leader.elector.stop()
        assert leader.role() is Role.LEADING
        at = now()
        assert await leader.step_down("c")
        await other.until(Role.LEADING)

        assert now() - at < RETRY / 2
        assert follower.driver.epochs == []
        await leader.task  # stopped, so its loop ends
        assert leader.role() is Role.STOPPED

    virtually(main())


def test_a_frozen_leader_that_thaws_after_a_takeover_is_told_that_it_lost() -> None:
    async def main() -> None:
        server = MemoryServer()
        leader, follower = await leader_of(server), join(server, "b")
        await pass_(1)
        leader.clock.thawed.clear()
        await follower.until(Role.LEADING)
        assert not leader.driver.is_open()
        leader.clock.thawed.set()
        at = now()
        await leader.until(Role.LOST)

        assert now() - at < 0.05
        assert leader.driver.losses == ["b holds the lock with epoch 2"]

    virtually(main())


def test_releasing_what_is_not_held_is_false_and_writes_nothing() -> None:
    async def main() -> None:
        server = MemoryServer()
        await leader_of(server)
        follower = join(server, "b")
        await pass_(1)

        assert not await follower.elector.release("b")
        assert await follower.elector.raise_above(7) is None
        assert follower.wire.writes == 0

    virtually(main())


def test_an_epoch_is_raised_above_what_a_claim_met() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)

        assert await member.elector.raise_above(6) == 7
        assert await grant(server) == (7, "a", False)
        assert member.elector.view.epoch == 7

    virtually(main())


def test_whoever_waits_for_a_release_is_answered_when_the_elector_ends() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)
        member.wire.inner.reachable = False
        waiting = asyncio.ensure_future(member.elector.release("b"))
        await pass_(0.1)
        member.task.cancel()

        assert await waiting is False

    virtually(main())


def test_the_view_says_who_leads_since_when_and_why_this_replica_does_not() -> None:
    async def main() -> None:
        server = MemoryServer()
        await leader_of(server)
        follower = join(server, "b")
        await pass_(1)
        view = follower.elector.view

        assert (view.role, view.leader, view.epoch, view.transitions) == (Role.STANDBY, "a", 1, 0)
        assert view.reason == "a leads with epoch 1"
        assert (view.gate_deadline, view.kill_deadline) == (None, None)

    virtually(main())


# --- what a backend does ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [OSError("disk"), ValueError("bug"), DocumentError("no"), asyncio.CancelledError()])
def test_nothing_a_backend_raises_stops_the_elector(what: BaseException) -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)

        async def broken(_: Callable[[], Awaitable[object]]) -> object:
            raise what

        member.wire.write = broken  # type: ignore[assignment]
        member.wire.fetch = broken  # type: ignore[assignment]
        member.wire.watch = lambda name: 1 / 0  # type: ignore[assignment,method-assign,return-value]
        await pass_(3 * LEASE)
        assert member.elector.view.role is Role.PARKED
        member.wire.write = member.wire.fetch = lambda call: call()  # type: ignore[assignment]
        await member.until(Role.LEADING)

        assert member.driver.epochs == [1]
        assert not member.task.done()

    virtually(main())


def test_a_backend_that_hangs_and_cannot_be_cancelled_does_not_stop_the_elector() -> None:
    closing.clear()

    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)
        at = now()

        async def hanging(_: Callable[[], Awaitable[object]]) -> object:
            await hang()
            return None

        member.wire.write = member.wire.fetch = hanging  # type: ignore[assignment]
        await pass_(3 * LEASE)
        assert member.elector.view.role is Role.PARKED
        assert "parked" in member.events
        assert member.wire.writes >= (now() - at) / (3 * FAST.request) - 2  # it goes on trying
        member.wire.write = member.wire.fetch = lambda call: call()  # type: ignore[assignment]
        await member.until(Role.LEADING)
        closing.append(True)

    virtually(main())


def test_a_write_given_up_is_neither_held_nor_lost_and_may_land_later() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = join(server, "a")
        member.wire.inner.inject(Fault.DELAYED, Fault.LOST_REQUEST)
        await pass_(RETRY / 2)
        assert member.driver.heard == []
        server.land()
        await member.until(Role.LEADING)

        assert member.driver.epochs == [2]
        assert await grant(server) == (2, "a", False)

    virtually(main())


def test_a_hung_read_of_the_min_epoch_delays_an_acquire_and_stops_nothing() -> None:
    closing.clear()

    async def main() -> None:
        async def min_epoch() -> int:
            return await reads[0]()

        async def hanging() -> int:
            await hang()
            return 0

        async def found() -> int:
            return 4

        reads: list[Callable[[], Awaitable[int]]] = [hanging]
        server = MemoryServer()
        await MemoryDocumentStore(server).create(NAME, released_content())
        member = join(server, "a", min_epoch=min_epoch)
        await pass_(4 * LEASE)
        assert member.driver.heard == []
        reads[0] = found
        await member.until(Role.LEADING)
        assert member.driver.epochs == [5]
        closing.append(True)

    virtually(main())


def test_a_min_epoch_that_fails_just_when_the_elector_ends_is_no_warning() -> None:
    warnings: list[dict[str, object]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: warnings.append(context))
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def min_epoch() -> int:
            return await answer

        server = MemoryServer()
        await MemoryDocumentStore(server).create(NAME, released_content())
        member = join(server, "a", min_epoch=min_epoch)
        await pass_(2 * RETRY)
        answer.set_exception(DocumentError("the job has ended"))
        await pass_(0)
        member.task.cancel()
        await pass_(RETRY)
        gc.collect()

    virtually(main())
    assert warnings == []


def released_content() -> Content:
    return Content({GRANT: GrantEntry(2, "z", "n", released=True).encode()}, leader("", lease=1.0))


def test_the_min_epoch_is_asked_freshly_for_every_acquire_and_what_changes_meanwhile_is_not_overwritten() -> None:
    async def main() -> None:
        server = MemoryServer()
        store = MemoryDocumentStore(server)
        await store.create(NAME, released_content())
        asked: list[int] = []

        async def min_epoch() -> int:
            asked.append(1)
            if len(asked) == 1:  # another replica is faster, while we ask
                rival = join(server, "b")
                await rival.until(Role.LEADING)
            return 0

        member = join(server, "a", min_epoch=min_epoch)
        await pass_(2 * RETRY)

        assert member.driver.heard == []
        assert member.elector.view.leader == "b"
        assert member.wire.writes == 1

    virtually(main())


def test_a_watch_that_dies_is_started_again_and_polls_go_on_meanwhile() -> None:
    async def main() -> None:
        server = MemoryServer()
        leader, follower = await leader_of(server), join(server, "b")
        started: list[float] = []

        async def dying(name: str) -> AsyncIterator[Document | None]:
            started.append(now())
            yield None
            raise OSError("gone")

        follower.wire.watch = dying  # type: ignore[method-assign]
        await pass_(0.1)
        third = join(server, "c")
        third.wire.watch = dying  # type: ignore[method-assign]
        await pass_(5 * RETRY)

        assert len(started) >= 3
        assert third.events.count("watch-broken") >= 1
        assert third.wire.reads >= 5
        assert leader.driver.losses == []

    virtually(main())


def test_a_watch_that_babbles_costs_a_bounded_number_of_reads() -> None:
    async def main() -> None:
        server = MemoryServer()
        await leader_of(server)
        member = join(server, "b")

        async def babbling(name: str) -> AsyncIterator[Document | None]:
            number = 0
            while True:
                number += 1
                yield Document(NAME, {}, None, {}, f"stale-{number}")

        member.wire.watch = babbling  # type: ignore[method-assign]
        await pass_(10 * RETRY)

        assert member.wire.reads <= 10 * 21 + 2

    virtually(main())


def test_a_standby_polls_once_per_retry_period_and_a_little_jitter() -> None:
    async def main() -> None:
        server = MemoryServer()
        await leader_of(server)
        member = join(server, "b", jitter=lambda: 1.0)
        quiet = asyncio.Event()

        async def silent(name: str) -> AsyncIterator[Document | None]:
            await quiet.wait()
            yield None

        member.wire.watch = silent  # type: ignore[method-assign]
        await pass_(12 * RETRY)

        assert 10 <= member.wire.reads <= 11

    virtually(main())


def test_a_leader_writes_no_more_than_once_per_retry_period() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)
        join(server, "b")
        await pass_(100 * RETRY)

        assert member.wire.writes <= 102
        assert member.wire.reads <= 3

    virtually(main())


# --- outages ----------------------------------------------------------------------------------------------------------


def test_a_leader_alone_survives_an_outage_much_longer_than_its_lease_in_the_same_epoch() -> None:
    async def main() -> None:
        server = MemoryServer()
        member = await leader_of(server)
        member.wire.inner.reachable = False
        await pass_(20 * LEASE)
        assert member.role() is Role.PARKED
        assert member.driver.is_open() is False
        member.wire.inner.reachable = True
        await member.until(Role.LEADING)

        assert member.driver.is_open() is True
        assert member.driver.epochs == [1]
        assert member.events == ["acquired", "unreachable", "parked", "reachable", "reopened"]

    virtually(main())


def test_a_stopping_standby_ends_and_never_writes() -> None:
    async def main() -> None:
        server = MemoryServer()
        leader, follower = await leader_of(server), join(server, "b")
        await pass_(1)
        follower.elector.stop()
        await follower.task
        await leader.step_down("b")
        await pass_(2 * LEASE)

        assert follower.wire.writes == 0
        assert follower.elector.view.role is Role.STOPPED

    virtually(main())


def test_what_a_candidate_raises_ends_the_elector() -> None:
    class Broken:
        def granted(self, grant: Grant) -> None:
            raise RuntimeError("no driver")

        def renewed(self, sent_at: float) -> None: ...

        def lost(self, reason: str) -> None: ...

    async def main() -> None:
        server = MemoryServer()
        member = join(server, "a")
        member.elector._candidate = Broken()
        with pytest.raises(RuntimeError, match="no driver"):
            await member.task

    virtually(main())


def test_one_elector_runs_once() -> None:
    async def main() -> None:
        member = await leader_of(MemoryServer())
        with pytest.raises(RuntimeError, match="runs already"):
            await member.elector.run()

    virtually(main())


def test_an_unanswered_write_is_unknown_to_a_store_too() -> None:
    """The builders' faults are real: this is what the elector is fed above."""

    async def main() -> None:
        store = MemoryDocumentStore(MemoryServer())
        store.inject(Fault.LOST_ANSWER)
        assert isinstance(await store.create(NAME, released_content()), Unknown)

    virtually(main())
