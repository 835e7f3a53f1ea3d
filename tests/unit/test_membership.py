"""What replicas on one machine make of those that died: with real processes and the real proof of life."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.clock import BootClock
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import Alive, all_gone, boot_id, tombstone
from understudy.protocol.messages import WARM_UP, RehearsalReport
from understudy.supervisor.evidence import EvidenceWatch
from understudy.supervisor.hosts import Host
from understudy.supervisor.membership import Membership

_LIVES = """
import sys, time
from pathlib import Path
from understudy.processes import Alive
print(Alive(Path(sys.argv[1])).inode, flush=True)
time.sleep(600)
"""


@dataclass(eq=False)
class Machine:
    """One machine: ``me`` is the replica that looks around, the others are processes."""

    home: Path
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    leads: str | None = None

    def __post_init__(self) -> None:
        self.me = Alive(self.alive / "me")
        self.replicas = ReplicaStore(FilesystemDocumentStore(self.home / "documents", 30.0), "t-replicas")
        self.died = asyncio.Event()
        self.watch = self.another_watch(lambda _: self.died.set())
        host = cast(Host, SimpleNamespace(holder="me", alive=self.me, name="h", address="", told_of_deaths=True))
        self.roster = Membership(self.replicas, host, Generation, BootClock(), Log(), self.watch.is_dead)

    @property
    def alive(self) -> Path:
        return self.home / "alive"

    def another_watch(self, dead: Callable[[str], None]) -> EvidenceWatch:
        return EvidenceWatch(self.alive, self.replicas, lambda: self.leads, dead)

    def _begin(self, holder: str) -> int:
        arguments = [sys.executable, "-c", _LIVES, str(self.alive / holder)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self.processes[holder] = process
        assert process.stdout is not None
        return int(process.stdout.readline())

    async def start(self, holder: str, role: str, *, rehearsed: bool, since: float, how: str = "live") -> None:
        inode = self._begin(holder)
        told = (holder, role, rehearsed, how, 32, 1.0, "", "", 0, 1, "h", inode, boot_id(), 1.0)
        await self.replicas.publish(Replica(*told, script_since=since))

    def kill(self, holder: str) -> None:
        process = self.processes.pop(holder)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    async def listed(self) -> set[str]:
        return {each.holder for each in await self.replicas.read()}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for holder in list(made.processes):
        made.kill(holder)
    made.me.leave()


def run(machine: Machine, script: Callable[[], Awaitable[None]]) -> None:
    """``script`` with a leader and a rehearsed standby that began before us."""

    async def main() -> None:
        await machine.replicas.join("t")
        await machine.start("leader", "leader", rehearsed=False, since=10.0)
        await machine.start("standby", "standby", rehearsed=True, since=10.0)
        await script()

    asyncio.run(main())


def test_a_dead_replica_is_no_successor_however_often_that_is_asked(machine: Machine) -> None:
    async def script() -> None:
        assert await machine.roster.successor() == "standby"
        machine.kill("standby")
        assert [await machine.roster.successor() for _ in range(3)] == [None] * 3

    run(machine, script)


def test_where_none_has_rehearsed_one_is_named_that_has_rehearsed_another_query_than_its_own(machine: Machine) -> None:
    async def script() -> None:
        machine.kill("standby")
        await machine.start("held", "standby", rehearsed=False, since=10.0)
        assert await machine.roster.successor() is None
        await machine.start("warm", "standby", rehearsed=False, since=10.0, how=WARM_UP)
        await machine.start("led", "leader", rehearsed=False, since=10.0, how=WARM_UP)
        assert await machine.roster.successor() == "warm"
        await machine.start("ready", "standby", rehearsed=True, since=10.0)
        assert await machine.roster.successor() == "ready"
        assert await machine.roster.can_lead("warm") == (None, "no standby has rehearsed")

    run(machine, script)


def test_a_dead_replica_holds_up_no_renewal_of_a_standby(machine: Machine) -> None:
    async def script() -> None:
        machine.kill("standby")
        assert [await machine.roster.may_begin_again(rehearsed=True, urgent=True) for _ in range(3)] == [True] * 3
        assert await machine.roster.standbys() == []

    run(machine, script)


def test_dead_replicas_leave_the_document_also_one_whose_death_was_known_and_one_of_which_no_trace_is_left(
    machine: Machine,
) -> None:
    async def script() -> None:
        await machine.start("cleared", "standby", rehearsed=True, since=10.0)
        machine.leads = "leader"
        watching = asyncio.create_task(machine.watch.run())
        for holder in ("leader", "standby", "cleared"):
            machine.kill(holder)
        (machine.alive / "cleared").unlink()
        async with asyncio.timeout(60):
            await machine.died.wait()
        watching.cancel()
        await machine.roster.successor()  # learns of the standby's death, and writes nothing
        await machine.roster.publish(
            RehearsalReport("", rehearsed=True, how="live", rounds=1, seconds=1.0), 1.0, leads=False
        )
        assert await machine.listed() == {"me"}

    run(machine, script)


def test_a_leader_takes_out_a_standby_that_died_when_there_is_no_other_news(machine: Machine) -> None:
    async def script() -> None:
        await machine.roster.publish(
            RehearsalReport("", rehearsed=True, how="live", rounds=1, seconds=1.0), 1.0, leads=True
        )
        machine.kill("standby")
        await machine.roster.sweep()
        assert await machine.listed() == {"me", "leader"}

    run(machine, script)


def test_evidence_of_a_leaders_death_reaches_one_who_begins_to_look_after_another_has_learned_of_it(
    machine: Machine,
) -> None:
    async def script() -> None:
        entries = {each.holder: each for each in await machine.replicas.read()}
        machine.kill("leader")
        assert machine.watch.is_dead(entries["leader"])
        machine.leads, heard = "leader", asyncio.Event()
        watching = asyncio.create_task(machine.another_watch(lambda _: heard.set()).run())
        async with asyncio.timeout(60):
            await heard.wait()
        watching.cancel()

    run(machine, script)


def test_a_living_replica_stays_and_so_does_a_recent_tombstone(machine: Machine) -> None:
    async def script() -> None:
        machine.kill("standby")
        assert await machine.roster.successor() is None
        dead = tombstone(machine.alive / "standby")
        watching = asyncio.create_task(machine.watch.run())
        await asyncio.sleep(0)
        watching.cancel()
        assert dead.exists()
        assert not any(machine.watch.is_dead(each) for each in await machine.replicas.read() if each.role == "leader")

    run(machine, script)


def test_a_tombstone_is_proof_for_the_very_process_and_for_no_other(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "holder")
    os.close(alive.descriptor)
    assert all_gone(alive.path, alive.inode, boot_id())
    assert all_gone(alive.path, alive.inode, boot_id())
    assert not all_gone(alive.path, alive.inode + 1, boot_id())


def test_old_tombstones_are_removed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    old = machine.alive / "someone.dead"
    old.write_text("")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100_000)
    machine.watch._sweep()
    assert not old.exists()


def test_what_kept_a_standby_from_rehearsing_is_not_said_of_the_leader_it_became_but_which_query_of_its_died() -> None:
    async def said(*, leads: bool, failed: dict[str, str]) -> str:
        store = ReplicaStore(MemoryDocumentStore(MemoryServer()), "replicas")
        await store.join("job")
        here = {"holder": "m", "name": "h", "address": "", "alive": SimpleNamespace(inode=1), "told_of_deaths": True}
        host = cast(Host, SimpleNamespace(**here))
        roster = Membership(store, host, Generation, BootClock(), Log(), lambda _: False)
        await roster.publish(STANDING, 0.0, leads=leads, running=1, failed=failed)
        (told,) = await store.read()
        return told.reason

    assert asyncio.run(said(leads=False, failed={})) == STANDING.reason
    assert asyncio.run(said(leads=True, failed={})) == ""
    died = asyncio.run(said(leads=True, failed={"windows": "ValueError: no", "sums": "OSError: full"}))
    assert died == "query windows: ValueError: no; query sums: OSError: full"


STANDING = RehearsalReport("", rehearsed=False, how="", rounds=0, seconds=0.0, reason="its script ended: OSError: busy")
