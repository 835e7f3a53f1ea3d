"""The election of one replica: its elector, its components, and what of them is written into the job's document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from understudy.addresses import joined, split
from understudy.election.elector import Candidate, Elector
from understudy.election.leader_election import LeaderElection, LeaderElectionService
from understudy.election.retrieval import ComponentLeader
from understudy.events import Log
from understudy.ha.components import ENDPOINT
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.token import Token
from understudy.supervisor.hosts import Host
from understudy.supervisor.settings import RunSettings

_EVERYWHERE = ("", "::", "*", "0.0.0.0")  # noqa: S104 - how an address is spelled, and none that is bound


@dataclass(frozen=True, slots=True)
class Election:
    """``leads``: the token under which this replica runs the job now, if it does. ``min_epoch``: as the elector asks it."""

    settings: RunSettings
    services: HighAvailabilityServices
    host: Host
    jobs: JobStore
    min_epoch: Callable[[], Awaitable[int]]
    leads: Callable[[], Token | None]
    log: Log

    def service(self) -> LeaderElectionService:
        return LeaderElectionService(self._elector, self._write, self.host.clock, self.log)

    def _elector(self, candidate: Candidate) -> Elector:
        settings, host = self.settings, self.host
        return Elector(
            self.services.lock,
            settings.names.lock,
            host.holder,
            settings.timings,
            host.clock,
            candidate,
            self.log,
            min_epoch=self.min_epoch,
            generation=settings.digest,
            lock_kind=settings.lock_kind,
            workload=host.workload,
            jitter=host.chance,
            nonce=host.unique,
        )

    async def _write(self, component: str, token: Token, address: str) -> bool:
        """For a component that confirms after the job was claimed. Raises ``DocumentError`` and ``LeadershipLost``."""
        current = self.leads()
        if current is None or current.epoch != token.epoch:
            return False
        leader = ComponentLeader(token, self.host.holder, address)
        await self.jobs.change(
            current, lambda job: replace(job, components=job.components.confirmed(component, leader))
        )
        return True


@dataclass(frozen=True, slots=True)
class JobComponents:
    """What the claim of a job takes along, and tells, of the components of ``holder``. Without ``service`` there are none."""

    holder: str = ""
    service: LeaderElectionService | None = None

    def taken_along(self, job: Job) -> Job:
        """``job`` as it is claimed under its token, with what is confirmed by now."""
        epoch = job.token.epoch
        addresses = {} if self.service is None else self.service.confirmed(epoch)
        leaders = {name: ComponentLeader(Token(epoch, 0), self.holder, each) for name, each in addresses.items()}
        return replace(job, components=job.components.under(epoch, job.holder, leaders))

    def claimed(self, job: Job) -> None:
        if self.service is not None:
            ours = {name: each.address for name, each in job.components.known if each.holder == self.holder}
            self.service.claimed(job.token.epoch, ours)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The component that serves probes and metrics. It serves on every replica; followers are told of the leader's."""

    election: LeaderElection
    address: str

    async def granted(self, token: Token) -> None:
        self.election.confirm(token, self.address)

    async def revoked(self, reason: str) -> None:
        """What it serves says so itself."""


def endpoint_address(host: Host, listens: str, port: int) -> str:
    """Where others reach what listens on ``port`` of address ``listens``: a pod by its IP, a machine by its name."""
    if listens not in _EVERYWHERE:
        return joined(listens, port)
    return joined(split(host.address)[0] if host.address else host.name, port)


def serve_endpoint(service: LeaderElectionService, address: str) -> None:
    """Make what serves at ``address`` a component of ``service``."""
    election = service.election(ENDPOINT)
    election.start(Endpoint(election, address))
