"""The world of one history: servers, pods, and troubles; every write is looked at as it lands."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.doubles.blobs import MemoryBlobStore
from tests.doubles.memory import MemoryServer
from tests.simulation.checkpoint import COMMITS, Checkpoint
from tests.simulation.failures import Failures
from tests.simulation.invariants import Invariants
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Line, SimulatedStore, Site
from tests.simulation.parts import SCRATCH, Scratch
from tests.simulation.plan import ALONE, Kind, Plan, Result
from tests.simulation.pod import Pod
from tests.simulation.troubles import Troubles
from understudy.config.timings import PROFILES, Timings
from understudy.config.tree import Restart, Standby, Storage
from understudy.errors import DocumentEmptied
from understudy.events import Event
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.supervisor.settings import RunSettings

CLUSTER, JOB = "sim", "job"
_SCRIPT = Path(__file__)
#: Lines of a history that are kept.
_TRACE = 5000
#: A job with runs has so many, and so many replicas are started for runs that have ended.
_RUNS, _STALE = 3, 6
#: Seconds of calm after which every result is kept: more than the tries before it have taught a replica to wait.
_RESULTS_WITHIN = 2 * 3600.0


@dataclass(eq=False)
class World:
    plan: Plan
    chance: random.Random = field(init=False)
    loop: SimulatedLoop = field(default_factory=SimulatedLoop)
    api: Site = field(default_factory=Site)
    objects: Site = field(default_factory=Site)
    leases: MemoryServer = field(default_factory=MemoryServer)
    claims: MemoryServer = field(default_factory=MemoryServer)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    pods: list[Pod] = field(default_factory=list)
    obituaries: set[str] = field(default_factory=set)
    trace: list[str] = field(default_factory=list)
    failures: Failures = field(default_factory=Failures)
    born: int = 0
    revision: int = 1
    run_number: int = 1
    stale: int = 0
    calm: bool = False
    #: Whether the lock's object, when there is none with content, is there for replicas without the right to create one.
    bare: bool = True
    over: bool = False
    failure: str = "the script failed"  # what a script says that does
    #: Whether each replica is on a machine of its own, so that no word of a death comes.
    lone: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.plan.seed)
        #: In the place of the jitter's numbers.
        self.fractions = random.Random(0)
        self.drains = random.Random(f"drains {self.plan.seed}")
        self.saves = random.Random(f"saves {self.plan.seed}")
        storm = self.plan.kind is Kind.STORM
        self.profile: Timings = PROFILES["fast" if storm else self.chance.choice(["fast", "fast", "default"])]
        self.multi = self.plan.multi
        self.workload = "sim/uid" if self.plan.kind is Kind.ROLLOUT else ""
        self.replicas = 3 if storm else self.chance.choice([2, 2, 3])
        alone = self.plan.kind in ALONE
        self.trouble = 0.0 if alone else self.chance.choice([0.0, 0.0, 0.05, 0.3])
        # a leader with user code running is killed in an outage, as it must be
        self.user_code = self.plan.kind is not Kind.OUTAGE and self.chance.random() < 0.5
        self.restart_delay = 0.2
        self.may_create = random.Random(f"creates {self.plan.seed}").random() < 0.5
        # without a successor a driver restarts in place
        self.rehearses = 1.0 if alone else self.chance.choice([0.2, 0.8])
        slow = self.profile.request / (20 if self.multi else 6)  # two documents are twice as many requests
        self.api.slow = 0.0 if alone else self.chance.choice([0.0, 0.0, slow])
        self.fails = 0.0 if alone or storm else self.chance.choice([0.0, 0.0, 0.05])
        self.trigger = self.chance.choice([1.0, 4.0])
        self.starts_within = 0.5 if storm else self.chance.choice([0.5, 5.0])
        self.batches = self.chance.randint(5, 60) if self.plan.finite else None
        # Results of runs that end. A die of its own: histories without them stay what they were.
        self.blob_faults = random.Random(f"blobs {self.plan.seed}")
        self.blobs_fail = self.blob_faults.choice([0.0, 0.2, 0.6])
        stored = self.plan.finite or (self.plan.kind is Kind.ASKED and self.saves.random() < 0.4)
        self.blobs = MemoryBlobStore(fault=self._blob_fault) if stored else None
        self.scratch = Scratch(fault=self._blob_fault) if self.plan.finite else None
        self._settings: dict[tuple[int, int], RunSettings] = {}
        self.stuck = False  # whether takeovers wait for something that never comes
        self.holds, self.troubles = Invariants(self), Troubles(self)
        if self.scratch is not None:
            self.scratch.discarded = self.holds.scratch_goes
        self.operator = Process("operator")

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
        deaf = self.chance.choice([0.0, 0.3, 1.0]) if self.plan.kind not in ALONE else 0.0
        return SimulatedStore(line, deaf, server, lambda name: self.bare or not name.endswith("-lock"))

    @property
    def jobs(self) -> JobStore:
        """The job's document as an operator reaches it who asks something of the job."""
        line = self.line(self.operator, self.api, bounded=True)
        return JobStore(self.store(line), self.settings(1).names.job_document, JOB, "", self.unique)

    def settings(self, revision: int, run: int = 1) -> RunSettings:
        if (revision, run) not in self._settings:
            self._settings[revision, run] = RunSettings(
                _SCRIPT,
                (f"--revision={revision}",),
                (),
                CLUSTER,
                JOB,
                Path("/nonexistent"),
                self.profile,
                lock_kind="multi" if self.multi else "file",
                run_id=f"run-{run}" if self.plan.runs else "",
                storage=Storage(scratch=f"s3a://bucket/{SCRATCH}" if self.plan.finite else ""),
                restart=Restart(
                    # in a storm few drivers run for the window, and back-offs would grow until nothing happens any more
                    strategy="fixed-delay" if self.plan.kind is Kind.STORM else "exponential",
                    attempts=1000,
                    delay=self.restart_delay,
                    window=10.0,
                ),
                standby=Standby(max_age=4.0 if self.plan.ages else 3600.0),
            )
        return self._settings[revision, run]

    def _blob_fault(self, verb: str) -> str:
        del verb
        fails = not self.calm and self.blob_faults.random() < self.blobs_fail
        return self.blob_faults.choice(["lost", "late"]) if fails else ""

    def user_code_lasts(self) -> float:
        """At most, in seconds: now and then longer than a lease."""
        return 1.5 * self.profile.lease if not self.calm and self.chance.random() < 0.1 else 0.3

    def heard(self, pod: Pod, event: Event) -> None:
        self.note(f"{event.event}: {event.sentence}", pod.holder)
        self.holds.heard(pod, event)
        if event.event == "acquired" and self.plan.kind not in ALONE and not self.calm and self.chance.random() < 0.1:
            self.troubles.freeze_in_claim(pod)

    def died(self, pod: Pod) -> None:
        """Not one of its processes is left: its kubelet says so, and starts another."""
        self.note(f"{pod.holder} is gone, exit code {pod.exit_code}")
        if not self.lone:
            self.loop.later(None, self.chance.uniform(0.05, 0.8), self._announced, pod)
        if pod.exit_code == 0 and not pod.terminating:
            if self.plan.runs:
                self.loop.later(None, self.chance.uniform(0.3, 3.0), self._run_again, pod.run)
            return  # the job has ended
        self.loop.later(None, self.chance.uniform(0.3, 3.0), self.start)

    def _announced(self, pod: Pod) -> None:
        self.obituaries.add(pod.holder)
        for other in self.pods:
            if other.evidence is not None:
                self.loop.later(other.supervisor, 0.0, other.evidence.news.set)

    def _run_again(self, ended: int) -> None:
        """The next run is begun, once, and now and then one that has ended is started again by mistake."""
        if ended == self.run_number < _RUNS:
            assert self.batches is not None
            self.run_number += 1
            self.batches += self.chance.randint(2, 10)
            for _ in range(self.replicas):
                self.start()
        elif self.stale < _STALE and self.chance.random() < 0.5:
            self.stale += 1
            self.start(self.chance.randint(1, ended))

    def start(self, run: int | None = None) -> None:
        living = [pod for pod in self.pods if not pod.gone and not pod.terminating]
        if not self.over and (run is not None or len(living) < self.replicas):
            self.born += 1
            self.pods.append(Pod(self, self.born, self.revision, run or self.run_number))

    def unique(self) -> str:
        """In the place of a random UUID."""
        return uuid.UUID(int=self.chance.getrandbits(128), version=4).hex

    def note(self, text: str, who: str = "world") -> None:
        if len(self.trace) < _TRACE:
            self.trace.append(f"{self.loop.now:9.3f} {who} {text}")

    def living(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.gone]

    # --- one history --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        for _ in range(self.replicas):
            self.start()
        await asyncio.sleep(self.chance.uniform(1.0, 10.0))
        before = self.checkpoint.last_token
        for number in range(self.plan.troubles):
            self.troubles.come(number)
            if self.plan.kind is Kind.STORM:
                await self._another_commits()
            else:
                await asyncio.sleep(self.chance.expovariate(1.0 / (0.4 * self.profile.lease)))
            if self.holds.broken:
                return
        await self._calm_down()
        if self.plan.kind is Kind.OUTAGE and before is not None and self.checkpoint.last_token != before:
            self.holds.broken.append(f"an outage took the lead from {before}: now {self.checkpoint.last_token}")

    async def _another_commits(self) -> None:
        """As soon as another token has committed, the next one dies; the wait is two leases at most."""
        before, until = self.checkpoint.last_token, self.loop.now + 2 * self.profile.lease
        while self.checkpoint.last_token == before and self.loop.now < until:  # noqa: ASYNC110 - here time costs nothing
            await asyncio.sleep(0.1)

    def _soon(self) -> float:
        """Within how many seconds of the calm a replica has to lead."""
        timings = self.profile
        soon = timings.lease + 2 * timings.retry + 4 * timings.request
        # where the lock was deleted its holder's deadline passes first, and then a lease
        return soon + (timings.lease + timings.kill_after if self.holds.deleted else 0.0)

    async def _calm_down(self) -> None:
        """Faults stop, and what was under way lands; then a replica leads and commits, soon."""
        self._faults_stop()
        if self.holds.harmed or self.checkpoint.ended_by is not None:
            return
        if self.plan.kind is Kind.ASKED:
            with suppress(DocumentEmptied):  # no replica has led yet
                await self.jobs.resume()
                await self.jobs.unpause()
        committed = self.checkpoint.last(COMMITS)
        another_pod = 4.0
        soon = self._soon() + another_pod + self.starts_within
        await asyncio.sleep(soon + 2 * self.trigger)
        if self.batches is not None:
            await self._runs_end(soon)
            return
        if self.checkpoint.ended:
            return  # it was being drained
        leaders = [pod.holder for pod in self.living() if pod.leads]
        if self.holds.job is not None and self.holds.job.status is Status.DRAINING:
            self.holds.broken.append("I11: the job is DRAINING for ever")
        elif len(leaders) != 1:
            self.holds.broken.append(f"I7: {leaders} lead after the calm")
        elif self.checkpoint.last(COMMITS) <= committed:
            self.holds.broken.append("I7: nothing is committed after the calm")
        elif self.holds.job is not None and self.holds.job.requests.under_way is not None:
            self.holds.broken.append(f"I10: no answer to {self.holds.job.requests.request}")

    def _faults_stop(self) -> None:
        self.calm = self.bare = True
        self.trouble = self.fails = 0.0
        self.api.down = self.objects.down = False
        self.loop.kill(self.operator)
        self.operator = Process("operator")
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

    async def _runs_end(self, soon: float) -> None:
        """The run under way ends; where there are more, so does each."""
        assert self.batches is not None
        while True:
            run = self.run_number
            await asyncio.sleep(self.batches * (self.trigger + 1.0))
            if run == self.run_number and self.checkpoint.ended_by is None:
                self.holds.broken.append(f"I7: run {run} of the job does not come to its end")
                return
            if not self.plan.runs or self.run_number == _RUNS:
                break
            await asyncio.sleep(soon)
        await asyncio.sleep(_RESULTS_WITHIN)
        self.holds.results_are_kept()
        self.holds.scratch_is_gone()

    def run(self, script: Callable[[World], Coroutine[Any, Any, None]] | None = None) -> Result:
        """The history that the plan's seed is, or what ``script`` does."""
        self.fractions = random.Random(self.chance.getrandbits(64))
        began = self.loop.now
        self.loop.run(self._run() if script is None else script(self))
        self.over = True
        self.holds.broken += self.checkpoint.broken + self.checkpoint.whole()
        self.holds.broken += [f"I9: {problem}" for problem in self.loop.problems]
        turns = sum(process.turns for pod in self.pods for process in pod.processes)
        failovers = max(0, len(self.checkpoint.served) - 1)
        return Result(self.plan, failovers, tuple(self.holds.broken), self.loop.now - began, turns, tuple(self.trace))


def play(plan: Plan) -> Result:
    return World(plan).run()


def shrunk(result: Result, tries: int = 60) -> Result:
    """The same violation with fewer troubles, as far as leaving out one after the other gets."""
    for number in reversed(range(result.plan.troubles)):
        if tries <= 0 or number in result.plan.without:
            continue
        tries -= 1
        shorter = play(replace(result.plan, without=result.plan.without | {number}))
        if shorter.broken and shorter.broken[0].split(":")[0] == result.broken[0].split(":")[0]:
            result = shorter
    return result
