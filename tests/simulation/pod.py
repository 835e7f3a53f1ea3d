"""One replica's pod: a supervisor, its drivers, and what its kubelet does about their ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.clocks import ProcessClock
from tests.simulation.driver import SimulatedDriver
from tests.simulation.loop import Process
from tests.simulation.parts import Desk, Gate, NoCounters
from understudy.documents.model import DocumentStore
from understudy.election.multi import MultiStore
from understudy.errors import UnderstudyError
from understudy.events import Event, Log
from understudy.ha.replicas import Replica as Entry
from understudy.ha.replicas import ReplicaStore
from understudy.ha.services import HighAvailabilityServices
from understudy.supervisor.driver_parts import DriverParts
from understudy.supervisor.hosts import EvidenceListener, Host
from understudy.supervisor.native import Executors as TheirExecutors
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from tests.simulation.world import World


#: What a driver is made of here.
_PARTS = DriverParts(SimulatedDriver, Gate, NoCounters.create, Desk, Desk)  # type: ignore[arg-type]


class Quiet(Log):
    """A log for its listeners alone."""

    def say(self, event: str, sentence: str, **facts: object) -> None:
        self.tell(event, sentence, **facts)


@dataclass(slots=True)
class Alive:
    """In the place of a proof of life: where the driver of this replica lives."""

    pod: Pod
    path: Path = Path("alive")
    descriptor: int = -1
    inode: int = 1


@dataclass(slots=True)
class Evidence:
    """The kubelet's word: only for a replica without one process left, and some time after."""

    pod: Pod
    leader: Callable[[], str | None]
    dead: Callable[[str], None]
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.pod.world.failures.at(f"evidence of {self.pod.holder}")
        told: set[str] = set()
        while True:
            await self.news.wait()
            await asyncio.sleep(self.pod.world.chance.uniform(0.0, 0.8))
            holder = self.leader()
            if holder in self.pod.world.obituaries and holder not in told:
                told.add(holder)
                self.dead(holder)
            if self.pod.world.obituaries <= told or self.pod.world.chance.random() < 0.05:
                self.news.clear()  # until the next one; a replica that was not taken for the leader is not looked for much longer

    def is_dead(self, replica: Entry) -> bool:
        return replica.holder in self.pod.world.obituaries


@dataclass(frozen=True, slots=True)
class Executors:
    """In the place of ``Native``: to delete the executors of earlier leaders is a request, and the lock may be lost meanwhile."""

    pod: Pod

    async def clear(self, alive: Iterable[str], log: Log, *, own: bool = False) -> None:
        del alive, log, own
        await self._request()

    async def clear_own(self, log: Log) -> None:
        del log
        self.pod.executors_of = len(self.pod.drivers)
        await self._request()

    async def _request(self) -> None:
        world, line = self.pod.world, self.pod.lines[0]
        if not world.calm and world.chance.random() < 0.3:
            self.pod.freeze(lambda process: process is self.pod.supervisor)
            world.loop.later(None, world.chance.uniform(0.1, 2.5 * world.profile.lease), self.pod.thaw)
        await line.tell(lambda: None, None)
        await asyncio.sleep(world.chance.uniform(0.0, line.request))

    def executors(self, submit: tuple[str, ...]) -> TheirExecutors:
        return TheirExecutors(submit)


