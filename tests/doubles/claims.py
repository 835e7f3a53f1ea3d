"""A claim of a job that takes along where its leader's endpoint is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.doubles.epochs import nothing_granted
from understudy.election.retrieval import ComponentLeader
from understudy.ha.components import ENDPOINT
from understudy.ha.generation import Generation
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.protocol.token import Token


def confirmed_endpoint(address: str) -> Callable[[Job], Job]:
    """As a claim takes it along."""

    def also(job: Job) -> Job:
        leader = ComponentLeader(Token(job.token.epoch, 0), job.holder, address)
        return replace(
            job, components=job.components.under(job.token.epoch, job.holder, {ENDPOINT: leader} if address else {})
        )

    return also


async def claim(store: JobStore, epoch: int, holder: str, address: str) -> Job:
    return await store.begin_attempt(epoch, holder, nothing_granted, Generation(), also=confirmed_endpoint(address))
