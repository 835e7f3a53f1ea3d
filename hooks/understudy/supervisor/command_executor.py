"""Carries out what ``lifecycle.step`` asks for: each command once, to its end. Decides nothing.

A command's outcome, if it has one, is returned, and is the next input of ``step``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from understudy.clock import HostClock
from understudy.election.elector import Elector
from understudy.errors import LeadershipLost, UnderstudyError
from understudy.events import Log
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job import Job, JobStore
from understudy.protocol.messages import Reclaim, Suspend
from understudy.supervisor.claims import JobClaims
from understudy.supervisor.commands import (
    BeginAttempt,
    ClearExecutors,
    Command,
    EndByHandler,
    Exit,
    Fail,
    FindSuccessor,
    HandleReport,
    HandOverAndExit,
    NoteLeadershipLost,
    NoteStandbyEnded,
    OpenGate,
    Publish,
    RaiseLock,
    ReclaimRoots,
    RecordEnd,
    RecordFailure,
    ReleaseLock,
    Retry,
    Say,
    ScheduleRestart,
    SeekSuccessor,
    StartDriver,
    StartLeader,
    StartStandby,
    StopContending,
    SuspendDriver,
    TerminateAndReap,
)
from understudy.supervisor.deadline_guard import DeadlineGuard
from understudy.supervisor.driver_reports import DriverReports
from understudy.supervisor.driver_slot import DriverSlot
from understudy.supervisor.ended import end_of, run_begins
from understudy.supervisor.health import Health
from understudy.supervisor.hosts import Host
from understudy.supervisor.inputs import (
    AttemptBegun,
    AttemptLost,
    AttemptSuperseded,
    AttemptTooLate,
    CommandDue,
    DriverNotStarted,
    Event,
    FailureRecorded,
    GateOpened,
    JobEndRecorded,
    LockRaised,
    LockReleased,
    Outcome,
    RestartDue,
    SuccessorLookedFor,
    TokenOvertaken,
)
from understudy.supervisor.membership import Membership
from understudy.supervisor.root_tasks import RootTasks, described
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.standby_schedule import StandbySchedule
from understudy.supervisor.standby_staleness import StandbyStaleness

#: Beyond its patience a driver waits for the commit of what has ended in time (``_COMMIT_MS`` of its ``quiesce``) and then says so;
#: seconds.
_COMMIT = 0.2


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The process ends with ``code``. ``successor``: the replica to which the lock was released."""

    code: int
    successor: str | None = None


