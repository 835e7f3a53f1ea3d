"""Components of one election: contenders that fail, hang or are late hold up neither the others nor the elector; what the document says."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from understudy.clock import BootClock
from understudy.election.commands import Grant
from understudy.election.elector import Candidate, Elector
from understudy.election.leader_election import LeaderElection, LeaderElectionService
from understudy.errors import DocumentError
from understudy.events import Event, Log
from understudy.protocol.token import Token

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


def test_a_lock_that_is_given_back_is_led_no_more_by_any_component() -> None:
    """As at a hand-over. The elector tells of losses only, and a contender served on until this process's next grant."""

    async def script(bench: Bench) -> None:
        job = Attached()
        bench.service.election("job").attach(job)
        election, contender = bench.start("a")
        bench.grant(1)
        await turns()
        assert await bench.service.release("b")
        await turns()
        assert contender.heard == ["granted 1", "revoked the lock is given back"]
        assert not election.has_leadership(ONE)
        assert not election.confirm(ONE, "here:1")
        assert job.heard == ["granted 1"], "what gives the lock back has lost nothing"
        assert bench.made[-1].asked == ["release b"]

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


@dataclass(eq=False)
class NeverDone:
    """A contender that does not come to the end of what it does about a loss."""

    async def granted(self, token: Token) -> None:
        del token

    async def revoked(self, reason: str) -> None:
        del reason
        await asyncio.Event().wait()


def test_a_contender_that_never_ends_its_part_holds_up_neither_the_others_nor_the_end() -> None:
    async def script(bench: Bench) -> None:
        bench.service.election("stuck").start(NeverDone())
        _, other = bench.start("other")
        bench.grant(1)
        await turns()
        bench.service.lost("gone")
        bench.grant(2)
        await turns()
        assert other.heard == ["granted 1", "revoked gone", "granted 2"]
        await asyncio.wait_for(bench.service.close(), 30.0)
        assert bench.made[0].asked == ["stop", "release None"]

    played(script)


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


def test_a_write_that_fails_is_said_once_and_tried_again() -> None:
    class Hasty(BootClock):
        async def sleep(self, seconds: float) -> None:
            del seconds

    async def script(bench: Bench) -> None:
        tries: list[str] = []

        async def write(component: str, token: Token, address: str) -> bool:
            del component, token
            tries.append(address)
            if len(tries) < 4:
                raise DocumentError("no answer", where="flights-flights")
            return True

        log = Log(stream=io.StringIO(), listeners=[bench.said.append])
        bench.service = LeaderElectionService(bench._make, write, Hasty(), log)
        election, _ = bench.start("a")
        bench.grant(1)
        bench.service.claimed(1, {})
        election.confirm(ONE, "host:1")
        for _ in range(5):
            await turns()
        assert tries == ["host:1"] * 4

    assert played(script).events().count("component-unwritten") == 1
