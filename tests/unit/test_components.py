"""Components of one election: contenders that fail, hang or are late hold up neither the others nor the elector; what the document says."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.clock import BootClock
from understudy.election.commands import Grant
from understudy.election.elector import Candidate, Elector
from understudy.election.leader_election import LeaderElection, LeaderElectionService
from understudy.election.retrieval import ComponentLeader, Retrieval
from understudy.events import Event, Log
from understudy.ha.components import ENDPOINT, Components
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status, leader_of
from understudy.ha.job_store import JobStore
from understudy.protocol.token import Token
from understudy.supervisor.election import JobComponents

ONE, TWO = Token(1, 0), Token(2, 0)


@dataclass(eq=False)
class Chair:
    """In the place of an elector: what it was asked, and its candidate."""

    candidate: Candidate
    asked: list[str] = field(default_factory=list)

    def stop(self) -> None:
        self.asked.append("stop")

    async def release(self, successor: str | None) -> bool:
        self.asked.append(f"release {successor}")
        return True

    async def raise_above(self, epoch: int) -> int | None:
        return epoch + 1


@dataclass(eq=False)
class Recorder:
    """A contender that confirms, if it has an address. ``fails``, ``hangs``: in the next call."""

    address: str = ""
    election: LeaderElection | None = None
    heard: list[str] = field(default_factory=list)
    fails: bool = False
    hangs: bool = False

    async def granted(self, token: Token) -> None:
        self.heard.append(f"granted {token.epoch}")
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise ValueError("no port is free")
        if self.address and self.election is not None:
            self.election.confirm(token, self.address)

    async def revoked(self, reason: str) -> None:
        self.heard.append(f"revoked {reason}")


@dataclass(eq=False)
class Bench:
    """``written``: what was written by itself. ``unreachable``: no write comes back."""

    made: list[Chair] = field(default_factory=list)
    said: list[Event] = field(default_factory=list)
    written: list[tuple[str, Token, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        log = Log(stream=io.StringIO(), listeners=[self.said.append])
        self.service = LeaderElectionService(self._make, self._write, BootClock(), log)

    def _make(self, candidate: Candidate) -> Elector:
        self.made.append(Chair(candidate))
        return self.made[-1]  # type: ignore[return-value]

    async def _write(self, component: str, token: Token, address: str) -> bool:
        self.written.append((component, token, address))
        return True

    def start(
        self, name: str, address: str = "", *, fails: bool = False, hangs: bool = False
    ) -> tuple[LeaderElection, Recorder]:
        election = self.service.election(name)
        contender = Recorder(address, election, fails=fails, hangs=hangs)
        election.start(contender)
        return election, contender

    def grant(self, epoch: int) -> None:
        self.service.granted(Grant(epoch, "me", "r", 0.0))

    def events(self) -> list[str]:
        return [event.event for event in self.said]


async def turns() -> None:
    """As many turns of the loop as anything here takes that waits for nothing."""
    for _ in range(10):
        await asyncio.sleep(0)


def played(script: Callable[[Bench], Coroutine[Any, Any, None]]) -> Bench:
    bench = Bench()

    async def run() -> None:
        await script(bench)
        await bench.service.close()

    asyncio.run(run())
    return bench


# --- contenders -------------------------------------------------------------------------------------------------------


def test_a_contender_that_hangs_holds_up_neither_the_others_nor_the_elector() -> None:
    async def script(bench: Bench) -> None:
        _, stuck = bench.start("stuck", hangs=True)
        _, other = bench.start("other")
        bench.grant(1)
        await turns()
        assert (stuck.heard, other.heard) == (["granted 1"], ["granted 1"])
        bench.service.lost("the lease ran out")
        await turns()
        assert stuck.heard == other.heard == ["granted 1", "revoked the lease ran out"]

    played(script)


def test_a_contender_that_raises_is_an_event_and_hears_of_the_loss_all_the_same() -> None:
    async def script(bench: Bench) -> None:
        _, broken = bench.start("broken", fails=True)
        _, other = bench.start("other")
        bench.grant(1)
        await turns()
        bench.service.lost("gone")
        await turns()
        assert broken.heard == other.heard == ["granted 1", "revoked gone"]

    bench = played(script)
    (failed,) = [event for event in bench.said if event.event == "component-failed"]
    assert "ValueError: no port is free" in failed.sentence


def test_a_grant_that_is_lost_before_its_turn_is_not_told() -> None:
    async def script(bench: Bench) -> None:
        _, contender = bench.start("a")
        bench.grant(1)
        bench.service.lost("gone")
        bench.grant(2)
        await turns()
        assert contender.heard[-1] == "granted 2"
        assert "granted 1" not in contender.heard

    played(script)


def test_a_grant_that_is_raised_is_another_one_for_each_component() -> None:
    async def script(bench: Bench) -> None:
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        assert await bench.service.raise_above(1) == 2
        await turns()
        assert contender.heard == ["granted 1", "revoked ", "granted 2"]
        assert (election.has_leadership(ONE), election.has_leadership(TWO)) == (False, True)

    played(script)


@dataclass(eq=False)
class Attached:
    """A candidate that hears the elector itself."""

    heard: list[str] = field(default_factory=list)

    def granted(self, grant: Grant) -> None:
        self.heard.append(f"granted {grant.epoch}")

    def renewed(self, sent_at: float) -> None:
        self.heard.append(f"renewed {sent_at:g}")

    def lost(self, reason: str) -> None:
        self.heard.append(f"lost {reason}")


def test_what_is_attached_hears_everything_within_the_electors_own_call() -> None:
    async def script(bench: Bench) -> None:
        job = Attached()
        bench.service.election("job").attach(job)
        bench.start("other", hangs=True)
        bench.grant(1)
        bench.service.renewed(5.0)
        bench.service.lost("gone")
        assert job.heard == ["granted 1", "renewed 5", "lost gone"], "without a turn of the loop"

    played(script)


def test_what_is_attached_comes_first() -> None:
    async def script(bench: Bench) -> None:
        bench.start("early")
        with pytest.raises(RuntimeError, match="job has to be the first one"):
            bench.service.election("job").attach(Attached())

    played(script)


def test_a_contender_that_never_returns_does_not_keep_the_process_from_its_end() -> None:
    async def script(bench: Bench) -> None:
        bench.start("stuck", hangs=True)
        bench.grant(1)
        await turns()

    bench = played(script)
    assert bench.made[0].asked == ["stop", "release None"]


# --- what is confirmed ------------------------------------------------------------------------------------------------


def test_what_is_confirmed_before_the_claim_costs_no_write_of_its_own() -> None:
    async def script(bench: Bench) -> None:
        bench.start("a", "host:1")
        bench.grant(1)
        await turns()
        assert bench.service.confirmed(1) == {"a": "host:1"}
        assert bench.service.confirmed(2) == {}
        bench.service.claimed(1, {"a": "host:1"})
        await turns()

    assert played(script).written == []


def test_what_is_confirmed_after_the_claim_is_written_once() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        bench.grant(1)
        bench.service.claimed(1, {})
        assert election.confirm(ONE, "host:1")
        assert election.confirm(ONE, "host:1")
        await turns()
        assert election.confirm(ONE, "host:1")
        await turns()

    assert played(script).written == [("a", ONE, "host:1")]


def test_an_old_confirmation_is_dropped_and_said() -> None:
    async def script(bench: Bench) -> None:
        election, _ = bench.start("a")
        bench.grant(1)
        bench.service.lost("gone")
        bench.grant(2)
        bench.service.claimed(2, {})
        assert not election.confirm(ONE, "host:1")
        await turns()

    bench = played(script)
    assert bench.written == []
    assert "confirmation-dropped" in bench.events()


# --- what the document says -------------------------------------------------------------------------------------------


def jobs() -> tuple[MemoryDocumentStore, JobStore]:
    store = MemoryDocumentStore(MemoryServer())
    return store, JobStore(store, "flights-flights", "flights", "job.py")


def confirmed_endpoint(address: str) -> Callable[[Job], Job]:
    """As a claim takes it along."""

    def also(job: Job) -> Job:
        leader = ComponentLeader(Token(job.token.epoch, 0), job.holder, address)
        return replace(job, components=job.components.under(job.token.epoch, {ENDPOINT: leader} if address else {}))

    return also


async def claim(store: JobStore, epoch: int, holder: str, address: str) -> Job:
    return await store.begin_attempt(epoch, holder, nothing_granted, Generation(), also=confirmed_endpoint(address))


def test_a_claim_writes_what_was_confirmed_in_the_same_write() -> None:
    async def run() -> None:
        documents, store = jobs()
        before = 0 if (first := await documents.read(store.name)) is None else int(first.revision)
        await claim(store, 1, "me", "host:1")
        standing = await documents.read(store.name)
        assert standing is not None
        assert int(standing.revision) == before + 1, "one write"
        assert leader_of(standing, ENDPOINT) == ComponentLeader(ONE, "me", "host:1")
        assert leader_of(standing, "job") == ComponentLeader(Token(1, 1), "me", "")

    asyncio.run(run())


def test_the_next_claim_removes_what_the_leader_before_it_had_confirmed() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        await claim(store, 2, "you", "")
        standing = await documents.read(store.name)
        assert standing is not None
        assert leader_of(standing, ENDPOINT) is None
        assert "component.endpoint" not in standing.entries

    asyncio.run(run())


def test_what_stands_under_an_earlier_epoch_counts_for_nothing() -> None:
    """An older image leads: it keeps entries that it does not know."""

    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        await store.begin_attempt(2, "you", nothing_granted, Generation())
        standing = await documents.read(store.name)
        assert standing is not None
        assert "component.endpoint" in standing.entries
        assert leader_of(standing, ENDPOINT) is None

    asyncio.run(run())


def test_a_job_that_has_ended_has_no_leader() -> None:
    async def run() -> None:
        documents, store = jobs()
        job = await claim(store, 1, "me", "host:1")
        await store.end(job.token, Status.FINISHED, "done")
        standing = await documents.read(store.name)
        assert leader_of(standing, ENDPOINT) is None
        assert leader_of(standing, "job") is None

    asyncio.run(run())


def test_a_restart_in_place_keeps_the_entry_of_its_grant() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        await claim(store, 1, "me", "")
        assert leader_of(await documents.read(store.name), ENDPOINT) == ComponentLeader(ONE, "me", "host:1")

    asyncio.run(run())


def test_an_entry_that_cannot_be_read_is_no_leader_and_keeps_no_job_from_running() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        standing = await documents.read(store.name)
        assert standing is not None
        damaged = replace(standing, entries={**standing.entries, "component.endpoint": "{"})
        assert Components.of(damaged) == Components()
        assert leader_of(damaged, ENDPOINT) is None

    asyncio.run(run())


def test_without_a_service_a_claim_takes_nothing_along() -> None:
    job = Job("flights", "job.py", Status.RUNNING, Token(3, 1), Token(0, 0), "me")
    assert JobComponents().taken_along(job) == job


# --- retrieval --------------------------------------------------------------------------------------------------------


def test_a_follower_hears_of_each_leader_once_and_outlives_errors_of_the_store() -> None:
    async def run() -> None:
        documents, store = jobs()
        await claim(store, 1, "me", "host:1")
        followed = Retrieval(documents, store.name, leader_of, BootClock()).follow(ENDPOINT)
        assert await anext(followed) == ComponentLeader(ONE, "me", "host:1")
        await store.committed(Token(1, 1), 5.0)  # changes the document, and no leader
        following = asyncio.ensure_future(anext(followed))
        await turns()
        assert not following.done()
        await claim(store, 2, "you", "host:2")
        assert await following == ComponentLeader(TWO, "you", "host:2")
        await followed.aclose()

    asyncio.run(asyncio.wait_for(run(), 30.0))
