"""What has to hold in every history, looked at as writes land and gates open (docs/proof.md)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.checkpoint import OFFSETS
from tests.simulation.driver import SimulatedDriver
from tests.simulation.failures import Planned
from tests.simulation.plan import Kind
from tests.simulation.pod import Pod
from tests.simulation.saving import lacks
from understudy.errors import DocumentUnreadable, InternalError, UnderstudyError
from understudy.events import Event
from understudy.fencing.claim import standing_claim
from understudy.ha.components import ENDPOINT
from understudy.ha.job import Job, Status
from understudy.ha.requests import Result
from understudy.ha.results import JobResult
from understudy.protocol.claim import Claim
from understudy.protocol.token import Token

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Seconds after which a cleanup that has not read of a replica was begun before that was told.
_TOLD_FOR = 60.0


@dataclass(eq=False)
class Invariants:
    """``broken`` says what did not hold. ``harmed``: documents are not what replicas left there any more.

    ``deleted``: the lock was, at least once. ``restored``: an older record of the lock may say that it is free while a replica leads.
    """

    world: World
    broken: list[str] = field(default_factory=list)
    epoch: int = 0
    claimed_at: float = float("-inf")
    harmed: bool = False
    restored: bool = False
    deleted: bool = False
    buried_at: float = float("inf")
    named: str | None = None
    job: Job | None = None
    claimants: dict[Token, SimulatedDriver] = field(default_factory=dict)
    epochs: dict[int, Pod] = field(default_factory=dict)
    root: Claim | None = None
    suspended_at: int | None = None
    paused_at: float | None = None
    finished: set[str] = field(default_factory=set)  # runs

    def __post_init__(self) -> None:
        self.world.api.documents.listeners.append(self._looked_at)
        self.world.objects.documents.listeners.append(self._claim_landed)

    # --- what is told -------------------------------------------------------------------------------------------------

    def opened(self, driver: SimulatedDriver) -> None:
        """A gate may have opened just now."""
        replica = driver.pod.replica
        if replica is not None and replica._elector.view.gate_deadline is None:
            self.broken.append(f"the gate of {driver.process.name} opens, and its elector holds no grant")
        if self.restored or not driver.open:
            return
        for pod in self.world.pods:
            for other in pod.drivers:
                if other is not driver and other.open:
                    self.broken.append(f"two gates are open: {driver.process.name} and {other.process.name}")

    def user_code_runs(self, driver: SimulatedDriver) -> None:
        """Now, in ``driver``: nothing can hold it, so a predecessor's must have been killed before.

        One that is frozen, or was until just now, is none of this: it is fenced by what it writes to.
        """
        for pod in self.world.pods:
            for other in pod.drivers:
                awake = not other.process.frozen and self.world.loop.now - other.process.thawed_at > 1.0
                if other is not driver and other.busy and other.process.alive and awake:
                    self.broken.append(f"I3: user code runs in {driver.process.name} and {other.process.name}")

    def claims(self, driver: SimulatedDriver, token: Token) -> None:
        other = self.claimants.setdefault(token, driver)
        if other is not driver:
            self.broken.append(f"I2: {driver.process.name} claims under {token}, as {other.process.name} did")
        first = self.epochs.setdefault(token.epoch, driver.pod)
        if first is not driver.pod:
            self.broken.append(f"I2: {driver.pod.holder} claims under {token}, and {first.holder} had that epoch")

    def heard(self, pod: Pod, event: Event) -> None:
        match event.event:
            case "released" if self.world.plan.kind is Kind.GRACEFUL:
                successor = event.facts["successor"]
                self.named = None if successor is None else str(successor)
            case "acquired":
                self._acquired(pod, int(str(event.facts["epoch"])))
            case "claimed":  # an epoch without a token may be granted again, once every document has gone
                if (epoch := int(str(event.facts["epoch"]))) > self.epoch:
                    self.epoch, self.claimed_at = epoch, self.world.loop.now

    def _acquired(self, pod: Pod, epoch: int) -> None:
        world = self.world
        # A lock that was deleted before its first holder had claimed anything may be made again meanwhile: its epoch is claimed by one of the two.
        asked_before = epoch == self.epoch and world.loop.now - self.claimed_at < 2 * world.profile.request
        if epoch <= self.epoch and not (asked_before and self.deleted):
            self.broken.append(f"I2: {pod.holder} acquired epoch {epoch}, and tokens were made of {self.epoch}")
        # A frozen process hears of it after the answer that was under way.
        if pod.terminating and pod.replica is not None and pod.replica.told_to_stop.is_set():
            self.broken.append(f"{pod.holder} was told to stop, and took the lock again")
        if world.loop.now - self.buried_at > 2 * world.profile.request:  # else it was won before
            self.broken.append(f"{pod.holder} took a lock that was buried")
        if (
            self.paused_at is not None and world.loop.now - self.paused_at > 4 * world.profile.request
        ):  # else it was asked before
            self.broken.append(f"I10: {pod.holder} took the lock of a job that is paused")
        named, self.named = self.named, None
        if named is not None and named != pod.holder:
            chosen = next(each for each in world.pods if each.holder == named)
            if chosen.supervisor.alive and not chosen.terminating:
                self.broken.append(f"{pod.holder} took the lock before {named}, which was named")

    def starts(self, pod: Pod) -> None:
        """A driver, another one, or the first one."""
        if self.world.plan.native and pod.executors_of != len(pod.drivers):
            self.broken.append(f"I9: {pod.holder} starts a driver beside executors of the one before")

    def stopped(self, pod: Pod, error: UnderstudyError) -> None:
        said = [event for event in pod.said if event.event == "stopped-for"]
        if len(said) != 1:
            self.broken.append(f"I9: {pod.holder} stopped with {len(said)} reasons: {error}")
        if isinstance(error, InternalError) and not isinstance(error.__cause__, Planned):
            self.broken.append(f"I9: {pod.holder} ended because of a defect: {error}")

    def outlives(self, pod: Pod) -> None:
        """The grace period, after it was told to stop; no server was away for all of it, and no driver hung where SIGKILL does not reach it."""
        if any(driver.hangs for driver in pod.drivers):
            return
        if all(line.trouble == 0.0 and not line.cut for line in pod.every_line()) and not self.world.api.down:
            self.broken.append(f"I9: {pod.holder} was told to stop, and does not come to its end")

    def results_are_kept(self) -> None:
        """Once everything is calm."""
        assert self.world.blobs is not None
        stored = self.world.blobs.stored
        clean = [JobResult.decode(data, name) for name, data in stored.items() if name.endswith("/result.json")]
        told = {each.run: each.status for each in clean}
        for run in sorted(self.finished):
            if told.get(run) != Status.FINISHED:
                self.broken.append(f"I8: run {run!r} has FINISHED, and results say {told.get(run)}")
        if left := sorted(name for name in stored if name.endswith("_DIRTY.json")):
            self.broken.append(f"I8: {left} stay dirty")

    def scratch_goes(self, prefix: str) -> None:
        """Just now. One whose replica could not say that it is there yet may lose a rehearsal."""
        for pod in self.world.pods:
            for driver in pod.drivers:
                since = pod.replica._execute.membership._published_at if pod.replica is not None else 0.0
                told = since > 0.0 and pod.clock.now() - since > _TOLD_FOR
                if driver.scratch == prefix and driver.process.alive and told:
                    self.broken.append(f"I8: what {driver.process.name} rehearses on is removed")

    def scratch_is_gone(self) -> None:
        """Once everything is calm, and no run is under way."""
        assert self.world.scratch is not None
        living = {driver.scratch for pod in self.world.living() for driver in pod.drivers}
        if left := sorted(name for name in self.world.scratch.stored if not name.startswith(tuple(living))):
            self.broken.append(f"I8: {left} are left in scratch")

    # --- what lands ---------------------------------------------------------------------------------------------------

    def _looked_at(self, name: str) -> None:
        if name != self.world.settings(1).names.job_document or self.harmed:
            return
        try:
            document = self.world.api.documents.document(name)
            job = None if document is None else Job.of(document)
        except (UnderstudyError, DocumentUnreadable) as error:
            self.broken.append(f"I9: the job's document became unreadable: {error}")
            return
        before, self.job = self.job, job
        paused = job is not None and job.requests.keeps_from_leading("none", "former")
        self.paused_at = (self.world.loop.now if self.paused_at is None else self.paused_at) if paused else None
        if job is None:
            self.broken.append("I5: the job's document is gone")
        elif before is not None:
            if job.token < before.token:
                self.broken.append(f"I2: the job went back from token {before.token} to {job.token}")
            if job.generation.number < before.generation.number:
                self.broken.append(f"an older generation leads: {job.generation} after {before.generation}")
            self._status_follows(before, job)
        endpoint = None if job is None else job.leader_of(ENDPOINT)
        if job is not None and endpoint is not None and endpoint.address != f"{job.holder}:8080":
            self.broken.append(f"{job.holder} leads, and its endpoint is said to be {endpoint}")
        if job is not None and job.status is Status.FINISHED and self.world.checkpoint.ended_by is None:
            self.world.checkpoint.ended_by = job.token
            self.finished.add(job.runs.run)

        if job is not None and self.world.blobs is not None:
            self._savepoints_are_whole(job)

    def _savepoints_are_whole(self, job: Job) -> None:
        """Those that are called complete, whenever the document is written, and so for as long as the job goes on."""
        for one in job.savepoints.known:
            if one.complete and (lack := lacks(self.world, self.world.settings(1).cluster, job.job, one)):
                self.broken.append(f"I8: savepoint {one.number} is called {one.state}, and is {lack}")

    def _status_follows(self, before: Job, job: Job) -> None:
        if Status.SUSPENDED in {before.status, job.status}:
            self._suspended(before, job)
        if (before.status, job.status) == (Status.DRAINING, Status.FINISHED) and not self.world.checkpoint.drained:
            self.broken.append("I11: a job that was drained is FINISHED, and its query keeps something back")
        if before.status is not Status.DRAINING and job.status is Status.DRAINING and job.requests.under_way is None:
            self.broken.append("I11: the job is DRAINING, and no request asks for it")
        another = before.requests.cancels and job.runs.run != before.runs.run
        if before.status is Status.DRAINING and job.status in {Status.RUNNING, Status.SUSPENDED} and not another:
            self.broken.append(f"I11: a job that was DRAINING is {job.status}")
        # to pause one, and to end that, is asked of what comes after it
        if before.status.terminal and job != replace(before, requests=job.requests):
            self._written_after_its_end(before, job)

    def _suspended(self, before: Job, job: Job) -> None:
        """No leader claims a job that is SUSPENDED, and no batch of it begins.

        Where it was suspended without a driver, the last write of one that died may still land, as it may before any takeover.
        """
        begun = self.world.checkpoint.last(OFFSETS)
        if before.status is not Status.SUSPENDED:
            self.suspended_at = begun if job.checkpoints.counter != before.checkpoints.counter else None
            answer = job.requests.answer
            if answer is None or answer == before.requests.answer or answer.result != Result.DONE:
                self.broken.append(f"I10: the job is SUSPENDED, and the answer is {answer}")
        elif job.status is Status.SUSPENDED and job.token != before.token:
            self.broken.append(f"I10: {job.holder} leads a job that is SUSPENDED")
        elif self.suspended_at is not None and begun != self.suspended_at:
            self.broken.append(f"I10: batch {begun} began while the job was SUSPENDED after batch {self.suspended_at}")

    def _written_after_its_end(self, before: Job, job: Job) -> None:
        if job.runs.run in {before.runs.run, *self.finished}:
            self.broken.append(f"I6: the job had ended as {before.status}, and was written again: {job}")
        else:  # another run
            self.world.checkpoint.ended_by = None

    def _claim_landed(self, name: str) -> None:
        document = self.world.objects.documents.document(name)
        claim = None if document is None else standing_claim(document)
        if claim is None:
            return
        before = self.root
        if before is not None and (claim.token < before.token or (claim.token == before.token and claim != before)):
            self.broken.append(f"I2: the root was claimed by {claim} after {before}")
        self.root = claim
