"""What a replica does about its grant: a gate opens under the one that the elector holds then, and a revoked one opens no more.

The real ``Supervisor`` and gate page; only the driver's process is missing.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.epochs import nothing_granted
from understudy.clock import BootClock, instant
from understudy.config.timings import Timings
from understudy.election.commands import Grant
from understudy.events import Log
from understudy.fencing.gate import GateReader, GateWriter
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.replicas import Replica
from understudy.protocol.gate import State, View
from understudy.protocol.messages import OFF, WARM_UP, ClaimRefused, Ended, Message, RehearsalReport, Roots, Started
from understudy.protocol.token import Token
from understudy.supervisor.backends import on_one_machine
from understudy.supervisor.claims import JobClaims
from understudy.supervisor.commands import OpenGate, StartLeader
from understudy.supervisor.driver_end import Failed
from understudy.supervisor.driver_parts import DriverParts
from understudy.supervisor.driver_process import DriverProcess
from understudy.supervisor.inputs import (
    DriverExited,
    DriverMessage,
    Event,
    LeadershipGranted,
    LeadershipRevoked,
    RestartDue,
    StopRequested,
)
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.state import Standby, token_of
from understudy.supervisor.supervisor import Supervisor


@dataclass(eq=False)
class Process:
    """A driver without a process."""

    gate: GateWriter
    said: list[Message] = field(default_factory=list)
    killed_because: str = ""
    ended: Ended | None = None
    memory_was_short: bool = False

    def show(self, view: View) -> None:
        self.gate.publish(view)

    def send(self, message: Message) -> None:
        self.said.append(message)

    def kill_now(self, reason: str) -> None:
        self.killed_because = reason

    def take_the_lead(self) -> None:
        pass

    lift_priority = take_the_lead

    async def terminate_and_reap(self) -> None:
        self.show(View(State.REVOKED, self.gate.view.token))

    async def end_by_handler(self, patience: float) -> bool:
        """Its script has no handler of SIGTERM."""
        del patience
        return False

    async def come_to_its_end(self, within: float) -> None:
        """Its process is gone whenever a test says so."""


@dataclass(eq=False)
class Executors:
    """In the place of ``Native``: ``meanwhile`` happens while the executors of earlier leaders are deleted."""

    meanwhile: Callable[[], None]

    async def clear(self, alive: Iterable[str], log: Log, *, own: bool = False) -> None:
        del alive, log, own
        self.meanwhile()


@dataclass(eq=False)
class Bench:
    replica: Supervisor
    driver: Process
    home: Path

    @property
    def standing(self) -> State:
        view = GateReader(self.home / "gate").read()
        assert view is not None
        return view.standing(instant())

    def grant(self, epoch: int) -> Grant:
        """As the elector tells it."""
        sent = BootClock().now()
        granted = Grant(epoch, "me", f"r{epoch}", sent)
        self.replica.granted(granted)
        self.replica.renewed(sent)
        return granted

    @property
    def token(self) -> Token:
        """The one under which it leads."""
        token = token_of(self.replica._state.leadership)
        assert token is not None
        return token

    async def answer(self, expected: type[Event]) -> int | None:
        """Deal with the next event of the inbox."""
        event = self.replica._inbox.get_nowait()
        assert isinstance(event, expected)
        return await self.replica._deal_with(event)


def stand_by(supervisor: Supervisor, driver: Process) -> None:
    """As if it had been started as a standby's."""
    execute, guard = supervisor._execute, supervisor._guard
    execute.slot.process = guard.driver = driver  # type: ignore[assignment]
    execute.driver = 1
    supervisor._state = replace(supervisor._state, driver=1, started=1)


def on(
    home: Path,
    script: Callable[[Bench], Awaitable[None]],
    meanwhile: Callable[[Supervisor], None] | None = None,
    parts: DriverParts | None = None,
) -> None:
    """Run ``script`` with a standby whose driver is up; ``meanwhile`` makes its mode native."""

    async def run() -> None:
        (home / "job.py").write_text("")
        settings = RunSettings(home / "job.py", (), (), "t", "t", home, Timings())
        log = Log(stream=io.StringIO())
        services, host = on_one_machine(settings, log)
        host = replace(host, driver_parts=parts or DriverParts())
        made: list[Supervisor] = []
        if meanwhile is not None:
            host = replace(host, native=Executors(lambda: meanwhile(made[0])))  # type: ignore[arg-type]
        made.append(Supervisor(settings, services, host, Path("fence.jar"), log))
        await made[0]._replicas.join("t")
        driver = Process(GateWriter(home / "gate"))
        stand_by(made[0], driver)
        try:
            await script(Bench(made[0], driver, home))
        finally:
            await host.close()

    asyncio.run(run())


