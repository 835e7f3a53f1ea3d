"""The lock ``multi`` beside electors that know only one of its halves."""

from __future__ import annotations

import asyncio
from typing import Any

from testkit.faults import Fault
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.election_builders import FAST, NAME, Call, Member, Wire, join, virtually
from understudy.documents.model import Outcome
from understudy.election.multi import MultiStore
from understudy.election.records import Free, Held, lock_state_of
from understudy.election.state import Role


class Fleet:
    """Replicas of both generations over the same two servers."""

    def __init__(self) -> None:
        self.first, self.second = MemoryServer(), MemoryServer()

    def multi(self, holder: str) -> Member:
        return join(self.first, holder, second=self.second)

    def only_first(self, holder: str) -> Member:
        return join(self.first, holder)

    def only_second(self, holder: str) -> Member:
        return join(self.second, holder)

    async def holders(self) -> list[str]:
        found = []
        for server in (self.first, self.second):
            lock_state = lock_state_of(await MemoryDocumentStore(server).read(NAME))
            found.append(lock_state.holder if isinstance(lock_state, Held) else "")
        return found


def test_a_leader_holds_both() -> None:
    async def run() -> None:
        fleet = Fleet()
        await fleet.multi("new").until(Role.LEADING)
        assert await fleet.holders() == ["new", "new"]

    virtually(run())


def test_servers_that_are_slow_and_answer_each_request_in_time_cost_no_lead() -> None:
    """A renewal is a request to each. All within the time-out of one lost the lead: the first landed each time, the second never."""

    async def run() -> None:
        fleet = Fleet()
        member = fleet.multi("new")
        await member.until(Role.LEADING)
        for wire in member.wires:
            wire.write, wire.fetch = slow, slow
        await asyncio.sleep(10 * FAST.lease)
        assert member.role() is Role.LEADING
        assert not {"lost", "parked"} & set(member.events)

    async def slow(call: Call[Any]) -> Any:
        await asyncio.sleep(0.9 * FAST.request)
        return await call()

    virtually(run())


def test_whoever_holds_one_half_keeps_it_away_for_as_long_as_it_renews() -> None:
    async def run(which: str) -> None:
        fleet = Fleet()
        old = fleet.only_first("old") if which == "first" else fleet.only_second("old")
        await old.until(Role.LEADING)
        new = fleet.multi("new")
        await asyncio.sleep(10 * FAST.lease)
        assert (old.role(), new.role()) == (Role.LEADING, Role.STANDBY)
        old.die()
        await new.until(Role.LEADING)
        assert await fleet.holders() == ["new", "new"]

    virtually(run("first"))
    virtually(run("second"))


def test_it_keeps_both_kinds_away() -> None:
    async def run() -> None:
        fleet = Fleet()
        new = fleet.multi("new")
        await new.until(Role.LEADING)
        others = [fleet.only_first("one"), fleet.only_second("two")]
        await asyncio.sleep(10 * FAST.lease)
        assert new.role() is Role.LEADING
        assert [other.role() for other in others] == [Role.STANDBY, Role.STANDBY]

    virtually(run())


def test_two_holders_who_do_not_know_each_other_both_have_to_fall_silent() -> None:
    async def run() -> None:
        fleet = Fleet()
        one, two = fleet.only_first("one"), fleet.only_second("two")
        await one.until(Role.LEADING)
        await two.until(Role.LEADING)
        new = fleet.multi("new")
        one.die()
        await asyncio.sleep(5 * FAST.lease)
        assert new.role() is Role.STANDBY
        two.die()
        await new.until(Role.LEADING)

    virtually(run())


def test_an_epoch_is_above_both_halves() -> None:
    async def run() -> None:
        fleet = Fleet()
        for _ in range(3):
            old = fleet.only_second("old")
            await old.until(Role.LEADING)
            await old.step_down(None)
            old.die()
        new = fleet.multi("new")
        await new.until(Role.LEADING)
        assert new.driver.epochs[-1] > 3

    virtually(run())


