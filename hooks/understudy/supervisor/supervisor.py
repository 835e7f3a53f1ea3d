"""The shell around ``lifecycle.step``: one inbox, one group of tasks, and the elector's candidate.

Everything that happens becomes an event in the inbox, and is dealt with to its end before the next one: decided on, carried out,
and decided on again for what came of it. What must not wait for that is in ``deadline_guard.py``.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from understudy.clock import HostClock
from understudy.election.commands import Grant
from understudy.errors import (
    CheckpointLost,
    DocumentEmptied,
    DocumentError,
    DocumentTooLarge,
    DocumentUnreadable,
    JobFailed,
    JobSuspended,
    ProcessesRemain,
    UnderstudyError,
)
from understudy.events import Log
from understudy.ha.components import JOB
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.services import HighAvailabilityServices
from understudy.protocol.messages import Message, Quiesced
from understudy.protocol.token import Token
from understudy.supervisor.claims import JobClaims
from understudy.supervisor.command_executor import CommandExecutor, ProcessEnd
from understudy.supervisor.commands import Command, Documented, StartStandby
from understudy.supervisor.deadline_guard import DeadlineGuard
from understudy.supervisor.driver_end import Completed, how_it_ended
from understudy.supervisor.driver_process import DriverProcess
from understudy.supervisor.driver_reports import DriverReports
from understudy.supervisor.driver_slot import DriverSlot
from understudy.supervisor.election import Election, JobComponents, serve_endpoint
from understudy.supervisor.health import FenceCounts, Health
from understudy.supervisor.hosts import EvidenceListener, Host
from understudy.supervisor.inputs import (
    DriverExited,
    DriverMessage,
    Event,
    LeaderDied,
    LeadershipGranted,
    LeadershipRevoked,
    Outcome,
    ReplicaLookedFor,
    RunEnded,
    StandbyStale,
    StopRequested,
    Unreachable,
)
from understudy.supervisor.lifecycle import step
from understudy.supervisor.membership import Membership
from understudy.supervisor.results import results_of
from understudy.supervisor.root_tasks import RootTasks, internal
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.standby_schedule import StandbySchedule
from understudy.supervisor.standby_staleness import StandbyStaleness
from understudy.supervisor.state import Leadership, Rules, State, token_of
from understudy.supervisor.watchers import Watchers, job_changed

#: The same again would end the same: another replica may lead, and a person has to look.
_FATAL = (DocumentUnreadable, DocumentEmptied, DocumentTooLarge, CheckpointLost)


class Supervisor:
    """One replica. Also the elector's candidate: ``granted``, ``renewed`` and ``lost`` are its calls, synchronous and quick."""

    def __init__(
        self,
        settings: RunSettings,
        services: HighAvailabilityServices,
        host: Host,
        fence_jar: Path,
        log: Log,
    ) -> None:
        self._settings, self._services, self._host, self._log = settings, services, host, log
        native, storage = host.native is not None, services.blobs is not None
        self._state = State(Rules(settings.restart, native, storage, settings.timings.renew))
        self._inbox: asyncio.Queue[Event] = asyncio.Queue()
        self._generation = Generation(host.revision, settings.digest, host.workload, settings.submission)
        documents, names = services.documents, settings.names
        self._jobs = JobStore(documents, names.job_document, settings.job, str(settings.script), host.unique)
        self._replicas = ReplicaStore(documents, names.replicas)
        self._results = results_of(services, settings, self._jobs, self._replicas, host, log)
        self._components = Election(
            settings, services, host, self._jobs, self._highest_epoch, self._token, log
        ).service()
        self._claims = self._make_claims()
        self._elector = self._components.election(JOB).attach(self)
        self._evidence = host.evidence(
            self._replicas,
            EvidenceListener(self._leader_elsewhere, self._leader_died, self._stop, self._leader_pod_deleted),
        )
        self.health = Health(
            host.clock,
            FenceCounts(),
            live_within=2 * (settings.timings.retry + 2 * settings.timings.request),  # a turn may be two requests
            last_turn=lambda: self._elector.last_turn,
            lease_lasts=lambda: self._guard.lease_lasts,
        )
        self._tasks = RootTasks(log)
        self.told_to_stop = asyncio.Event()
        self.successor: str | None = None  # to which a leader that was told to stop has released its lock
        self._guard = DeadlineGuard(settings.timings, host.clock.instant)
        self._unreachable = ""  # what was said last of why documents cannot be reached
        self._completed: Token | None = None  # the leader under which a script has come to its end
        self._execute = self._make_executor(fence_jar, host.clock)
        self._watchers = Watchers(
            settings,
            services,
            host,
            self._elector,
            self._execute,
            self.health,
            self._tasks,
            log,
            self._inbox.put_nowait,
        )

    def _make_claims(self) -> JobClaims:
        host, stored = self._host, self._services.floor
        return JobClaims(
            self._settings,
            host.holder,
            self._jobs,
            self._replicas,
            stored,
            self._root_unread,
            host.clock.wall,
            host.unique,
            self._results,
            JobComponents(host.holder, self._components),
        )

    def _make_executor(self, fence_jar: Path, clock: HostClock) -> CommandExecutor:
        settings, host = self._settings, self._host

        def leadership() -> Leadership:
            return self._state.leadership

        membership = Membership(
            self._replicas, host, lambda: self._generation, clock, self._log, self._evidence.is_dead
        )
        slot = DriverSlot(
            settings,
            host,
            fence_jar,
            self._guard,
            on_message=self._driver_says,
            on_exit=self._driver_exited,
            follow=self.health.fence.follow,
            former_locks=lambda: self._replicas.former_locks,
        )
        staleness = StandbyStaleness(settings.standby.max_age, settings.submit, host.mounts, clock, host.chance)
        reports = DriverReports(
            settings,
            self._jobs,
            membership,
            self.health,
            slot,
            staleness,
            clock,
            self._log,
            leadership=leadership,
            ready=self._elector.ready,
        )
        schedule = StandbySchedule(
            settings.run_id, self._jobs, membership, reports, staleness, clock, leadership, self._leader_elsewhere
        )
        return CommandExecutor(
            settings,
            host,
            self._jobs,
            self._claims,
            self._elector,
            self._components,
            self._guard,
            slot,
            reports,
            schedule,
            staleness,
            membership,
            self.health,
            self._tasks,
            clock,
            self._log,
            generation=lambda: self._generation,
            post=self._inbox.put_nowait,
            blobs=self._services.blobs,
        )

    def _token(self) -> Token | None:
        return token_of(self._state.leadership)

    def serve_endpoint(self, address: str) -> None:
        """Probes and metrics are served at ``address``, as others reach it. Before ``run``, or while it runs."""
        serve_endpoint(self._components, address)

    # --- the elector's calls ------------------------------------------------------------------------------------------

    def granted(self, grant: Grant) -> None:
        self._guard.granted(grant)
        self._inbox.put_nowait(LeadershipGranted(grant))

    def renewed(self, sent_at: float) -> None:
        self._guard.renewed(sent_at)

    def lost(self, reason: str) -> None:
        self._guard.lost(reason, leads=token_of(self._state.leadership) is not None)
        self._inbox.put_nowait(LeadershipRevoked(reason))

    # --- the inbox ----------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Until the job ends or this replica is told to stop; the process's exit code."""
        try:
            return await self._tasks.guard(self._serve_to_the_end())
        except UnderstudyError as error:
            await self._give_up(error)
            raise
        except Exception as error:
            reason = internal(error, "control loop")
            await self._give_up(reason)
            raise reason from error
        finally:
            await self._tasks.close()
            with suppress(ProcessesRemain):  # nothing is released then: that renewals end here is all that is safe
                await self._execute.reap()
            await self._components.close()
            await self._execute.membership.leave()
            await self._host.close()
            await self._services.close()

    async def _serve_to_the_end(self) -> int:
        code = await self._serve()
        if self._execute.ended is not None and self._results is not None:
            await self._execute.reap()  # a standby's driver has nothing to wait for
            # no leader comes any more that would, and what the dead have left stays with their entries
            await self._execute.membership.sweep()
            await self._results.settle(self._execute.ended, self.told_to_stop)
        return code

    async def _serve(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop, number.name)
        await self._replicas.join(self._settings.job)
        await self._watchers.refuse_foreign_lock()
        if self._results is not None and (over := await self._results.recall()):
            self.health.finished(over)
            return 0
        job = await self._jobs.read()
        if job is not None and job.over_for(self._settings.run_id):
            return self._execute.end_as(job).code
        if job is not None:
            self._generation = self._generation.numbered(job.understood(self._jobs.name).generation)
        await self._execute.reports.publish()
        self._tasks.need("the elector", self._elector.run)
        self._tasks.watch("the watch for evidence", self._evidence.run)
        self._tasks.watch("the note of commits", self._execute.reports.note_commits)
        self._watchers.start()
        if self._results is not None:
            self._results.watch(self._tasks, self._token)
        if job is not None and job.kept_from(self._settings.run_id) and not job.warm:
            self._inbox.put_nowait(job_changed(job, self._settings.run_id))
        elif job is not None and job.other_run_than(self._settings.run_id):
            self._watchers.look_for_another_run()
        else:
            await self._execute.execute(StartStandby())
        return await self._deal_with_events()

    async def _deal_with_events(self) -> int:
        while (code := await self._deal_with(await self._inbox.get())) is None:
            pass
        return code

    async def _deal_with(self, event: Event) -> int | None:
        """One event, and all that comes of it; the exit code, once there is one. A grant that was lost before its turn is none."""
        if isinstance(event, LeadershipGranted) and event.grant is not self._guard.grant:
            return None
        if isinstance(event, StopRequested):
            await self._execute.slot.come_to_its_end()
        inputs: deque[Event | Outcome] = deque([event])
        while inputs:
            self._state, commands = step(self._state, self._as_of_now(inputs.popleft()), self._host.clock.wall())
            for command in commands:
                outcome = await self._carry_out(command)
                if isinstance(outcome, ProcessEnd):
                    self.successor = outcome.successor
                    return outcome.code
                if outcome is not None:
                    inputs.append(outcome)
        return None

    async def _carry_out(self, command: Command) -> Outcome | ProcessEnd | None:
        try:
            outcome = await self._execute.execute(command)
        except _FATAL:
            raise
        except DocumentError as error:
            if not isinstance(command, Documented):
                raise
            if str(error) != self._unreachable:
                self._unreachable = str(error)
                self._log.say("unreachable", self._unreachable)
            return Unreachable(command)
        if isinstance(command, Documented):
            self._unreachable = ""
        return outcome

    def _as_of_now(self, given: Event | Outcome) -> Event | Outcome:
        """``given`` with what only the present knows."""
        completed = self._completed is not None and self._completed == token_of(self._state.leadership)
        match given:
            case DriverExited() | StandbyStale():
                return replace(given, leader=self._leader_elsewhere())
            case StopRequested():
                return replace(given, completed=completed, holds_lock=self._guard.grant is not None)
            case ReplicaLookedFor():
                return replace(given, completed=completed)
            case _:
                return given

    async def _give_up(self, reason: UnderstudyError) -> None:
        self._log.tell("stopped-for", str(reason))
        self._elector.stop()
        await self._execute.reap()
        await self._execute.release(None)

    # --- what is heard of the driver ----------------------------------------------------------------------------------

    def _number_of(self, process: DriverProcess) -> int:
        """0 for a driver that was replaced."""
        return (self._execute.driver or 0) if process is self._execute.slot.process else 0

    def _driver_says(self, process: DriverProcess, message: Message) -> None:
        if isinstance(message, Quiesced):  # a command waits for it, and so it cannot come through the inbox
            self._execute.quiesced.set()
        else:
            self._inbox.put_nowait(DriverMessage(self._number_of(process), message))

    def _driver_exited(self, process: DriverProcess, status: int) -> None:
        end = how_it_ended(process, status, overdue=self._guard.overdue)
        if isinstance(end, Completed):
            self._completed = token_of(self._state.leadership)
        self._inbox.put_nowait(DriverExited(self._number_of(process), end))

    # --- what is seen of others ---------------------------------------------------------------------------------

    def _stop(self, why: str) -> None:
        """Tell the elector at once: even while the inbox is busy, this process takes no lock any more."""
        # guard: stop-is-heard-at-once
        self._elector.stop()
        self.told_to_stop.set()
        self._inbox.put_nowait(StopRequested(why))

    def _leader_elsewhere(self) -> str | None:
        view = self._elector.view
        return None if view.released or view.leader == self._host.holder else view.leader

    def _leader_died(self, holder: str) -> None:
        self._log.say("detected", "every process of the leader is gone", how="evidence", leader=holder)
        self._inbox.put_nowait(LeaderDied(holder))
        self._elector.evidence(holder)

    def _leader_pod_deleted(self) -> None:
        self._execute.reports.pause_rehearsals()

    def _root_unread(self, told: str) -> None:
        self._log.say("root-unread", f"an election goes on without the claim in it: {told}")

    async def _highest_epoch(self) -> int:
        """Asked by the elector before it acquires. A job that has ended is not led, unless it is resumed."""
        try:
            return await self._claims.highest_epoch(self._generation)
        except Superseded:
            # A rollback gives the pods that still run its code new numbers.
            revision = await self._host.look_up_revision()
            self._generation = replace(self._generation, number=max(revision, self._generation.number))
            raise
        except JobSuspended:
            # else that is known, and has been dealt with
            if not self.health.suspended or self.health.driver_since is not None:
                self._watchers.look_at_job()
            raise
        except JobFailed:
            job = await self._jobs.read()
            if job is not None and job.over_for(self._settings.run_id):  # else it was resumed just now
                self._inbox.put_nowait(RunEnded(job))
            raise