def test_a_lock_lost_while_executors_are_deleted_opens_no_gate(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        bench.grant(7)
        await bench.answer(LeadershipGranted)
        assert bench.standing is State.REVOKED
        assert bench.driver.said == []
        assert bench.driver.killed_because == "another holds it"
        assert not any(each.role == "leader" for each in await bench.replica._replicas.read())

    on(tmp_path, script, lambda replica: replica.lost("another holds it"))


def test_a_lock_that_is_held_to_the_end_of_the_deletion_does(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        bench.grant(7)
        await bench.answer(LeadershipGranted)
        assert bench.standing is State.OPEN
        assert len(bench.driver.said) == 1

    on(tmp_path, script, lambda _: None)


def test_a_grant_that_was_lost_before_its_turn_claims_nothing_although_another_one_follows(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        bench.grant(3)
        bench.replica.lost("another holds it")
        bench.grant(5)
        said: list[str] = []
        bench.replica._log.listeners.append(lambda event: said.append(event.event))
        await bench.answer(LeadershipGranted)
        assert await bench.replica._jobs.read() is None
        assert said == []
        await bench.answer(LeadershipRevoked)
        await bench.answer(LeadershipGranted)
        job = await bench.replica._jobs.read()
        assert job is not None
        assert job.token == Token(5, 1)
        assert bench.standing is State.OPEN

    on(tmp_path, script)


def test_a_restart_that_falls_due_after_the_loss_claims_nothing_and_starts_no_driver(
    tmp_path: Path,
) -> None:
    async def script(bench: Bench) -> None:
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        token = bench.token
        await bench.replica._execute.reap()
        bench.replica._state = replace(bench.replica._state, driver=None)
        bench.replica.lost("another holds it")
        await bench.replica._deal_with(RestartDue(token))
        assert bench.replica._execute.slot.process is None
        job = await bench.replica._jobs.read()
        assert job is not None
        assert job.token == token

    def no_driver(*_: Any) -> DriverProcess:
        raise AssertionError("a driver is started")

    on(tmp_path, script, parts=DriverParts(process=no_driver))


@dataclass(eq=False)
class Claims:
    """In the place of ``JobClaims``: ``then`` happens while the job is claimed."""

    claims: JobClaims
    then: Callable[[], None]

    async def begin_attempt(self, *arguments: Any, **options: Any) -> Job | None:
        job = await self.claims.begin_attempt(*arguments, **options)
        self.then()
        return job


def test_a_lock_lost_while_the_job_is_claimed_is_no_takeover(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        execute = bench.replica._execute
        documents = execute.documents
        documents.claims = Claims(documents.claims, lambda: bench.replica.lost("another holds it"))  # type: ignore[assignment]
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        assert bench.replica._state.leadership == Standby()
        assert (bench.replica.health.takeovers, bench.replica.health.leads) == (0, False)
        assert bench.driver.said == []

    on(tmp_path, script)


def test_a_refused_claim_answered_under_another_grant_does_not_raise_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(bench: Bench) -> None:
        raised: list[int] = []

        async def raise_above(epoch: int) -> int:
            raised.append(epoch)
            return epoch + 1

        bench.grant(3)
        await bench.answer(LeadershipGranted)
        monkeypatch.setattr(bench.replica._elector, "raise_above", raise_above)
        bench.replica.lost("another holds it")
        bench.grant(5)
        await bench.replica._deal_with(DriverMessage(1, ClaimRefused("/root", "higher-token", int(Token(9, 1)))))
        assert raised == []

    on(tmp_path, script)


def test_a_refused_claim_answered_after_the_loss_raises_nothing(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        token = bench.token
        bench.replica.lost("another holds it")
        refused = ClaimRefused("/root", "higher-token", int(Token(9, 1)))
        await bench.replica._deal_with(DriverMessage(1, refused))
        assert bench.standing is State.REVOKED
        assert bench.token == token

    on(tmp_path, script)


def test_no_gate_opens_under_a_grant_that_was_given_back(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        grant = bench.grant(3)
        execute = bench.replica._execute
        await execute.release(None)
        assert await execute.execute(OpenGate(grant)) is None
        assert bench.standing is State.STANDBY
        await execute.reap()
        assert await execute.execute(StartLeader(2, grant)) is None
        assert execute.slot.process is None
        assert bench.driver.said == []

    on(tmp_path, script)


def test_a_script_that_has_come_to_its_end_is_finished_although_the_replica_is_told_to_stop(tmp_path: Path) -> None:
    """The last it was to hear was in the queue behind the stop, and a successor ran the whole script again."""

    async def script(bench: Bench) -> None:
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        bench.driver.ended = Ended(0, "", asked=True)
        bench.replica._driver_exited(bench.driver, 0)  # type: ignore[arg-type]
        assert await bench.replica._deal_with(StopRequested("SIGTERM")) == 0
        job = await bench.replica._jobs.read()
        assert job is not None
        assert job.status is Status.FINISHED

    on(tmp_path, script)


def test_a_script_that_a_stop_has_ended_is_not_finished(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        bench.grant(3)
        await bench.answer(LeadershipGranted)
        stop = asyncio.create_task(bench.replica._deal_with(StopRequested("SIGTERM")))
        await asyncio.sleep(0)
        bench.driver.ended = Ended(0, "", asked=True)
        bench.replica._driver_exited(bench.driver, 0)  # type: ignore[arg-type]
        bench.replica._execute.quiesced.set()
        assert await stop == 0
        job = await bench.replica._jobs.read()
        assert job is not None
        assert job.status is not Status.FINISHED

    on(tmp_path, script)


def earlier(holder: str, *, generation: int, reason: str = "") -> Replica:
    return Replica(holder, "standby", False, "", 0, 0.0, "", reason, generation, 1, "h", 1, "boot", 1.0)


def test_code_that_has_never_come_up_gives_way_to_the_generation_before_it(tmp_path: Path) -> None:
    async def script(bench: Bench) -> None:
        replica = bench.replica
        jobs = replica._jobs
        await jobs.begin_attempt(1, "old", nothing_granted, Generation(1, "good"))
        replica._generation = Generation(2, "bad")
        replica._execute.membership._is_dead = lambda _: False
        await replica._replicas.publish(earlier("old", generation=1))
        bench.grant(2)
        await bench.answer(LeadershipGranted)
        await replica._deal_with(DriverExited(1, Failed("No module named no_such_module")))
        job = await jobs.read()
        assert job is not None
        assert (job.token, job.generation) == (Token(2, 1), Generation(1, "good"))
        assert replica._guard.grant is None, "released"

    on(tmp_path, script)


@pytest.mark.parametrize(
    "message", [RehearsalReport("job.py:3", True, "live", 1, 1.0), Started(1, 0.0, 0.1), Roots(["/r"])]
)
def test_code_that_came_as_far_as_the_gate_is_the_generation_that_has_led(tmp_path: Path, message: Message) -> None:
    async def script(bench: Bench) -> None:
        replica = bench.replica
        jobs = replica._jobs
        await jobs.begin_attempt(1, "old", nothing_granted, Generation(1, "good"))
        replica._generation = Generation(2, "new")
        if isinstance(message, RehearsalReport):
            await replica._deal_with(DriverMessage(1, message))
        bench.grant(2)
        await bench.answer(LeadershipGranted)
        job = await jobs.read()
        assert job is not None
        assert job.generation.digest == ("new" if isinstance(message, RehearsalReport) else "good")
        if not isinstance(message, RehearsalReport):
            await replica._deal_with(DriverMessage(1, message))
        job = await jobs.read()
        assert job is not None
        assert job.generation.digest == "new"

    on(tmp_path, script)


@pytest.mark.parametrize(
    ("rehearsed", "how"), [(True, "live"), (False, WARM_UP), (False, OFF), (False, "live"), (False, "")]
)
def test_a_standby_that_gets_no_readier_leaves_no_lock_to_others(tmp_path: Path, rehearsed: bool, how: str) -> None:
    async def script(bench: Bench) -> None:
        told: list[bool] = []
        bench.replica._execute.reports._ready = told.append  # where the elector hears of it
        await bench.replica._deal_with(DriverMessage(1, RehearsalReport("job.py:3", rehearsed, how, 1, 1.0)))
        assert told == [rehearsed or how in {WARM_UP, OFF}]

    on(tmp_path, script)