def test_a_fleet_that_went_back_to_one_kind_and_comes_again_finds_the_lock_free_at_once() -> None:
    """The second half stands as it was left, or was never written, and says nothing of the later epoch."""

    async def lead_and_leave(member: Member) -> int:
        await member.until(Role.LEADING)
        await member.step_down(None)
        member.die()
        return member.driver.epochs[-1]

    async def run(*, before: bool) -> None:
        fleet = Fleet()
        if before:
            await lead_and_leave(fleet.multi("before"))
        highest = await lead_and_leave(fleet.only_first("old"))

        async def min_epoch() -> int:
            return highest

        new = join(fleet.first, "new", second=fleet.second, min_epoch=min_epoch)
        await new.until(Role.LEADING, within=FAST.retry)
        assert new.driver.epochs == [highest + 1]

    virtually(run(before=True))
    virtually(run(before=False))


def test_a_first_half_won_in_vain_is_given_back() -> None:
    """Another replica takes the second between our two writes: a waiter for the first must not wait for us."""

    async def run() -> None:
        fleet = Fleet()
        new = fleet.multi("new")
        assert new.second is not None
        taken = MemoryDocumentStore(fleet.second)

        async def too_late(call: Call[Outcome]) -> Outcome:
            other = fleet.only_second("other")
            await other.until(Role.LEADING)
            return await call()

        new.second.write = too_late
        await asyncio.sleep(FAST.retry)
        assert isinstance(lock_state_of(await MemoryDocumentStore(fleet.first).read(NAME)), Free)
        assert isinstance(lock_state_of(await taken.read(NAME)), Held)
        assert new.role() is not Role.LEADING

    virtually(run())


def test_a_renewal_whose_second_half_got_lost_is_neither_confirmed_nor_a_loss() -> None:
    async def run() -> None:
        fleet = Fleet()
        new = fleet.multi("new")
        await new.until(Role.LEADING)
        assert new.second is not None
        confirmed = new.driver.sent[-1]
        new.second.inner.inject(Fault.LOST_REQUEST)
        await asyncio.sleep(FAST.retry * 1.5)
        assert new.driver.sent[-1] == confirmed
        await asyncio.sleep(2 * FAST.retry)
        assert new.driver.sent[-1] > confirmed
        assert new.driver.losses == []

    virtually(run())


def test_a_crash_between_the_halves_blocks_nobody_for_longer_than_a_lease() -> None:
    async def run() -> None:
        fleet = Fleet()
        old = fleet.multi("old")
        assert old.second is not None
        old.second.inner.inject(*[Fault.LOST_REQUEST] * 3)
        await asyncio.sleep(FAST.retry / 2)
        old.die()
        assert await fleet.holders() == ["old", ""]
        await fleet.multi("new").until(Role.LEADING, within=2 * FAST.lease)

    virtually(run())


def test_what_cannot_be_read_in_either_half_is_not_free() -> None:
    async def run(which: str) -> None:
        fleet = Fleet()
        old = fleet.multi("old")
        await old.until(Role.LEADING)
        old.die()
        (fleet.first if which == "first" else fleet.second).overwrite(NAME, b"{half")
        new = fleet.multi("new")
        await asyncio.sleep(5 * FAST.lease)
        assert new.role() is Role.STANDBY
        assert "refused" in new.events

    virtually(run("first"))
    virtually(run("second"))


def test_a_live_holder_writes_a_damaged_half_again() -> None:
    async def run() -> None:
        fleet = Fleet()
        new = fleet.multi("new")
        await new.until(Role.LEADING)
        fleet.second.overwrite(NAME, b"")
        await asyncio.sleep(3 * FAST.retry)
        assert await fleet.holders() == ["new", "new"]
        assert new.driver.losses == []

    virtually(run())


def test_it_is_seen_as_it_stands_by_watching_either_half() -> None:
    async def run() -> None:
        fleet = Fleet()
        new = fleet.multi("new")
        await new.until(Role.LEADING)
        clock = new.clock
        store = MultiStore(*(Wire(MemoryDocumentStore(server), clock) for server in (fleet.first, fleet.second)))
        async for document in store.watch(NAME):
            assert document is not None
            assert document.leader is not None
            assert document.leader.holder == "new"
            break

    virtually(run())
