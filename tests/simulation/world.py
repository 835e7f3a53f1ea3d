"""The world of one history: servers, pods, and somebody who makes things go wrong; every write is looked at as it lands."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from unittest import mock

from tests.simulation.checkpoint import COMMITS, Checkpoint
from tests.simulation.clocks import simulated
from tests.simulation.driver import Desk, Gate, SimulatedDriver
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Line, SimulatedStore, Site
from tests.simulation.pod import Pod
from understudy.documents.memory import MemoryServer
from understudy.documents.record import Record
from understudy.errors import DocumentUnreadable, UnderstudyError
from understudy.events import Event
from understudy.fencing.claim import Claim, standing_claim
from understudy.fencing.token import Token
from understudy.ha.job import Job, Status
from understudy.settings import PROFILES, Timings
from understudy.supervisor.settings import RunSettings

CLUSTER, JOB = "sim", "job"
_SCRIPT = Path(__file__)
#: Lines of a history that are kept.
_TRACE = 5000


class Kind(StrEnum):
    """What goes wrong in a history.

    ``mixed``: everything but what the others do. ``harm``: somebody deletes, empties, damages, restores and buries documents,
    too. ``rollout``: newer revisions come besides. ``graceful``: pods are told to stop, and nothing else. ``outage``: the API
    server is away for everybody, and nothing else. ``storm``: leaders die, many of them.
    """

    MIXED = "mixed"
    HARM = "harm"
    ROLLOUT = "rollout"
    GRACEFUL = "graceful"
    OUTAGE = "outage"
    STORM = "storm"


_Trouble = Callable[[Pod], object]

#: Only one thing goes wrong in these, and it is known exactly what has to follow.
_ALONE = (Kind.GRACEFUL, Kind.OUTAGE)


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of history a seed is. ``finite``: the job comes to its end. ``multi``: the lock is two documents."""

    seed: int
    kind: Kind
    troubles: int
    multi: bool
    finite: bool
    #: Troubles that are left out, by number, when a history is made shorter.
    without: frozenset[int] = frozenset()

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = random.Random(f"plan {seed}")
        kind = chance.choices(list(Kind), [0.5, 0.2, 0.15, 0.07, 0.07, 0.005])[0]
        return cls.like(seed, kind)

    @classmethod
    def like(cls, seed: int, kind: Kind) -> Plan:
        chance = random.Random(f"{kind} {seed}")
        troubles = 100 if kind is Kind.STORM else 3 if kind is Kind.OUTAGE else chance.randint(6, 14)
        # an outage between the two writes of `multi` does take the lead: one document says so, and the other does not
        multi = chance.random() < 0.2 and kind is not Kind.OUTAGE
        return cls(seed, kind, troubles, multi, finite=kind is Kind.MIXED and chance.random() < 0.3)


@dataclass(frozen=True, slots=True)
class Result:
    """``failovers``: how many tokens committed after the first one. ``turns`` tells two runs of one seed apart."""

    plan: Plan
    failovers: int
    broken: tuple[str, ...]
    seconds: float
    turns: int
    trace: tuple[str, ...]


