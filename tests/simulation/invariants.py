"""What has to hold in every history, looked at as writes land and gates open (docs/proof.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.driver import SimulatedDriver
from tests.simulation.plan import Kind
from tests.simulation.pod import Pod
from understudy.errors import DocumentUnreadable, UnderstudyError
from understudy.events import Event
from understudy.fencing.claim import standing_claim
from understudy.ha.job import Job, Status
from understudy.protocol.claim import Claim
from understudy.protocol.token import Token

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(eq=False)
class Invariants:
    """``broken`` says what did not hold. ``harmed``: documents are not what replicas left there any more.

    ``deleted``: the lock was, at least once. ``restored``: an older record of the lock may say that it is free while a replica leads.
    """

    world: World
    broken: list[str] = field(default_factory=list)
    epoch: int = 0
    harmed: bool = False
    restored: bool = False
    deleted: bool = False
    buried_at: float = float("inf")
    named: str | None = None
    job: Job | None = None
    claimants: dict[Token, SimulatedDriver] = field(default_factory=dict)
    root: Claim | None = None
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

    def heard(self, pod: Pod, event: Event) -> None:
        match event.event:
            case "released" if self.world.plan.kind is Kind.GRACEFUL:
                successor = event.facts["successor"]
                self.named = None if successor is None else str(successor)
            case "acquired":
                self._acquired(pod, int(str(event.facts["epoch"])))
            case "claimed":  # an epoch without a token may be granted again, once every document has gone
                self.epoch = max(self.epoch, int(str(event.facts["epoch"])))

    def _acquired(self, pod: Pod, epoch: int) -> None:
        world = self.world
        if epoch <= self.epoch:
            self.broken.append(f"I2: {pod.holder} acquired epoch {epoch}, and tokens were made of {self.epoch}")
        if pod.terminating:
            self.broken.append(f"{pod.holder} was told to stop, and took the lock again")
        if world.loop.now - self.buried_at > 2 * world.profile.request:  # else it was won before
            self.broken.append(f"{pod.holder} took a lock that was buried")
        named, self.named = self.named, None
        if named is not None and named != pod.holder:
            chosen = next(each for each in world.pods if each.holder == named)
            if chosen.supervisor.alive and not chosen.terminating:
                self.broken.append(f"{pod.holder} took the lock before {named}, which was named")

    def stopped(self, pod: Pod, error: UnderstudyError) -> None:
        said = [event for event in pod.said if event.event == "stopped-for"]
        if len(said) != 1:
            self.broken.append(f"I9: {pod.holder} stopped with {len(said)} reasons: {error}")

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
        if job is None:
            self.broken.append("I5: the job's document is gone")
        elif before is not None:
            if job.token < before.token:
                self.broken.append(f"I2: the job went back from token {before.token} to {job.token}")
            if job.generation.number < before.generation.number:
                self.broken.append(f"an older generation leads: {job.generation} after {before.generation}")
            if before.status.terminal and job != before:
                self._written_after_its_end(before, job)
        if job is not None and job.status is Status.FINISHED and self.world.checkpoint.ended_by is None:
            self.world.checkpoint.ended_by = job.token
            self.finished.add(job.runs.run)

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
