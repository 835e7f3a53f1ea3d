"""One replica's control loop: elector, driver and evidence meet here, and nowhere else.

Everything that happens becomes an entry in one queue and is handled one at a time, so no two decisions overlap. Three things do
not wait for that queue, because they must not wait for anything: deadlines written to the gate on a renewal, revocation of the
gate and SIGKILL on loss, and the kill timer.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from understudy.clock import BootClock
from understudy.election.elector import Elector
from understudy.election.facts import Grant
from understudy.election.records import GRANT
from understudy.errors import (
    CheckpointLost,
    DocumentEmptied,
    DocumentError,
    DocumentTooLarge,
    DocumentUnreadable,
    IdentityConflict,
    JobFailed,
    LeadershipLost,
    ProcessesRemain,
    UnderstudyError,
)
from understudy.events import Log
from understudy.ha.generation import Generation, Superseded
from understudy.ha.job import Job, JobStore, Status
from understudy.ha.ownership import refuse_foreign
from understudy.ha.replicas import ReplicaStore
from understudy.ha.runs import UnderWay
from understudy.protocol.messages import ClaimRefused, Reclaim, StaleSnapshot
from understudy.protocol.token import NONE, Token
from understudy.supervisor import fence_logs, restart
from understudy.supervisor.claims import JobClaims, refused_claim
from understudy.supervisor.drivers import Drivers
from understudy.supervisor.ended import end_of, run_begins, run_under_way
from understudy.supervisor.happenings import (
    Aged,
    Died,
    Exited,
    Finished,
    Happening,
    Heard,
    JobEnded,
    Led,
    Lost,
    Met,
    MetRun,
    RestartDue,
    Stop,
)
from understudy.supervisor.health import FenceCounts, Health
from understudy.supervisor.membership import Membership
from understudy.supervisor.places import Place
from understudy.supervisor.root_tasks import RootTasks, internal
from understudy.supervisor.seat import Term
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workload import intruder


class Replica:
    """Also the elector's candidate: ``granted``, ``renewed`` and ``lost`` are its calls."""

    def __init__(self, settings: RunSettings, place: Place, fence_jar: Path, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._place = place
        self._holder = place.holder
        self._jobs = JobStore(place.documents, settings.names.job_document, settings.job, str(settings.script))
        self._replicas = ReplicaStore(place.documents, settings.names.replicas)
        self._claims = JobClaims(settings, self._holder, self._jobs, self._replicas, place.floor, self._root_unread)
        clock = BootClock()
        self._happenings: asyncio.Queue[Happening] = asyncio.Queue()
        self._elector = Elector(
            place.lock,
            settings.names.lock,
            self._holder,
            settings.timings,
            clock,
            self,
            log,
            floor=self._highest_epoch,
            generation=settings.digest,
            lock_kind=settings.lock_kind,
            workload=place.workload,
        )
        self._evidence = place.evidence(
            self._replicas,
            self._leader_elsewhere,
            dead=self._leader_died,
            doomed=self._told_to_stop,
            leaving=self._leader_leaves,
        )
        self._generation = Generation(place.revision, settings.digest, place.workload)
        self._roster = Membership(self._replicas, place, lambda: self._generation, clock, log, self._evidence.is_dead)
        self.health = Health(
            clock, FenceCounts(), live_within=2 * settings.timings.retry, last_turn=lambda: self._elector.turned_at
        )
        self._tasks = RootTasks(log)
        self.told_to_stop = asyncio.Event()
        self.successor: str | None = None  # whom a leader that was told to stop has released its lock to
        self._term = Term(NONE)
        self._drivers = Drivers(
            settings,
            place,
            fence_jar,
            self._term,
            self._jobs,
            self._roster,
            self.health,
            clock,
            log,
            self._tasks,
            ready=self._elector.ready,
            leader_elsewhere=self._leader_elsewhere,
            happen=self._happenings.put_nowait,
        )
        self._seat = self._drivers.seat
        self._detected = False
        self._afresh: int | None = None  # the epoch in which the script was run again for what it had read
        self._ended_job: Job | None = None  # found ended while claiming

    # The elector's calls: synchronous, and quick.

    def granted(self, grant: Grant) -> None:
        self._term.grant = grant
        self._happenings.put_nowait(Led(grant))

    def renewed(self, sent_at: float) -> None:
        # guard: deadlines-count-from-the-sending
        self._term.sent_at = sent_at
        self._seat.extend()

    def lost(self, reason: str) -> None:
        self._term.grant = None
        if self._term.epoch is not None:
            self._seat.revoke(reason)
        self._happenings.put_nowait(Lost(reason))

    # The loop.

    async def run(self) -> int:
        """Until the job ends or this replica is told to stop; the process's exit code."""
        try:
            return await self._tasks.guard(self._serve())
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
                await self._drivers.bury()
            await self._roster.leave()
            await self._place.close()

    async def _serve(self) -> int:
        await self._replicas.join(self._settings.job)
        await self._refuse_foreign_lock()
        job = await self._jobs.read()
        if job is not None and job.over_for(self._settings.run_id):
            return self._already_ended(job)
        if job is not None:
            self._generation = self._generation.numbered(job.understood(self._jobs.name).generation)
        await self._drivers.publish()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop, number.name)
        self._tasks.watch("the sweep", self._sweep)
        self._tasks.need("the elector", self._elector.run)
        self._tasks.watch("the watch for evidence", self._evidence.run)
        self._tasks.watch("the pulse", self._feel_pulse)
        self._tasks.watch("the look for another workload", self._look_for_intruders)
        self._tasks.watch("the note of commits", self._drivers.note_commits)
        self._tasks.watch("the look after a standby's age", self._drivers.look_after_age)
        if job is not None and isinstance(job.part_of(self._settings.run_id), UnderWay):
            self._tasks.watch("the look for another run", self._look_for_another_run)
        else:
            self._drivers.respawn()
        return await self._handle()

    async def _give_up(self, reason: UnderstudyError) -> None:
        self._log.tell("stopped-for", str(reason))
        await self._retire()

    async def _refuse_foreign_lock(self) -> None:
        """A lock that cannot be read, or not now, is the elector's affair; and a store that hangs keeps no replica from starting."""
        with suppress(DocumentError, TimeoutError):
            async with asyncio.timeout(self._settings.timings.request):
                standing = await self._place.lock.read(self._settings.names.lock)
            refuse_foreign(standing, GRANT)

    def _told_to_stop(self, why: str) -> None:
        """The elector hears it at once: whatever the loop is waiting for now, this process takes no lock any more."""
        # guard: stop-is-heard-at-once
        self._elector.stop()
        self.told_to_stop.set()
        self._happenings.put_nowait(Stop(why))

    async def _sweep(self) -> None:
        """Remove what processes that are gone have left on this machine."""
        await asyncio.to_thread(self._seat.workspaces.sweep)
        await asyncio.to_thread(fence_logs.prune, self._settings.home, self._holder)

    async def _feel_pulse(self) -> None:
        """Tell of writes that the fence refused."""
        while True:
            known = self.health.fence.refused
            self.health.fence.look()
            if self.health.fence.refused > known:
                told = f"the fence refused {self.health.fence.refused - known} writes of this replica's driver, which changed nothing"
                self._log.say("stale-write-refused", told, refused=self.health.fence.refused)
            await asyncio.sleep(self._settings.timings.retry / 2)

    async def _look_for_intruders(self) -> None:
        if workload := self._place.workload:
            pause = self._settings.timings.retry
            self._happenings.put_nowait(Met(await intruder(lambda: self._elector.view, workload, pause)))

    async def _look_for_another_run(self) -> None:
        """Stand by only once no leader of another run lives; until then a driver would rehearse what is not ours."""
        settings = self._settings
        met = await run_under_way(
            self._jobs, settings.run_id, lambda: self._elector.view, self._holder, settings.timings.retry
        )
        if met is not None:
            self._happenings.put_nowait(MetRun(met))
        elif self._seat.driver is None:
            self._drivers.respawn()

    async def _handle(self) -> int:
        said = ""
        while True:
            happening = await self._happenings.get()
            try:
                code = await self._answer(happening)
            except (DocumentUnreadable, DocumentEmptied, DocumentTooLarge, CheckpointLost):
                raise  # the same again would end the same: another replica may lead, and a person look
            except DocumentError as error:
                # Nothing is decided while documents cannot be reached; meanwhile the gate's deadlines and the kill timer hold.
                if str(error) != said:
                    said = str(error)
                    self._log.say("unreachable", said)
                asyncio.get_running_loop().call_later(
                    self._settings.timings.retry, self._happenings.put_nowait, happening
                )
            else:
                said = ""
                if code is not None:
                    return code

    async def _answer(self, happening: Happening) -> int | None:
        """The exit code, once there is one. May be called again with the same happening after a ``DocumentError``."""
        match happening:
            case Led(grant) if grant is self._term.grant:
                return await self._lead(grant)
            case Led():
                pass  # lost before it was its turn
            case Lost(reason):
                await self._step_down(reason)
            case Heard() | Exited() | Died() | RestartDue() | Aged() | Finished():
                return await self._answer_driver(happening)
            case JobEnded(job):
                return self._already_ended(job)
            case Stop(why):
                return await self._stop(why)
            case Met(workload) if self._term.epoch is None:
                raise IdentityConflict(
                    f"the workload {workload} runs this cluster id, and its leader lives",
                    where="--cluster-id",
                    remedy="Give each workload a cluster id of its own, or delete the other one first",
                )
            case MetRun(run) if self._term.epoch is None:
                raise IdentityConflict(
                    f"run {run} of this job is under way, and its leader lives",
                    where="--run-id",
                    remedy=f"Wait until it has ended; or give --run-id {run} for one more replica of it",
                )
            case Met() | MetRun():
                pass  # it led while we did not; now we do, so it is gone
        return None

    async def _answer_driver(self, happening: Heard | Exited | Died | RestartDue | Aged | Finished) -> int | None:
        match happening:
            case Heard(driver, StaleSnapshot(reason)) if driver is self._seat.driver and self._term.epoch is not None:
                await self._begin_afresh(reason, self._term.epoch)
            case Aged(driver, due) if driver is self._seat.driver and self._may_wait():
                await self._drivers.begin_again(due)
            case Heard(driver, ClaimRefused() as refused) if driver is self._seat.driver:
                await self._claim_refused(refused)
            case Heard(driver, message) if driver is self._seat.driver:
                await self._drivers.hear(driver, message)
            case Exited(driver, status) if driver is self._seat.driver:
                await self._drivers.exited(driver, status)
            case Died(reason, token) if self._leads_under(token):
                return await self._recover(reason)
            case RestartDue(token, in_place) if self._leads_under(token):
                await self._restart(in_place=in_place)
            case Finished(token) if self._leads_under(token):
                return await self._end_job(Status.FINISHED, "the script ended")
            case _:
                pass  # of a driver, or a time as leader, that is over
        return None

    # Leading.

    async def _lead(self, grant: Grant) -> int | None:
        """Claim, then open the gate; the driver claims its roots behind it."""
        if not self._detected:
            self._detected = True
            self._log.say("detected", "the lock is free: released, or its lease ran out", how="lock")
        if not await self._begin_attempt(grant, grant.epoch):
            self._detected = False
            return None
        self._detected = False
        if (job := self._ended_job) is not None:
            await self._retire()
            return self._already_ended(job)
        if self._place.native is not None and (standbys := await self._roster.standbys()) is not None:
            await self._place.native.clear(standbys, self._log)
        # Asked for again here: the lock may have been lost while executors were deleted, and what was revoked then stays revoked.
        if self._seat.driver is None:
            opened = self._drivers.start_leading(grant)
        elif opened := self._seat.open(grant):
            self._seat.driver.take_the_lead()
            self._drivers.takes_over()
        if opened:  # else the loss is the next thing the loop hears of
            await self._drivers.publish()
        return None

    async def _begin_attempt(self, grant: Grant, epoch: int) -> bool:
        """A new token for one start of a driver. False when the lock was lost on the way: the elector says so by itself.

        ``epoch`` is the grant's own, or what the lock was raised to under it.
        """
        began = time.monotonic()
        self._ended_job = None
        try:
            job = await self._claims.begin_attempt(
                epoch, self._generation, self._elector, self._term.token, came_up=self._drivers.came_up
            )
        except Superseded as newer:
            self._log.say("superseded", str(newer), epoch=epoch)
            await self._drivers.bury()
            await self._release(await self._roster.successor())
            self._drivers.respawn()
            return False
        if job is None or self._term.grant is not grant:
            return False
        if job.over_for(self._settings.run_id):
            self._ended_job = job
            return True
        self._term.epoch, self._term.token = job.token.epoch, job.token
        self._term.recorded = job.claimed.tokens
        seconds = round(time.monotonic() - began, 4)
        self._log.say("claimed", f"the job is run under token {job.token}", epoch=job.token.epoch, seconds=seconds)
        self.health.granted(job.token.epoch, seconds)
        if job.runs.run and job.runs.first == int(job.token):
            self._log.say("run-begins", run_begins(job.runs), epoch=job.token.epoch)
        return True

    def _leads_under(self, token: Token) -> bool:
        return self._term.epoch is not None and self._term.token == token

    async def _claim_refused(self, refused: ClaimRefused) -> None:
        """A root holds more than our token: raise the lock above it, or give up what belongs to someone else."""
        if (error := refused_claim(refused)) is not None:
            raise error
        found = Token.from_int(refused.token)
        if (grant := self._term.grant) is None:
            return
        raised = await self._elector.raise_above(found.epoch)
        if raised is None or self._term.grant is not grant:
            return
        if await self._begin_attempt(grant, raised) and self._seat.driver is not None:
            self._seat.extend()
            self._seat.driver.say(Reclaim(int(self._term.token)))

    async def _step_down(self, reason: str) -> None:
        """Leadership is gone: bury the driver, and become a standby again."""
        if self._term.epoch is None:
            return
        self._log.say("stepped-down", reason, epoch=self._term.epoch)
        self.health.lost()
        self._term.epoch = None
        await self._drivers.bury()
        await self._drivers.publish()
        self._drivers.respawn()

    async def _recover(self, reason: str) -> int | None:
        """The leading driver died under a living supervisor: hand over to a rehearsed standby, else start again in place."""
        settings = self._settings
        try:
            job = await self._jobs.failed_once(self._term.token, time.time(), settings.restart_window, reason)
        except LeadershipLost as lost:
            await self._step_down(str(lost))
            return None
        decision = restart.decide(
            job.failures,
            time.time(),
            attempts=settings.restart_attempts,
            delay=settings.restart_delay,
            window=settings.restart_window,
        )
        match decision:
            case restart.GiveUp(why):
                return await self._end_job(Status.FAILED, f"{why}; the last: {reason}")
            case restart.Restart(delay):
                if not await self._handed_over(delay):
                    # Not slept here: who is told to stop meanwhile gives the lock back at once.
                    due = RestartDue(self._term.token)
                    asyncio.get_running_loop().call_later(delay, self._happenings.put_nowait, due)
        return None

    async def _handed_over(self, pause: float) -> bool:
        """Released to a rehearsed standby, if there is one; a driver of ours starts again after ``pause`` seconds.

        Code that has never come up here gives way to the generation before it, rehearsed or not.
        """
        successor = await self._roster.successor()
        if successor is None and not self._drivers.came_up:
            successor = await self._roster.predecessor()
        if successor is None:
            return False
        await self._release(successor)
        self._term.epoch = None
        self.health.lost()
        await self._drivers.publish()
        self._drivers.respawn(pause)
        return True

    def _may_wait(self) -> bool:
        """Whether somebody else leads, as far as is known, and nothing says that we are about to."""
        return self._term.epoch is None and not self._detected and self._leader_elsewhere() is not None

    async def _begin_afresh(self, reason: str, epoch: int) -> None:
        """What stood by has failed on what changed meanwhile: run the script again, once, at no cost to the restarts it has left."""
        if self._afresh != epoch:
            self._afresh = epoch
            self._log.say("begins-afresh", reason, epoch=epoch)
            await self._drivers.bury()
            self._happenings.put_nowait(RestartDue(self._term.token, in_place=True))

    async def _restart(self, *, in_place: bool) -> None:
        if not in_place and await self._handed_over(0.0):  # somebody has rehearsed meanwhile
            return
        grant, epoch = self._term.grant, self._term.epoch
        if grant is None or epoch is None or not await self._begin_attempt(grant, epoch):
            return
        token = self._term.token
        self._log.say("restarted", f"the driver starts again in place under token {token}", epoch=token.epoch)
        self._drivers.start_leading(grant)

    # Ends.

    async def _end_job(self, status: Status, reason: str) -> int | None:
        try:
            job = await self._jobs.end(self._term.token, status, reason, time.time())
        except LeadershipLost as lost:
            await self._step_down(str(lost))
            return None
        await self._retire()
        return self._already_ended(job)

    async def _retire(self) -> None:
        """Give the lead back, if it is ours, once no process of the driver is left."""
        self._elector.stop()
        await self._drivers.bury()
        await self._release(None)

    async def _release(self, successor: str | None) -> None:
        """Give the lock back. From here on no gate opens under its grant, whatever comes of the release."""
        self._term.grant = None
        await self._elector.release(successor)

    def _already_ended(self, job: Job) -> int:
        end = end_of(job, self._settings.run_id)
        self._log.say("job-ended", end.sentence, status=end.status)
        if end.exit_code == 0:
            self.health.finished(end.sentence)
        return end.exit_code

    async def _stop(self, why: str) -> int:
        """Finish or abandon the batch, release to a rehearsed standby, and end. From here on this process never contends."""
        self._log.say("stopping", f"told to by {why}", epoch=self._term.epoch)
        if self._drivers.completed:
            # what waits in the queue is answered no more, and a successor would run the whole script again
            with suppress(DocumentError):
                return await self._end_job(Status.FINISHED, "the script ended") or 0
        if self._term.grant is not None or self._term.epoch is not None:
            looking = asyncio.create_task(self._roster.successor())
            if self._term.epoch is not None:  # else granted, and not begun
                await self._drivers.suspend()
            await self._drivers.end_by_handler()
            successor = await looking
            # guard: reaped-before-release
            await self._drivers.bury()
            await self._release(successor)
            self.successor = successor
        else:
            await self._drivers.end_by_handler()
        return 0

    # What is seen of others.

    def _leader_elsewhere(self) -> str | None:
        view = self._elector.view
        if view.leader is None or view.released or view.leader == self._holder:
            return None
        return view.leader

    def _leader_died(self, holder: str) -> None:
        self._detected = True
        self._log.say("detected", "every process of the leader is gone", how="evidence", leader=holder)
        self._elector.evidence(holder)

    def _root_unread(self, told: str) -> None:
        self._log.say("root-unread", f"an election goes on without the claim in it: {told}")

    def _leader_leaves(self) -> None:
        self._drivers.rest()

    async def _highest_epoch(self) -> int:
        """Asked by the elector before it acquires. A job that has ended is not led, unless somebody resumes it."""
        try:
            return await self._claims.highest_epoch(self._generation)
        except Superseded:
            # A rollback numbers the pods that still run its code anew.
            revision = await self._place.look_up_revision()
            self._generation = replace(self._generation, number=max(revision, self._generation.number))
            raise
        except JobFailed:
            job = await self._jobs.read()
            if job is not None and job.over_for(self._settings.run_id):  # else it was resumed just now
                self._happenings.put_nowait(JobEnded(job))
            raise
