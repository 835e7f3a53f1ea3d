"""Replicas that elect one of them and have no driver: the elector, the claim of the job and the components are the product's own."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract.backends import PATIENT
from tests.contract.test_election import SHORT
from tests.doubles.epochs import nothing_granted
from understudy.clock import BootClock
from understudy.documents.model import DocumentStore
from understudy.election.commands import Grant
from understudy.election.leader_election import LeaderElection
from understudy.election.retrieval import ComponentLeader, Retrieval
from understudy.events import Event, Log
from understudy.ha.components import ENDPOINT, JOB
from understudy.ha.generation import Generation
from understudy.ha.job import leader_of
from understudy.ha.job_store import JobStore
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.names import Names
from understudy.protocol.token import Token
from understudy.supervisor.election import Election, JobComponents
from understudy.supervisor.hosts import Host
from understudy.supervisor.settings import RunSettings

NAMES = Names("flights", "flights")

Leaders = AsyncGenerator[ComponentLeader | None, None]


@dataclass(eq=False)
class Endpoint:
    """A component that confirms at once, and what it was told: tokens, and ``None`` for a loss."""

    election: LeaderElection
    address: str
    told: list[Token | None] = field(default_factory=list)

    async def granted(self, token: Token) -> None:
        self.told.append(token)
        self.election.confirm(token, self.address)

    async def revoked(self, reason: str) -> None:
        del reason
        self.told.append(None)


class ElectingReplica:
    """One process. Its component ``endpoint`` serves at ``HOLDER:1``; ``token`` is that of the job while it runs it."""

    def __init__(self, store: DocumentStore, holder: str) -> None:
        settings = RunSettings(Path(__file__), (), (), NAMES.cluster, NAMES.job, Path(), SHORT)
        host = Host(holder, holder, "", None, None, None)  # type: ignore[arg-type]
        self.holder, self.said = holder, list[Event]()
        self.token: Token | None = None
        self.jobs = JobStore(store, NAMES.job_document, NAMES.job, "job.py")
        log = Log(stream=io.StringIO(), listeners=[self.said.append])
        services = HighAvailabilityServices(store, store)
        self.service = Election(settings, services, host, self.jobs, nothing_granted, lambda: self.token, log).service()
        self._components = JobComponents(holder, self.service)
        self._claim: asyncio.Task[None] | None = None
        elector = self.service.election(JOB).attach(self)
        self.endpoint = self.serve(ENDPOINT, f"{holder}:1")
        elector.ready(True)
        self._running = asyncio.ensure_future(elector.run())

    def serve(self, component: str, address: str) -> Endpoint:
        election = self.service.election(component)
        endpoint = Endpoint(election, address)
        election.start(endpoint)
        return endpoint

    def granted(self, grant: Grant) -> None:
        self._claim = asyncio.ensure_future(self._run_job(grant.epoch))

    def renewed(self, sent_at: float) -> None:
        pass

    def lost(self, reason: str) -> None:
        del reason
        self.token = None

    async def _run_job(self, epoch: int) -> None:
        also = self._components.taken_along
        job = await self.jobs.begin_attempt(epoch, self.holder, nothing_granted, Generation(), also=also)
        self.token = job.token
        self._components.claimed(job)

    async def until_it_leads(self) -> Token:
        """The token of the grant, once the job is claimed under it."""
        async with asyncio.timeout(PATIENT):
            while self.token is None:  # noqa: ASYNC110 - a task changes it
                await asyncio.sleep(0.01)
        return Token(self.token.epoch, 0)

    async def close(self) -> None:
        """As a process ends that is told to: the lock is given back."""
        await self.service.close()
        await self.freeze()

    async def freeze(self) -> None:
        """It hears no more of its lock, and renews it no more."""
        for task in (self._running, self._claim):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def electing(*replicas: ElectingReplica) -> AsyncIterator[list[ElectingReplica]]:
    """Those in the list are closed in the end; more may be added."""
    all_of_them = [*replicas]
    try:
        yield all_of_them
    finally:
        for each in all_of_them:
            await each.close()


@asynccontextmanager
async def following(store: DocumentStore, component: str = ENDPOINT) -> AsyncIterator[Leaders]:
    leaders = Retrieval(store, NAMES.job_document, leader_of, BootClock()).follow(component)
    try:
        async with asyncio.timeout(PATIENT):
            yield leaders
    finally:
        await leaders.aclose()


async def next_leader(leaders: Leaders) -> ComponentLeader:
    """The next one there is. Between a claim and what its component confirms only later there is none."""
    async for found in leaders:
        if found is not None:
            return found
    raise AssertionError("a follower goes on for ever")
