"""Replicas on machines of their own, of which no death is told: what each makes of the others' entries, on every backend, by its own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

from tests.contract.backends import Backend
from tests.doubles.clocks import Hands
from understudy.documents.model import DocumentStore
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.messages import RehearsalReport
from understudy.supervisor.hosts import Host
from understudy.supervisor.membership import Membership
from understudy.supervisor.silence import BEAT_EVERY, LOOK_EVERY, NOT_COUNTED_AFTER, REMOVED_AFTER

REHEARSED = RehearsalReport("", rehearsed=True, how="live", rounds=1, seconds=1.0)


@dataclass(eq=False)
class Machine:
    """One replica on a machine of its own, whose clock began at another time than the others'. Nothing new ever happens to it."""

    store: DocumentStore
    holder: str
    began: float
    told_of_deaths: bool = False
    leads: bool = False
    hands: Hands = field(init=False)

    def __post_init__(self) -> None:
        self.hands = Hands(self.began)
        self.replicas = ReplicaStore(self.store, "t-replicas")
        here = {"holder": self.holder, "name": "h", "address": "", "alive": SimpleNamespace(inode=1)}
        host = cast(Host, SimpleNamespace(**here, told_of_deaths=self.told_of_deaths))
        self.membership = Membership(self.replicas, host, Generation, self.hands, Log(), lambda _: False)

    async def live(self) -> None:
        """What a replica does once a minute."""
        if await self.membership.look():
            await self.membership.publish(REHEARSED, 1.0, leads=self.leads)
        if self.leads:
            await self.membership.sweep()

    async def listed(self) -> set[str]:
        return await self.replicas.holders()


async def minutes(seconds: float, living: list[Machine], every: list[Machine]) -> None:
    """So much time goes by on all machines; ``living`` do what a replica does."""
    for _ in range(int(seconds / LOOK_EVERY)):
        for each in every:
            each.hands.at += LOOK_EVERY
        for each in living:
            await each.live()


def run(backend: Backend, script: Callable[[list[Machine]], Awaitable[None]], *, told_of_deaths: bool = False) -> None:
    """``script`` with a leader and two standbys that have told of themselves."""

    async def main() -> None:
        client = backend.client
        leader = Machine(client(), "leader", 9000.0, told_of_deaths, leads=True)
        standbys = [Machine(client(), name, at, told_of_deaths) for name, at in (("one", 50.0), ("two", 700_000.0))]
        await leader.replicas.join("t")
        for each in (leader, *standbys):
            await each.membership.publish(REHEARSED, 1.0, leads=each.leads)
        await script([leader, *standbys])

    asyncio.run(main())


def test_a_host_that_is_lost_is_no_successor_and_holds_up_no_standby(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        leader, lost, living = machines
        await minutes(NOT_COUNTED_AFTER, [leader, living], machines)
        assert await leader.membership.standbys() == ["one", "two"], "not yet"
        assert not await living.membership.may_begin_again(rehearsed=False, urgent=True)
        await minutes(2 * LOOK_EVERY, [leader, living], machines)
        assert await leader.membership.standbys() == ["two"]
        assert await leader.membership.can_lead(lost.holder) == (None, "replica one is gone")
        assert await living.membership.may_begin_again(rehearsed=False, urgent=True)
        await minutes(NOT_COUNTED_AFTER + 2 * LOOK_EVERY, [leader], machines)
        assert await leader.membership.successor() is None

    run(backend, script)


def test_a_lost_leader_tells_no_more_how_many_queries_run(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        leader, one, two = machines
        await leader.membership.publish(REHEARSED, 1.0, leads=True, running=7)
        leader.hands.at += BEAT_EVERY + 1.0
        await leader.membership.publish(REHEARSED, 1.0, leads=True, running=7)
        assert await one.membership.running() == 7
        await minutes(NOT_COUNTED_AFTER + LOOK_EVERY, [one, two], machines)
        assert await one.membership.running() == 0

    run(backend, script)


def test_the_entry_of_a_lost_host_is_removed_after_an_hour_and_of_a_living_one_never(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        leader, _, living = machines
        await minutes(REMOVED_AFTER, [leader, living], machines)
        assert await leader.listed() == {"leader", "one", "two"}, "not yet"
        await minutes(2 * LOOK_EVERY, [leader, living], machines)
        assert await leader.listed() == {"leader", "two"}
        assert await leader.membership.successor() == "two"

    run(backend, script)


def test_one_that_was_taken_for_lost_and_lives_writes_itself_again(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        leader, frozen, living = machines
        await minutes(REMOVED_AFTER + 2 * LOOK_EVERY, [leader, living], machines)
        assert "one" not in await leader.listed()
        await minutes(LOOK_EVERY, machines, machines)
        assert await leader.listed() == {"leader", "one", "two"}
        assert (await leader.membership.can_lead(frozen.holder))[0] == "one"

    run(backend, script)


def test_an_outage_is_no_silence_of_the_living(backend: Backend) -> None:
    """Nothing was read, and nothing could be written: the first read afterwards finds all as it was long ago."""

    async def script(machines: list[Machine]) -> None:
        leader, one, two = machines
        await minutes(LOOK_EVERY, machines, machines)
        for each in machines:
            each.hands.at += 2 * REMOVED_AFTER
        assert await leader.membership.standbys() == ["one", "two"]
        await minutes(BEAT_EVERY + LOOK_EVERY, machines, machines)
        assert await one.listed() == {"leader", "one", "two"}
        assert await two.membership.standbys() == ["one"]

    run(backend, script)


def test_an_entry_of_a_release_that_gives_no_signs_of_life_is_counted_for_ever(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        leader, _, living = machines
        (theirs,) = [each for each in await leader.replicas.read() if each.holder == "one"]
        await leader.replicas.publish(replace(theirs, beats=0))
        await minutes(REMOVED_AFTER + 10 * LOOK_EVERY, [leader, living], machines)
        assert await leader.membership.standbys() == ["one", "two"]

    run(backend, script)


def test_where_deaths_are_told_nothing_is_read_or_written_without_news(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        before = await machines[0].store.read("t-replicas")
        assert not any([await each.membership.look() for each in machines])
        await minutes(REMOVED_AFTER, machines, machines)
        for each in machines:
            await each.membership.publish(REHEARSED, 1.0, leads=each.leads)
        assert await machines[0].store.read("t-replicas") == before
        assert await machines[0].membership.standbys() == ["one", "two"]

    run(backend, script, told_of_deaths=True)


def test_a_replica_with_no_news_writes_as_often_as_it_is_said_to(backend: Backend) -> None:
    async def script(machines: list[Machine]) -> None:
        leader, one, _ = machines

        async def told() -> Replica:
            return next(each for each in await leader.replicas.read() if each.holder == "one")

        before = await told()
        await minutes(3600.0, [one], machines)
        assert await told() == replace(before, beats=before.beats + 20), (
            "at the first look after 120 s, which is the third"
        )

    run(backend, script)
