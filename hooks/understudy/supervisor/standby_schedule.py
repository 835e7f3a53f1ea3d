"""When a standby's driver starts, and when it has become too old: questions of time and of what other replicas do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from understudy.clock import Clock
from understudy.errors import DocumentError
from understudy.ha.job_store import JobStore
from understudy.supervisor.driver_reports import DriverReports
from understudy.supervisor.inputs import RunEnded, StandbyStartDue
from understudy.supervisor.membership import Membership
from understudy.supervisor.standby_staleness import ReloadDue, StandbyStaleness
from understudy.supervisor.state import Leadership, token_of

#: How long a replica that comes back leaves the machine to a new leader before it warms up itself, in seconds.
_YIELD = 15.0
#: How long the elector has to find out whether another replica leads, before a standby warms up, in seconds.
_LOOK_FIRST = 1.0
#: Seconds between two looks at whether a new leader serves yet: each is a request.
_LOOK_AGAIN = 0.25
#: Seconds at most between two looks at how many queries the leader runs: each is a request.
_COMPARE_EVERY = 30.0


@dataclass(frozen=True, slots=True)
class StandbySchedule:
    """``leader_elsewhere`` asks the elector, ``leadership`` this replica's own state. ``run``: the id of the run it is for."""

    run: str
    jobs: JobStore
    membership: Membership
    reports: DriverReports
    staleness: StandbyStaleness
    clock: Clock
    leadership: Callable[[], Leadership]
    leader_elsewhere: Callable[[], str | None]

    async def quiet(self, pause: float, because: ReloadDue | None) -> StandbyStartDue | RunEnded:
        """Return after ``pause`` seconds; if another replica is just taking over, after its first commit: it has the machine first."""
        await asyncio.sleep(pause)
        began = self.clock.now()
        leader: str | None = None
        while token_of(self.leadership()) is None and self.clock.now() < began + _YIELD:
            leader = self.leader_elsewhere()
            with suppress(DocumentError):
                job = await self.jobs.read()
                if job is not None and job.over_for(self.run):
                    return RunEnded(job)
                if leader is not None and job is not None and job.holder == leader and job.serving == job.token:
                    break
            if leader is None and self.clock.now() > began + _LOOK_FIRST:
                break
            await asyncio.sleep(_LOOK_AGAIN)
        return StandbyStartDue(leader is not None, because)

    async def reload_due(self) -> ReloadDue | None:
        """Why a standby's script has to run again from the top, if it has to and it is its turn."""
        await self.reports.compare(at_most_every=_COMPARE_EVERY)
        if self.leader_elsewhere() is None or (due := self.staleness.due()) is None:
            return None
        standing = self.reports.standing
        turn = await self.membership.may_begin_again(
            rehearsed=standing.rehearsed, queries=standing.queries, urgent=due.urgent
        )
        return due if turn else None