@dataclass(eq=False)
class World:
    plan: Plan
    chance: random.Random = field(init=False)
    loop: SimulatedLoop = field(default_factory=SimulatedLoop)
    api: Site = field(default_factory=Site)
    objects: Site = field(default_factory=Site)
    leases: MemoryServer = field(default_factory=MemoryServer)
    floors: MemoryServer = field(default_factory=MemoryServer)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    pods: list[Pod] = field(default_factory=list)
    obituaries: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    born: int = 0
    revision: int = 1
    calm: bool = False
    over: bool = False
    epoch: int = 0
    harmed: bool = False
    #: An older record of the lock may say that it is free while somebody leads.
    restored: bool = False
    buried_at: float = float("inf")
    named: tuple[str, float] | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(self.plan.seed)
        storm = self.plan.kind is Kind.STORM
        self.profile: Timings = PROFILES["fast" if storm else self.chance.choice(["fast", "fast", "default"])]
        self.multi = self.plan.multi
        self.workload = "sim/uid" if self.plan.kind is Kind.ROLLOUT else ""
        self.replicas = 3 if storm else self.chance.choice([2, 2, 3])
        alone = self.plan.kind in _ALONE
        self.trouble = 0.0 if alone else self.chance.choice([0.0, 0.0, 0.05, 0.3])
        # a leader with user code running is killed in an outage, as it must be
        self.user_code = self.plan.kind is not Kind.OUTAGE and self.chance.random() < 0.5
        self.restart_delay = 0.2
        self.rehearses = (
            1.0 if alone else self.chance.choice([0.2, 0.8])
        )  # without a successor a driver restarts in place
        slow = self.profile.request / (20 if self.multi else 6)  # two documents are twice as many requests
        self.api.slow = 0.0 if alone else self.chance.choice([0.0, 0.0, slow])
        self.fails = 0.0 if alone or storm else self.chance.choice([0.0, 0.0, 0.05])
        self.trigger = self.chance.choice([1.0, 4.0])
        self.starts_within = 0.5 if storm else self.chance.choice([0.5, 5.0])
        self.batches = self.chance.randint(5, 60) if self.plan.finite else None
        self.backups: list[dict[str, tuple[int, bytes]]] = []
        self.api.documents.listeners.append(self._looked_at)
        self.objects.documents.listeners.append(self._claim_landed)
        self.claimants: dict[Token, SimulatedDriver] = {}
        self._settings: dict[int, RunSettings] = {}
        self._job: Job | None = None
        self._roots: Claim | None = None

    # --- what pods ask of it ------------------------------------------------------------------------------------------

    def line(self, process: Process, site: Site, *, bounded: bool) -> Line:
        trouble = 0.0 if self.calm else self.trouble if site is self.api else self.trouble / 10
        return Line(
            self.loop,
            process,
            site,
            self.chance,
            self.profile.request if site is self.api else self.profile.write_timeout,
            trouble,
            late=3 * self.profile.lease,
            bounded=bounded,
        )

    def store(self, line: Line, server: MemoryServer | None = None) -> SimulatedStore:
        return SimulatedStore(
            line, self.chance.choice([0.0, 0.3, 1.0]) if self.plan.kind not in _ALONE else 0.0, server
        )

    def settings(self, revision: int) -> RunSettings:
        if revision not in self._settings:
            self._settings[revision] = RunSettings(
                _SCRIPT,
                (f"--revision={revision}",),
                (),
                CLUSTER,
                JOB,
                Path("/nonexistent"),
                self.profile,
                restart_attempts=1_000_000,
                restart_delay=self.restart_delay,
                restart_window=10.0,
                lock_kind="multi" if self.multi else "file",
            )
        return self._settings[revision]

    def opened(self, driver: SimulatedDriver) -> None:
        """A gate may have opened just now."""
        if self.restored or not driver.open:
            return
        for pod in self.pods:
            for other in pod.drivers:
                if other is not driver and other.open:
                    self.broken.append(f"two gates are open: {driver.process.name} and {other.process.name}")

    def user_code_runs(self, driver: SimulatedDriver) -> None:
        """Now, in ``driver``: nothing can hold it, so a predecessor's must have been killed before.

        One that is frozen, or was until just now, is none of this: it is fenced by what it writes to.
        """
        for pod in self.pods:
            for other in pod.drivers:
                awake = not other.process.frozen and self.loop.now - other.process.thawed_at > 1.0
                if other is not driver and other.busy and other.process.alive and awake:
                    self.broken.append(f"I3: user code runs in {driver.process.name} and {other.process.name}")

    def user_code_lasts(self) -> float:
        """At most, in seconds: now and then longer than a lease."""
        return 1.5 * self.profile.lease if not self.calm and self.chance.random() < 0.1 else 0.3

    def claims(self, driver: SimulatedDriver, token: Token) -> None:
        other = self.claimants.setdefault(token, driver)
        if other is not driver:
            self.broken.append(f"I2: {driver.process.name} claims under {token}, as {other.process.name} did")

    def heard(self, pod: Pod, event: Event) -> None:
        self.note(f"{event.event}: {event.sentence}", pod.holder)
        match event.event:
            case "released" if self.plan.kind is Kind.GRACEFUL:
                successor = event.facts["successor"]
                self.named = None if successor is None else (str(successor), self.loop.now)
            case "acquired":
                self._acquired(pod, int(str(event.facts["epoch"])))
            case "claimed":  # an epoch nobody made a token of may be granted again, once every document has gone
                self.epoch = max(self.epoch, int(str(event.facts["epoch"])))

    def _acquired(self, pod: Pod, epoch: int) -> None:
        if epoch <= self.epoch:
            self.broken.append(f"I2: {pod.holder} acquired epoch {epoch}, and tokens were made of {self.epoch}")
        if pod.terminating:
            self.broken.append(f"{pod.holder} was told to stop, and took the lock again")
        if self.loop.now - self.buried_at > 2 * self.profile.request:  # else it was won before
            self.broken.append(f"{pod.holder} took a lock that was buried")
        if self.plan.kind not in _ALONE and not self.calm and self.chance.random() < 0.1:
            self._freeze_in_claim(pod)
        named, self.named = self.named, None
        if named is not None and named[0] != pod.holder:
            chosen = next(each for each in self.pods if each.holder == named[0])
            if chosen.supervisor.alive and not chosen.terminating:
                self.broken.append(f"{pod.holder} took the lock before {named[0]}, which was named")

    def stopped(self, pod: Pod, error: UnderstudyError) -> None:
        self.stops.append(f"{pod.holder}: {error}")
        said = [event for event in pod.said if event.event == "stopped-for"]
        if len(said) != 1:
            self.broken.append(f"I9: {pod.holder} stopped with {len(said)} reasons: {error}")

    def died(self, pod: Pod) -> None:
        """Not one of its processes is left: its kubelet says so, and starts another."""
        self.note(f"{pod.holder} is gone, exit code {pod.exit_code}")
        self.loop.later(None, self.chance.uniform(0.05, 0.8), self._announced, pod)
        if pod.exit_code == 0 and not pod.terminating:
            return  # the job has ended
        self.loop.later(None, self.chance.uniform(0.3, 3.0), self.start)

    def _announced(self, pod: Pod) -> None:
        self.obituaries.add(pod.holder)
        for other in self.pods:
            if other.evidence is not None:
                self.loop.later(other.supervisor, 0.0, other.evidence.news.set)

    def start(self) -> None:
        living = [pod for pod in self.pods if not pod.gone and not pod.terminating]
        if not self.over and len(living) < self.replicas:
            self.born += 1
            self.pods.append(Pod(self, self.born, self.revision))

    def note(self, text: str, who: str = "world") -> None:
        if len(self.trace) < _TRACE:
            self.trace.append(f"{self.loop.now:9.3f} {who} {text}")

    # --- invariants, as writes land -----------------------------------------------------------------------------------

    def _looked_at(self, name: str) -> None:
        if name != f"{CLUSTER}-{JOB}" or self.harmed:
            return
        try:
            document = self.api.documents.document(name)
            job = None if document is None else Job.of(document)
        except (UnderstudyError, DocumentUnreadable) as error:
            self.broken.append(f"I9: the job's document became unreadable: {error}")
            return
        before, self._job = self._job, job
        if job is None:
            self.broken.append("I5: the job's document is gone")
        elif before is not None:
            if job.token < before.token:
                self.broken.append(f"I2: the job went back from token {before.token} to {job.token}")
            if job.generation.number < before.generation.number:
                self.broken.append(f"an older generation leads: {job.generation} after {before.generation}")
            if before.status.terminal and job != before:
                self.broken.append(f"I6: the job had ended as {before.status}, and was written again: {job}")
        if job is not None and job.status is Status.FINISHED and self.checkpoint.ended_by is None:
            self.checkpoint.ended_by = job.token

    def _claim_landed(self, name: str) -> None:
        document = self.objects.documents.document(name)
        claim = None if document is None else standing_claim(document)
        if claim is None:
            return
        before = self._roots
        if before is not None and (claim.token < before.token or (claim.token == before.token and claim != before)):
            self.broken.append(f"I2: the root was claimed by {claim} after {before}")
        self._roots = claim

    # --- things go wrong ----------------------------------------------------------------------------------------------

    def living(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.gone]

    def victim(self) -> Pod | None:
        """The leader, half of the time."""
        living = self.living()
        leaders = [pod for pod in living if any(driver.open for driver in pod.drivers)]
        if leaders and self.chance.random() < (1.0 if self.plan.kind is Kind.STORM else 0.6):
            return self.chance.choice(leaders)
        return self.chance.choice(living) if living else None

    async def _trouble(self, number: int) -> None:
        """Its kind depends on the seed and its number alone, so that the others stay what they are without it."""
        deaths: list[_Trouble] = [self._kill, self._kill, self._kill_driver, self._crash_soon]
        others: list[_Trouble] = [
            self._freeze,
            self._freeze_soon,
            self._cut,
            self._outage,
            self._terminate,
            self._terminate,
            self._step_clock,
        ]
        kinds: dict[Kind, list[_Trouble]] = {
            Kind.MIXED: deaths + others,
            Kind.STORM: [*deaths, self._terminate],
            Kind.ROLLOUT: [*deaths, *others, self._roll_out, self._roll_out],
            Kind.HARM: [*deaths, *others, *[self._harm] * 4],
            Kind.GRACEFUL: [self._terminate],
            Kind.OUTAGE: [self._outage],
        }
        what = random.Random(f"trouble {self.plan.seed} {number}").choice(kinds[self.plan.kind])
        pod = None if number in self.plan.without else self.victim()
        if pod is not None:
            self.note(f"{what.__name__.strip('_')} {pod.holder}")
            what(pod)

    def _kill(self, pod: Pod) -> None:
        pod.die()

    def _kill_driver(self, pod: Pod) -> None:
        for driver in pod.drivers:
            driver.die(-9)

    def _crash_soon(self, pod: Pod) -> None:
        process = self._soon(pod)
        process.stops = lambda: pod.end(process)

    def _freeze_soon(self, pod: Pod) -> None:
        """Between any two of its steps."""
        self._soon(pod).stops = lambda: self._freeze(pod)

    def _freeze_in_claim(self, pod: Pod) -> None:
        """Its driver, when it has just been told that it leads."""
        for driver in pod.drivers[-1:]:
            driver.process.stops_at = driver.process.turns + self.chance.randint(2, 12)
            driver.process.stops = lambda: self._freeze(pod)

    def _soon(self, pod: Pod) -> Process:
        process = self.chance.choice([each for each in pod.processes if each.alive])
        process.stops_at = process.turns + self.chance.randint(1, 60)
        return process

    def _freeze(self, pod: Pod) -> None:
        names: set[str] = self.chance.choice([{"supervisor"}, {"driver"}, {"supervisor", "driver"}])
        pod.freeze(lambda process: process.name.split("/")[1].split("-")[0] in names)
        self.loop.later(None, self.chance.uniform(0.1, 2.5 * self.profile.lease), pod.thaw)

    def _cut(self, pod: Pod) -> None:
        lines = [line for line in pod.every_line() if self.chance.random() < 0.8]
        for line in lines:
            line.cut = True
        if self.chance.random() < 0.3:
            self._kill_driver(pod)  # and for now nobody can be told

        def heal() -> None:
            for line in lines:
                line.cut = False

        self.loop.later(None, self.chance.uniform(0.1, 2.5 * self.profile.lease), heal)

    def _outage(self, _: Pod) -> None:
        alone = self.plan.kind is Kind.OUTAGE
        site = self.api if alone else self.chance.choice([self.api, self.api, self.objects])
        site.down = True

        def back() -> None:
            site.down = False

        self.loop.later(None, self.chance.uniform(0.1, 2.0 * self.profile.lease), back)

    def _terminate(self, pod: Pod) -> None:
        pod.sigterm()
        self.loop.later(None, self.chance.uniform(0.0, 1.0), self.start)

    def _step_clock(self, pod: Pod) -> None:
        error = self.chance.uniform(-1e6, 1e6)
        for process in pod.processes:
            process.wall_error += error

    def _roll_out(self, _: Pod) -> None:
        """A newer revision, or an older one's code again: to a Deployment both are one revision more."""
        self.revision += 1
        old = [pod for pod in self.living() if pod.revision < self.revision]
        for index, pod in enumerate(old):
            self.loop.later(None, index * self.chance.uniform(0.5, 8.0), self._replace, pod)
            self.loop.later(None, index * 1.0 + 0.1, self.start)

    def _replace(self, pod: Pod) -> None:
        if not self.calm:
            pod.sigterm()

    def _harm(self, _: Pod) -> None:
        """Deleted, emptied, damaged, or restored from a backup, one document or all of them together."""
        self.harmed = True
        server = self.api.documents
        self.backups.append(dict(server.stored))
        names = list(server.stored)
        if self.chance.random() < 0.6 and names:
            names = [self.chance.choice(names)]
        how = self.chance.choice(["delete", "empty", "damage", "restore", "bury"])
        self.restored = self.restored or how == "restore"
        backup = self.chance.choice(self.backups)
        self.note(f"{how} {names}")
        for name in names:
            match how:
                case "delete":
                    server.remove(name)
                case "empty":
                    server.overwrite(name, b"")
                case "damage":
                    server.overwrite(name, server.stored[name][1][: self.chance.randint(1, 40)])
                case "restore" if name in backup:
                    server.overwrite(name, backup[name][1])
                case "bury":
                    with suppress(DocumentUnreadable):
                        server.write(name, server.document(name), Record.buried)
                        if name.endswith("-lock") and not self.multi:
                            self.buried_at = min(self.buried_at, self.loop.now)
            if how != "bury" and name.endswith("-lock"):
                self.buried_at = float("inf")

    # --- one history --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        for _ in range(self.replicas):
            self.start()
        await asyncio.sleep(self.chance.uniform(1.0, 10.0))
        before = self.checkpoint.last_token
        for number in range(self.plan.troubles):
            await self._trouble(number)
            if self.plan.kind is Kind.STORM:
                await self._another_commits()
            else:
                await asyncio.sleep(self.chance.expovariate(1.0 / (0.4 * self.profile.lease)))
            if self.broken:
                return
        await self._calm_down()
        if self.plan.kind is Kind.OUTAGE and before is not None and self.checkpoint.last_token != before:
            self.broken.append(f"an outage took the lead from {before}: now {self.checkpoint.last_token}")

    async def _another_commits(self) -> None:
        """As soon as another token has committed, the next one dies; nobody waits for longer than two leases."""
        before, until = self.checkpoint.last_token, self.loop.now + 2 * self.profile.lease
        while self.checkpoint.last_token == before and self.loop.now < until:  # noqa: ASYNC110 - here time costs nothing
            await asyncio.sleep(0.1)

    async def _calm_down(self) -> None:
        """Faults stop, and what was under way lands; then somebody leads and commits, soon."""
        self.calm = True
        self.trouble = self.fails = 0.0
        self.api.down = self.objects.down = False
        self.api.land_all()
        self.objects.land_all()
        for pod in self.living():
            pod.thaw()
            if pod.terminating:
                pod.die()
            for line in pod.every_line():
                line.cut, line.trouble = False, 0.0
            for process in pod.processes:
                process.stops_at = None
        self.note("calm")
        if self.harmed or self.checkpoint.ended_by is not None:
            return
        timings = self.profile
        committed = self.checkpoint.last(COMMITS)
        soon = timings.lease + 2 * timings.retry + 4 * timings.request
        await asyncio.sleep(
            soon + self.starts_within + 2 * self.trigger + 4.0
        )  # 4: until a pod that ended has another start
        if self.batches is None:
            leaders = [pod for pod in self.living() if any(driver.open for driver in pod.drivers)]
            if len(leaders) != 1:
                self.broken.append(f"I7: {[pod.holder for pod in leaders]} lead after the calm")
            elif self.checkpoint.last(COMMITS) <= committed:
                self.broken.append("I7: nothing is committed after the calm")

    def run(self, script: Callable[[World], Awaitable[None]] | None = None) -> Result:
        """The history that the plan's seed is, or what ``script`` does."""
        with ExitStack() as stack:
            stack.enter_context(simulated(self.loop, self.chance))
            stack.enter_context(mock.patch("understudy.supervisor.health.FenceCounts.look", _no_look))
            stack.enter_context(
                mock.patch.multiple(
                    "understudy.supervisor.seat",
                    Driver=SimulatedDriver,
                    GateWriter=Gate,
                    Workspace=Desk,
                    Workspaces=Desk,
                )
            )
            began = self.loop.now
            self.loop.run(self._run() if script is None else _staged(self, script))
            self.over = True
        self.broken += self.checkpoint.broken + self.checkpoint.whole()
        self.broken += [f"I9: {problem}" for problem in self.loop.problems]
        turns = sum(process.turns for pod in self.pods for process in pod.processes)
        failovers = max(0, len(self.checkpoint.served) - 1)
        return Result(self.plan, failovers, tuple(self.broken), self.loop.now - began, turns, tuple(self.trace))


def _no_look(_: object) -> None:
    """There is no fence, and so no log of it."""


async def _staged(world: World, script: Callable[[World], Awaitable[None]]) -> None:
    await script(world)


def play(seed: int) -> Result:
    return World(Plan.of(seed)).run()


def shrunk(result: Result, tries: int = 60) -> Result:
    """The same violation with fewer troubles, as far as leaving out one after the other gets."""
    for number in reversed(range(result.plan.troubles)):
        if tries <= 0 or number in result.plan.without:
            continue
        tries -= 1
        shorter = World(replace(result.plan, without=result.plan.without | {number})).run()
        if shorter.broken and shorter.broken[0].split(":")[0] == result.broken[0].split(":")[0]:
            result = shorter
    return result
