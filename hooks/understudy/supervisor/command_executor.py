"""Carries out what ``lifecycle.step`` asks for: each command once, to its end. Decides nothing.

A command's outcome, if it has one, is returned, and is the next input of ``step``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from understudy.blobs.model import BlobStore
from understudy.clock import HostClock
from understudy.election.elector import Elector
from understudy.election.leader_election import LeaderElectionService
from understudy.errors import UnderstudyError
from understudy.events import Log
from understudy.ha.generation import Generation
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.protocol.messages import Drain, Hold, LetGo, Quiesce, Reclaim, Save
from understudy.supervisor.claims import JobClaims
from understudy.supervisor.commands import (
    AnswerRequest,
    BeginAttempt,
    ClearExecutors,
    Command,
    ContendNow,
    DrainDriver,
    EndByHandler,
    Exit,
    Fail,
    FindReplica,
    FindSuccessor,
    HandleReport,
    HandOverAndExit,
    HoldDriver,
    LetDriverGo,
    NoteLeadershipLost,
    NoteResumed,
    NoteStandbyEnded,
    NoteSuspended,
    OpenGate,
    Publish,
    QuiesceDriver,
    RaiseLock,
    ReclaimRoots,
    RecordDraining,
    RecordEnd,
    RecordFailure,
    RecordSuspended,
    ReleaseLock,
    Retry,
    Say,
    ScheduleRestart,
    SeekSuccessor,
    StartDriver,
    StartLeader,
    StartStandby,
    StopContending,
    TerminateAndReap,
)
from understudy.supervisor.deadline_guard import DeadlineGuard
from understudy.supervisor.document_commands import DocumentCommands
from understudy.supervisor.driver_reports import DriverReports
from understudy.supervisor.driver_slot import DriverSlot
from understudy.supervisor.ended import end_of
from understudy.supervisor.health import Health
from understudy.supervisor.hosts import Host
from understudy.supervisor.inputs import (
    CommandDue,
    DriverNotStarted,
    Event,
    GateOpened,
    LockReleased,
    Outcome,
    ReplicaLookedFor,
    RequestOverdue,
    RestartDue,
    SuccessorLookedFor,
)
from understudy.supervisor.membership import Membership
from understudy.supervisor.root_tasks import RootTasks, described
from understudy.supervisor.savepoint_commands import RecordBoundary, RecordSavepoint, SaveDriver
from understudy.supervisor.savepoints import Savepoints
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.standby_schedule import StandbySchedule
from understudy.supervisor.standby_staleness import StandbyStaleness

#: A driver says at the end of its time whether it holds, or has saved; this long after that it is not waited for any more, in seconds.
_ANSWERS = 5.0
#: A day, in seconds.
_LONGEST_HOLD = 86_400.0

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
    """``post`` puts an event into the supervisor's inbox. ``quiesced`` is set when the driver says that it has quiesced."""

    settings: RunSettings
    host: Host
    jobs: JobStore
    claims: JobClaims
    elector: Elector
    lock: LeaderElectionService
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
    blobs: BlobStore | None = None
    quiesced: asyncio.Event = field(default_factory=asyncio.Event)
    #: The number of the driver in the slot.
    driver: int | None = None
    #: The job, once the run that this replica was started for has ended.
    ended: Job | None = None
    documents: DocumentCommands = field(init=False)
    _successor: asyncio.Task[str | None] | None = None

    def __post_init__(self) -> None:
        self.documents = DocumentCommands(
            settings=self.settings,
            jobs=self.jobs,
            claims=self.claims,
            lock=self.lock,
            guard=self.guard,
            reports=self.reports,
            health=self.health,
            clock=self.clock,
            log=self.log,
            generation=self.generation,
            savepoints=Savepoints(self.settings, self.jobs, self.blobs),
        )

    async def execute(self, command: Command) -> Outcome | ProcessEnd | None:
        """Raises ``DocumentError`` for a command in ``Documented`` when the documents cannot be reached, ``ProcessesRemain`` when the
        driver does not die, and what ``Fail`` carries.
        """
        match command:
            case Say(event, sentence, facts):
                self.log.say(event, sentence, **facts)
            case (
                BeginAttempt()
                | RecordFailure()
                | RecordEnd()
                | RaiseLock()
                | RecordSuspended()
                | RecordDraining()
                | RecordBoundary()
                | RecordSavepoint()
                | AnswerRequest()
            ):
                return await self.documents.execute(command)
            case (
                FindSuccessor()
                | FindReplica()
                | SeekSuccessor()
                | ContendNow()
                | StopContending()
                | ReleaseLock()
                | HandOverAndExit()
            ):
                return await self._hand_over(command)
            case StartDriver() | StartLeader() | OpenGate() | ReclaimRoots():
                return await self._start(command)
            case (
                TerminateAndReap()
                | QuiesceDriver()
                | EndByHandler()
                | ClearExecutors()
                | HoldDriver()
                | LetDriverGo()
                | DrainDriver()
                | SaveDriver()
            ):
                await self._hold_or_end(command)
            case StartStandby() | ScheduleRestart() | Retry():
                self._later(command)
            case (
                HandleReport() | NoteStandbyEnded() | NoteLeadershipLost() | NoteSuspended() | NoteResumed() | Publish()
            ):
                await self._report(command)
            case Exit(job):
                return self.end_as(job)
            case Fail(error):
                raise error
        return None

    # --- the lock -----------------------------------------------------------------------------------------------------

    async def _hand_over(
        self,
        command: FindSuccessor
        | FindReplica
        | SeekSuccessor
        | ContendNow
        | StopContending
        | ReleaseLock
        | HandOverAndExit,
    ) -> Outcome | ProcessEnd | None:
        match command:
            case FindSuccessor(pause, restarts, earlier_generation):
                # a standby may not take the lock of a job that is paused, so it is not given back
                holder = None if self.health.paused else await self.membership.successor()
                if holder is None and earlier_generation and not self.reports.came_up:
                    # Code that has never come up here gives way to the generation before it, rehearsed or not.
                    holder = await self.membership.predecessor()
                return SuccessorLookedFor(holder, pause, restarts)
            case FindReplica(holder):
                return ReplicaLookedFor(*await self.membership.can_lead(holder))
            case SeekSuccessor():
                self._successor = asyncio.create_task(self.membership.successor())
                return None
            case ContendNow():
                self.elector.contend()
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
        await self.lock.release(successor)

    # --- the driver ---------------------------------------------------------------------------------------------------

    async def _start(self, command: StartDriver | StartLeader | OpenGate | ReclaimRoots) -> Outcome | None:
        match command:
            case StartDriver(number, low_priority, because):
                self.staleness.began(because)
                self.membership.began()
                self.health.script_since = self.clock.wall()
                await self._clear_own_executors(number)
                return self._started(number, low_priority=low_priority)
            case StartLeader(number, grant):
                await self._clear_own_executors(number)
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

    async def _clear_own_executors(self, number: int) -> None:
        """Before driver ``number`` of this supervisor starts: the first one has none before it."""
        if self.host.native is not None and number > 1:
            # guard: executors-go-before-the-next-driver
            await self.host.native.clear_own(self.log)

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

    async def _hold_or_end(
        self,
        command: TerminateAndReap
        | QuiesceDriver
        | EndByHandler
        | ClearExecutors
        | HoldDriver
        | LetDriverGo
        | DrainDriver
        | SaveDriver,
    ) -> None:
        patience = self.settings.takeover.stop_patience
        match command:
            case TerminateAndReap(by_itself):
                await self.reap(by_itself=by_itself)
            case HoldDriver() | LetDriverGo() | DrainDriver() | SaveDriver():
                self._hold(command)
            case QuiesceDriver() if self.slot.process is not None:
                self.quiesced.clear()
                self.slot.process.send(Quiesce(patience))
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience + _COMMIT):
                        await self.quiesced.wait()
            case EndByHandler() if self.slot.process is not None:
                if await self.slot.process.end_by_handler(patience):
                    self.log.say("script-told", "the script's own handler of SIGTERM had its time behind a closed gate")
            case ClearExecutors(own) if self.host.native is not None:
                if (standbys := await self.membership.standbys()) is not None:
                    await self.host.native.clear(standbys, self.log, own=own)
            case _:
                pass  # there is no driver, and there are no executors

    def _hold(self, command: HoldDriver | LetDriverGo | DrainDriver | SaveDriver) -> None:
        match command:
            case HoldDriver(request, asked_for, drain, save):
                timeout = min(asked_for, _LONGEST_HOLD)
                if self.slot.process is not None:
                    self.slot.process.send(Hold(request, timeout, drain, save))
                asyncio.get_running_loop().call_later(timeout + _ANSWERS, self.post, RequestOverdue(request))
            case LetDriverGo() if self.slot.process is not None:
                self.slot.process.send(LetGo())
            case DrainDriver(request, roots) if self.slot.process is not None:
                self.slot.process.send(Drain(request, list(roots)))
            case SaveDriver(request, number, place, asked_for, keep) if self.slot.process is not None:
                timeout = min(asked_for, _LONGEST_HOLD)
                self.slot.process.send(Save(request, number, place, timeout, keep))
                late = 2 * timeout + _ANSWERS  # for the copies, and for their proof
                asyncio.get_running_loop().call_later(late, self.post, RequestOverdue(request, copies=True))
            case _:
                pass  # there is no driver

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
            case Retry(again, driver):
                loop.call_later(self.settings.timings.retry, self.post, CommandDue(again, driver))

    async def _report(
        self, command: HandleReport | NoteStandbyEnded | NoteLeadershipLost | NoteSuspended | NoteResumed | Publish
    ) -> None:
        match command:
            case HandleReport(message):
                await self.reports.handle(message)
            case NoteStandbyEnded(reason):
                self.reports.standby_ended(reason)
            case NoteLeadershipLost():
                self.health.lost()
            case NoteSuspended():
                self.reports.suspended()
            case NoteResumed():
                self.reports.resumed()
            case Publish():
                await self.reports.publish()

    def end_as(self, job: Job | None) -> ProcessEnd:
        """With the exit code that ``job`` stands for, which has ended; 0 without one."""
        if job is None:
            return ProcessEnd(0)
        self.ended = job
        end = end_of(job, self.settings.run_id)
        self.log.say("job-ended", end.sentence, status=end.status)
        if end.exit_code == 0:
            self.health.finished(end.sentence)
        return ProcessEnd(end.exit_code)
