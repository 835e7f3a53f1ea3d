"""Carries out the commands that write documents, or the lock: ``Documented``, and ``RaiseLock``. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from understudy.clock import HostClock
from understudy.errors import LeadershipLost
from understudy.events import Log
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job_store import JobStore
from understudy.protocol.messages import Granted
from understudy.supervisor.claims import JobClaims, Lock
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    Documented,
    Purpose,
    RaiseLock,
    RecordDraining,
    RecordEnd,
    RecordFailure,
    RecordSuspended,
)
from understudy.supervisor.deadline_guard import DeadlineGuard
from understudy.supervisor.driver_reports import DriverReports
from understudy.supervisor.ended import run_begins
from understudy.supervisor.health import Health
from understudy.supervisor.inputs import (
    AttemptBegun,
    AttemptLost,
    AttemptSuperseded,
    AttemptTooLate,
    DrainingRecorded,
    FailureRecorded,
    JobEndRecorded,
    LockRaised,
    Outcome,
    RequestAnswered,
    SuspensionRecorded,
    TokenOvertaken,
)
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint
from understudy.supervisor.savepoints import Savepoints
from understudy.supervisor.settings import RunSettings


@dataclass(slots=True, kw_only=True)
class DocumentCommands:
    settings: RunSettings
    jobs: JobStore
    claims: JobClaims
    lock: Lock
    guard: DeadlineGuard
    reports: DriverReports
    health: Health
    clock: HostClock
    log: Log
    generation: Callable[[], Generation]
    savepoints: Savepoints

    async def execute(self, command: Documented | RaiseLock) -> Outcome:
        """Raises ``DocumentError`` when the documents cannot be reached."""
        try:
            match command:
                case BeginAttempt():
                    return await self._begin_attempt(command)
                case RaiseLock(grant, _) if self.guard.grant is not grant:
                    return LockRaised(None)
                case RaiseLock(grant, epoch):
                    raised = await self.lock.raise_above(epoch)
                    return LockRaised(raised if self.guard.grant is grant else None)
                case RecordBoundary():
                    return await self.savepoints.begin(command, self.clock.wall(), self.reports.checkpoints)
                case RecordSavepoint():
                    return await self.savepoints.record(command, self.clock.wall())
                case _:
                    return await self._record(command)
        except LeadershipLost as lost:
            return TokenOvertaken(str(lost))

    async def _record(
        self, command: RecordFailure | RecordEnd | RecordSuspended | RecordDraining | AnswerRequest
    ) -> Outcome:
        now, found = self.clock.wall(), self.reports.checkpoints
        match command:
            case RecordFailure(token, reason, counts=False):
                job = await self.jobs.still_led(token)
                return FailureRecorded(job.failures, reason, counts=False)
            case RecordFailure(token, reason):
                job = await self.jobs.failed_once(token, now, self.settings.restart.window, reason)
                return FailureRecorded(job.failures, reason)
            case RecordEnd(token, status, reason):
                return JobEndRecorded(await self.jobs.end(token, status, reason, now, found))
            case RecordSuspended(token, request, between_batches):
                known = found if between_batches else ()
                job = await self.jobs.suspend(token, request, now, known, between_batches=between_batches)
                return SuspensionRecorded(job.status, job.warm)
            case RecordDraining(token, request, roots):
                job = await self.jobs.drain(token, request, roots, found)
                return DrainingRecorded(job.status, job.draining or ())
            case AnswerRequest(token, request, result, text):
                await self.jobs.answer(token, request, result, text, now)
                return RequestAnswered()

    async def _begin_attempt(self, command: BeginAttempt) -> Outcome:
        """A new token for one start of a driver."""
        began = self.clock.now()
        if self.guard.grant is not command.grant:
            return AttemptLost()
        try:
            job = await self.claims.begin_attempt(
                command.epoch, self.generation(), self.lock, command.above, came_up=self.reports.came_up
            )
        except Superseded as newer:
            return AttemptSuperseded(str(newer), command.epoch)
        if job is None or self.guard.grant is not command.grant:
            return AttemptLost()
        if job.not_led_for(self.settings.run_id):
            return AttemptTooLate(job)
        if command.purpose is Purpose.TAKEOVER:
            self.reports.checkpoints = ()
        drained = sorted(job.checkpoints.drained)
        draining = job.draining is not None
        self.guard.leads_under(
            Granted(int(job.token), job.claimed.tokens, job.checkpoints.batches, drained, draining=draining)
        )
        self.claims.components.claimed(job)
        seconds = round(self.clock.now() - began, 4)
        self.log.say("claimed", f"the job is run under token {job.token}", epoch=job.token.epoch, seconds=seconds)
        begins = job.runs.first == int(job.token)
        self.health.granted(job.token.epoch, seconds, begins=begins, committed_at=job.committed_at)
        if job.runs.run and begins:
            self.log.say("run-begins", run_begins(job.runs), epoch=job.token.epoch)
        return AttemptBegun(job.token, command.purpose, job.requests.under_way, job.draining, job.saving)