@dataclass(slots=True)
class CommandExecutor:
    """``post`` puts an event into the supervisor's inbox. ``suspended`` is set when the driver says that it has suspended."""

    settings: RunSettings
    host: Host
    jobs: JobStore
    claims: JobClaims
    elector: Elector
    guard: DeadlineGuard
    slot: DriverSlot
    reports: DriverReports
    schedule: StandbySchedule
    staleness: StandbyStaleness
    membership: Membership
    health: Health
    tasks: RootTasks
    clock: HostClock
    log: Log
    generation: Callable[[], Generation]
    post: Callable[[Event], None]
    suspended: asyncio.Event = field(default_factory=asyncio.Event)
    #: The number of the driver in the slot.
    driver: int | None = None
    _successor: asyncio.Task[str | None] | None = None

    async def execute(self, command: Command) -> Outcome | ProcessEnd | None:
        """Raises ``DocumentError`` for a command in ``Documented`` when the documents cannot be reached, ``ProcessesRemain`` when the
        driver does not die, and what ``Fail`` carries.
        """
        match command:
            case Say(event, sentence, facts):
                self.log.say(event, sentence, **facts)
            case BeginAttempt() | RecordFailure() | RecordEnd() | RaiseLock():
                return await self._document(command)
            case FindSuccessor() | SeekSuccessor() | StopContending() | ReleaseLock() | HandOverAndExit():
                return await self._hand_over(command)
            case StartDriver() | StartLeader() | OpenGate() | ReclaimRoots():
                return await self._start(command)
            case TerminateAndReap() | SuspendDriver() | EndByHandler() | ClearExecutors():
                await self._end_driver(command)
            case StartStandby() | ScheduleRestart() | Retry():
                self._later(command)
            case HandleReport() | NoteStandbyEnded() | NoteLeadershipLost() | Publish():
                await self._report(command)
            case Exit(job):
                return self.end_as(job)
            case Fail(error):
                raise error
        return None

    # --- documents, and the lock --------------------------------------------------------------------------------------

    async def _document(self, command: BeginAttempt | RecordFailure | RecordEnd | RaiseLock) -> Outcome:
        try:
            match command:
                case BeginAttempt():
                    return await self._begin_attempt(command)
                case RecordFailure(token, reason):
                    job = await self.jobs.failed_once(token, self.clock.wall(), self.settings.restart_window, reason)
                    return FailureRecorded(job.failures, reason)
                case RecordEnd(token, status, reason):
                    return JobEndRecorded(await self.jobs.end(token, status, reason, self.clock.wall()))
                case RaiseLock(grant, _) if self.guard.grant is not grant:
                    return LockRaised(None)
                case RaiseLock(grant, epoch):
                    raised = await self.elector.raise_above(epoch)
                    return LockRaised(raised if self.guard.grant is grant else None)
        except LeadershipLost as lost:
            return TokenOvertaken(str(lost))

    async def _begin_attempt(self, command: BeginAttempt) -> Outcome:
        """A new token for one start of a driver."""
        began = self.clock.now()
        if self.guard.grant is not command.grant:
            return AttemptLost()
        try:
            job = await self.claims.begin_attempt(
                command.epoch, self.generation(), self.elector, command.above, came_up=self.reports.came_up
            )
        except Superseded as newer:
            return AttemptSuperseded(str(newer), command.epoch)
        if job is None or self.guard.grant is not command.grant:
            return AttemptLost()
        if job.over_for(self.settings.run_id):
            return AttemptTooLate(job)
        self.guard.leads_under(job.token, job.claimed.tokens)
        seconds = round(self.clock.now() - began, 4)
        self.log.say("claimed", f"the job is run under token {job.token}", epoch=job.token.epoch, seconds=seconds)
        self.health.granted(job.token.epoch, seconds)
        if job.runs.run and job.runs.first == int(job.token):
            self.log.say("run-begins", run_begins(job.runs), epoch=job.token.epoch)
        return AttemptBegun(job.token, command.purpose)

    async def _hand_over(
        self, command: FindSuccessor | SeekSuccessor | StopContending | ReleaseLock | HandOverAndExit
    ) -> Outcome | ProcessEnd | None:
        match command:
            case FindSuccessor(pause, restarts, earlier_generation):
                holder = await self.membership.successor()
                if holder is None and earlier_generation and not self.reports.came_up:
                    # Code that has never come up here gives way to the generation before it, rehearsed or not.
                    holder = await self.membership.predecessor()
                return SuccessorLookedFor(holder, pause, restarts)
            case SeekSuccessor():
                self._successor = asyncio.create_task(self.membership.successor())
                return None
            case StopContending():
                self.elector.stop()
                return None
            case ReleaseLock(successor, pause):
                await self.release(successor)
                return LockReleased(pause)
            case HandOverAndExit():
                assert self._successor is not None, "a successor is looked for first"
                successor = await self._successor
                # guard: reaped-before-release
                await self.reap()
                await self.release(successor)
                return ProcessEnd(0, successor)

    async def release(self, successor: str | None) -> None:
        self.guard.released()
        await self.elector.release(successor)

    # --- the driver ---------------------------------------------------------------------------------------------------

    async def _start(self, command: StartDriver | StartLeader | OpenGate | ReclaimRoots) -> Outcome | None:
        match command:
            case StartDriver(number, low_priority, because):
                self.staleness.began(because)
                self.membership.began()
                self.health.script_since = self.clock.wall()
                return self._started(number, low_priority=low_priority)
            case StartLeader(number, grant):
                # guard: driver-starts-under-the-current-grant
                if self.guard.grant is not grant:
                    return None  # the loss is the next event
                if (problem := self._started(number, low_priority=False)) is not None:
                    return problem
                return GateOpened() if self.guard.open(grant) else None
            case OpenGate(grant):
                if self.slot.process is None or not self.guard.open(grant):
                    return None
                self.slot.process.take_the_lead()
                self.reports.takes_over()
                return GateOpened()
            case ReclaimRoots(token):
                self.guard.extend()
                if self.slot.process is not None:
                    self.slot.process.send(Reclaim(int(token)))
                return None

    def _started(self, number: int, *, low_priority: bool) -> DriverNotStarted | None:
        self.health.driver_starts()
        try:
            self.slot.start(low_priority=low_priority)
        except UnderstudyError:
            raise
        except Exception as error:  # noqa: BLE001 - a full disk, no descriptor, no memory: may be otherwise next time
            return DriverNotStarted(f"its driver could not be started: {described(error)}")
        self.driver = number
        return None

    async def _end_driver(self, command: TerminateAndReap | SuspendDriver | EndByHandler | ClearExecutors) -> None:
        patience = self.settings.stop_patience
        match command:
            case TerminateAndReap(by_itself):
                await self.reap(by_itself=by_itself)
            case SuspendDriver() if self.slot.process is not None:
                self.slot.process.send(Suspend(patience))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.suspended.wait(), patience + _COMMIT)
            case EndByHandler() if self.slot.process is not None:
                if await self.slot.process.end_by_handler(patience):
                    self.log.say("script-told", "the script's own handler of SIGTERM had its time behind a closed gate")
            case ClearExecutors() if self.host.native is not None:
                if (standbys := await self.membership.standbys()) is not None:
                    await self.host.native.clear(standbys, self.log)
            case _:
                pass  # there is no driver, and there are no executors

    async def reap(self, *, by_itself: bool = False) -> None:
        self.reports.driver_gone(by_itself=by_itself)
        self.driver = None
        await self.slot.reap()

    # --- later, and what others are told ------------------------------------------------------------------------------

    def _later(self, command: StartStandby | ScheduleRestart | Retry) -> None:
        loop = asyncio.get_running_loop()
        match command:
            case StartStandby(pause, because):

                async def start() -> None:
                    self.post(await self.schedule.quiet(pause, because))

                self.tasks.watch("the start of a standby's driver", start)
            case ScheduleRestart(delay, token):
                loop.call_later(delay, self.post, RestartDue(token))
            case Retry(again):
                loop.call_later(self.settings.timings.retry, self.post, CommandDue(again))

    async def _report(self, command: HandleReport | NoteStandbyEnded | NoteLeadershipLost | Publish) -> None:
        match command:
            case HandleReport(message):
                await self.reports.handle(message)
            case NoteStandbyEnded(reason):
                self.reports.standby_ended(reason)
            case NoteLeadershipLost():
                self.health.lost()
            case Publish():
                await self.reports.publish()

    def end_as(self, job: Job | None) -> ProcessEnd:
        """With the exit code that ``job`` stands for, which has ended; 0 without one."""
        if job is None:
            return ProcessEnd(0)
        end = end_of(job, self.settings.run_id)
        self.log.say("job-ended", end.sentence, status=end.status)
        if end.exit_code == 0:
            self.health.finished(end.sentence)
        return ProcessEnd(end.exit_code)