class Pod:
    """One start of a pod's containers: it ends once, and another takes its place."""

    def __init__(self, world: World, number: int, revision: int, run: int) -> None:
        self.world, self.number, self.revision, self.run = world, number, revision, run
        self.holder = f"h{number}"
        self.offset, self.rate = world.chance.uniform(-500.0, 500.0), world.chance.uniform(0.998, 1.002)
        self.drivers: list[SimulatedDriver] = []
        self.executors_of = 0  # as many of the drivers had ended when their executors were last asked to be deleted
        self.processes: list[Process] = []
        self.clock = ProcessClock(world.loop)
        self.supervisor = self.process("supervisor")
        self.exit_code: int | None = None
        self.terminating = False
        self.gone = False
        self.said: list[Event] = []
        self.replica: Supervisor | None = None
        self.evidence: Evidence | None = None
        self.lines = [
            world.line(self.supervisor, world.api, bounded=True),
            world.line(self.supervisor, world.api, bounded=False),
        ]
        world.loop.inside(self.supervisor, lambda: world.loop.create_task(self._main()))

    def process(self, name: str) -> Process:
        made = Process(f"{self.holder}/{name}", self.offset, self.rate)
        self.processes.append(made)
        return made

    async def _main(self) -> None:
        world = self.world
        await asyncio.sleep(world.chance.uniform(0.0, 1.0))
        log = Quiet(listeners=[self.said.append, self._log_fails, lambda event: world.heard(self, event)])
        documents, lock = world.store(self.lines[0]), world.store(self.lines[1])
        held: DocumentStore = MultiStore(lock, world.store(self.lines[1], world.leases)) if world.multi else lock

        def evidence(replicas: ReplicaStore, told: EvidenceListener) -> Evidence:
            del replicas
            self.evidence = Evidence(self, told.leader, told.on_leader_dead)  # a signal comes unannounced
            return self.evidence

        async def close() -> None:
            pass

        async def look_up() -> int:
            return self.revision

        services = HighAvailabilityServices(
            documents, held, world.store(self.lines[0], world.claims), {}, close, world.blobs, world.scratch
        )
        host = Host(
            self.holder,
            f"pod-{self.number}",
            "",
            Alive(self),  # type: ignore[arg-type]
            evidence,
            close,
            driver_parts=_PARTS,
            clock=self.clock,
            unique=world.unique,
            chance=world.fractions.random,
            workload=world.workload,
            revision=self.revision,
            look_up_revision=look_up,
            native=Executors(self) if world.plan.native else None,  # type: ignore[arg-type]
            told_of_deaths=not world.lone,
        )
        settings: RunSettings = world.settings(self.revision, self.run)
        try:
            self.replica = Supervisor(settings, services, host, Path("fence.jar"), log)
            self.replica.serve_endpoint(f"{self.holder}:8080")
            self.exit_code = await self.replica.run()
        except UnderstudyError as error:
            self.exit_code = error.exit_code
            world.holds.stopped(self, error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if world.loop.is_closed():
                raise
            world.holds.broken.append(f"I9: {self.holder} died of {error!r}")
        self.die()

    def _log_fails(self, event: Event) -> None:
        self.world.failures.at(f"{event.event} in the log of {self.holder}")

    # --- what befalls it ----------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether anything of it may write now."""
        return any(driver.open for driver in self.drivers)

    def sigterm(self) -> None:
        """As a rollout or a drain does it; what lives after the grace period is killed."""
        if self.terminating or not self.supervisor.alive:
            return
        self.terminating = True
        handler = self.supervisor.signals.get(signal.SIGTERM)
        if handler is None:
            self.die()
            return
        handler()
        self.world.loop.later(None, 30.0, self._grace_ends)

    def _grace_ends(self) -> None:
        if (
            self.supervisor.alive
            and not self.supervisor.frozen
            and self.world.loop.now - self.supervisor.thawed_at > 30.0
        ):
            self.world.holds.outlives(self)
        self.die()

    def die(self) -> None:
        """The container's first process is gone, and the kernel kills the rest."""
        self.world.loop.kill(self.supervisor)
        for driver in list(self.drivers):
            driver.die(-signal.SIGKILL)
        self.settle()

    def end(self, process: Process) -> None:
        """SIGKILL of one process; the supervisor's is everybody's."""
        for driver in self.drivers:
            if driver.process is process:
                driver.die(-signal.SIGKILL)
        if process is self.supervisor:
            self.die()

    def settle(self) -> None:
        """Tell the world, once, when no process is left."""
        if not self.gone and not any(process.alive for process in self.processes):
            self.gone = True
            self.world.died(self)

    def freeze(self, which: Callable[[Process], bool]) -> None:
        for process in self.processes:
            if process.alive and which(process):
                self.world.loop.freeze(process)

    def thaw(self) -> None:
        for process in self.processes:
            self.world.loop.thaw(process)

    def every_line(self) -> list[Any]:
        return [*self.lines, *(driver.line for driver in self.drivers)]
