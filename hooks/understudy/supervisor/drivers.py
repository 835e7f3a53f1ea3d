"""A replica's drivers, one after the other: when a standby's starts, what a driver says, and what its end means.

The control loop hands in what it takes from its queue. What only the loop can decide, as what follows the death of a leading
driver, goes back into that queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from understudy.clock import Clock, instant
from understudy.election.facts import Grant
from understudy.errors import DocumentError, LeadershipLost, UnderstudyError
from understudy.events import Log
from understudy.ha.job import Job, JobStore
from understudy.ha.replicas import lacks_queries
from understudy.processes import time_namespace
from understudy.protocol.messages import (
    Advice,
    Attached,
    Committed,
    Ended,
    Hello,
    Message,
    PauseRehearsals,
    RehearsalReport,
    Roots,
    Running,
    Started,
    Starting,
    StillRunning,
    Suspend,
    Suspended,
)
from understudy.protocol.token import Token
from understudy.supervisor import restart
from understudy.supervisor.driver_end import Completed, Failed, Refused, how_it_ended
from understudy.supervisor.driver_process import DriverProcess
from understudy.supervisor.happenings import Aged, Died, Exited, Finished, Happening, Heard, JobEnded
from understudy.supervisor.health import Health
from understudy.supervisor.membership import Membership
from understudy.supervisor.places import Place
from understudy.supervisor.root_tasks import RootTasks, described
from understudy.supervisor.seat import Seat, Term
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.standby_staleness import ReloadDue, StandbyStaleness
from understudy.supervisor.takeover_limit import TakeoverLimit

#: How long a replica that comes back leaves the machine to a new leader before it warms up itself, in seconds.
_YIELD = 15.0
#: Seconds between two notes of the last commit in the job's document.
_COMMITS_NOTED_EVERY = 60.0
#: How long the elector has to find out whether somebody leads, before a standby warms up, in seconds.
_LOOK_FIRST = 1.0
#: Beyond its patience a driver waits for the commit of what has ended in time (``_COMMIT_MS`` of its stage) and then says so; seconds.
_COMMIT = 0.2
#: Seconds between two looks at whether a standby has become too old.
_LOOK_FRESH = 5.0
#: Seconds at most between two looks at how many queries the leader runs: each is a request.
_COMPARE_EVERY = 30.0
#: Seconds between two looks at whether a new leader serves yet: each is a request.
_LOOK_AGAIN = 0.25
_NOT_REHEARSED = RehearsalReport("", rehearsed=False, how="", rounds=0, seconds=0.0)
#: What was said last of how a driver stands: whether it is rehearsed, why not, and which queries it lacks.
_SAID_NOTHING = (False, "", "")


class Drivers:
    """``term`` is only read here. ``ready`` and ``leader_elsewhere`` reach the elector, ``happen`` the control loop's queue."""

    def __init__(
        self,
        settings: RunSettings,
        place: Place,
        fence_jar: Path,
        term: Term,
        jobs: JobStore,
        roster: Membership,
        health: Health,
        clock: Clock,
        log: Log,
        tasks: RootTasks,
        *,
        ready: Callable[[bool], None],
        leader_elsewhere: Callable[[], str | None],
        happen: Callable[[Happening], None],
    ) -> None:
        self._settings = settings
        self._term = term
        self._jobs = jobs
        self._roster = roster
        self._health = health
        self._clock = clock
        self._log = log
        self._ready = ready
        self._leader_elsewhere = leader_elsewhere
        self._happen = happen
        self.seat = Seat(
            settings,
            place,
            fence_jar,
            term,
            self._overhear,
            self._overhear_end,
            health.fence.follow,
        )
        self._tasks = tasks
        self._standing = _NOT_REHEARSED
        self._stood = _SAID_NOTHING
        self._compared_at = 0.0
        self._rehearsed_at = 0.0
        self._freshness = StandbyStaleness(settings.standby_max_age, settings.submit, place.mounts, clock)
        self._due: ReloadDue | None = None
        self._limit = TakeoverLimit(settings.takeover_timeout)
        self._running = 0  # queries of a leader's script
        self._suspended = asyncio.Event()
        self._unnoted = ""  # what was said last of why something is not in the job's document
        self._standby_failures = 0
        self._completed: Token | None = None  # the leader under which a script has come to its end
        self.came_up = False  # whether this replica's script has ever come as far as the gate

    # Its start.

    def respawn(self, pause: float = 0.0) -> None:
        self._tasks.watch("the start of a standby's driver", lambda: self._start_when_quiet(pause))

    async def _start_when_quiet(self, pause: float) -> None:
        """Start a standby's driver, after a new leader's first commit if one is just taking over: it has the machine first."""
        await asyncio.sleep(pause)
        began = self._clock.now()
        leader: str | None = None
        while self._term.epoch is None and self._clock.now() < began + _YIELD:
            leader = self._leader_elsewhere()
            with suppress(DocumentError):
                job = await self._jobs.read()
                if job is not None and job.over_for(self._settings.run_id):
                    self._happen(JobEnded(job))
                    return
                if leader is not None and job is not None and job.holder == leader and job.serving == job.token:
                    break
            if leader is None and self._clock.now() > began + _LOOK_FIRST:
                break
            await asyncio.sleep(_LOOK_AGAIN)
        if self.seat.driver is None and self._term.epoch is None:  # guard: one-driver (a leader's has its own token)
            self._freshness.began(self._due)
            self._due = None
            self._roster.began()
            self._health.script_since = time.time()
            self._health.driver_starts()
            self.seat.start(idle=leader is not None)

    def start_leading(self, grant: Grant) -> bool:
        """Start the driver of a leader; not at all, and False, when ``grant`` is no longer the current one.

        A start that fails is answered as the death of a driver is: counted, and tried again.
        """
        self._health.driver_starts()
        try:
            return self.seat.start_leading(grant)
        except UnderstudyError:
            raise
        except Exception as error:  # noqa: BLE001 - a full disk, no descriptor, no memory: may be otherwise next time
            reason = f"its driver could not be started: {described(error)}"
            self._log.say("driver-died", reason, epoch=self._term.epoch)
            self._happen(Died(reason, self._term.token))
            return True

    async def look_after_age(self) -> None:
        """Ask the loop to run a standby's script again, when it is due and its turn."""
        while True:
            await asyncio.sleep(_LOOK_FRESH)
            driver = self.seat.driver
            if self._clock.now() > self._compared_at + _COMPARE_EVERY:
                await self._compare(self._standing)
            if driver is None or self._leader_elsewhere() is None or (due := self._freshness.due()) is None:
                continue
            if await self._roster.may_begin_again(
                rehearsed=self._standing.rehearsed, queries=self._standing.queries, urgent=due.urgent
            ):
                self._happen(Aged(driver, due))

    async def _compare(self, standing: RehearsalReport) -> None:
        """Look how many queries the leader runs: a standby that has rehearsed fewer says so."""
        if self._term.epoch is None and standing.queries:
            self._compared_at = self._clock.now()
            self._health.running = await self._roster.running()

    async def begin_again(self, due: ReloadDue) -> None:
        """End a standby's driver, which has become too old, and start another."""
        self._log.say("begins-again", due.reason)
        self._due = due
        await self.bury()
        await self.publish()
        self.respawn()

    # What it says, and what others are told of it.

    def _overhear(self, driver: DriverProcess, message: Message) -> None:
        """What a stopping replica waits for inside its handler cannot come through the queue."""
        if isinstance(message, Suspended):
            self._suspended.set()
        else:
            self._happen(Heard(driver, message))

    async def hear(self, driver: DriverProcess, message: Message) -> None:
        """Anything but ``ClaimRefused``, which is about the lock."""
        token = self._term.token
        match message:
            case Hello(boottime_ns=there, time_namespace=namespace):
                if namespace != time_namespace() or there > instant().boottime_ns:
                    driver.kill_now("its clocks are not ours")
            case Attached(spark=version):
                self._health.driver_is_up()
                self._log.say("attached", f"Spark {version} is up behind the gate")
            case RehearsalReport():
                await self._note_standing(driver, message)
            case Roots(roots):
                await self._note_came_up()
                await self._note(self._jobs.claims(token, tuple(roots)))
            case Advice() | StillRunning() | Ended():
                self._tell_of_script(message)
            case Starting() | Running() | Started() | Committed():
                await self._note_takeover(driver, message)
            case other:
                driver.kill_now(f"a driver does not say {other}")

    async def _note_takeover(self, driver: DriverProcess, message: Starting | Running | Started | Committed) -> None:
        """How far a leader has come."""
        token = self._term.token
        match message:
            case Starting():
                self._limit.begins(driver)
            case Running(queries, failed):
                for name in sorted(failed.keys() - self._health.failed.keys()):
                    told = f"query {name} has ended, and {queries} of the script's run: {failed[name]}"
                    self._log.say("query-failed", told, epoch=token.epoch)
                self._running, self._health.failed = queries, failed
                await self.publish()
            case Started(queries, claimed, seconds):
                self._limit.ends()
                await self._note_came_up()
                self._health.phases["start"] = seconds
                facts = {"claim_s": round(claimed, 3), "seconds": round(seconds, 3)}
                self._log.say("started", f"queries that run now: {queries}", epoch=token.epoch, **facts)
            case Committed(root, batch, seconds):
                self._health.phases["first_commit"] = seconds
                told = f"batch {batch} of {root}"
                self._log.say("first-commit", told, epoch=token.epoch, seconds=round(seconds, 3))
                await self._note(self._jobs.serving(token, time.time()))

    def _tell_of_script(self, message: Advice | StillRunning | Ended) -> None:
        match message:
            case Advice(text):
                self._log.say("advice", text)
            case StillRunning(what):
                self._log.say("still-running", f"the script's main thread has ended; the driver waits for {what}")
            case Ended(code, error):
                self._log.say("script-ended", error or "the script ended", code=code)

    async def _note_standing(self, driver: DriverProcess, standing: RehearsalReport) -> None:
        await self._note_came_up()
        self._freshness.note(standing)
        await self._compare(standing)
        lacks = lacks_queries(standing.queries, self._health.running, standing.held)
        stands = standing.rehearsed, standing.reason, lacks
        changed, self._stood = stands != self._stood, stands
        self._standing = standing
        if standing.rehearsed:
            self._rehearsed_at = time.time()
            self._standby_failures = 0
        self._health.stands(standing, self._rehearsed_at)
        if standing.rounds >= self._settings.rehearse_rounds:
            driver.lift_priority()
        if changed:
            event = "rehearsed" if standing.rehearsed and not lacks else "not-rehearsed"
            how = lacks or f"{standing.how} in {standing.seconds:.1f} s, waits at {standing.held}"
            self._log.say(event, standing.reason or how)
        self._ready(standing.rehearsed)
        await self.publish()

    async def publish(self) -> None:
        """Tell the other replicas how it stands with ours."""
        leads = self._term.epoch is not None
        await self._roster.publish(
            self._standing, self._rehearsed_at, leads=leads, running=self._running, failed=self._health.failed
        )

    async def note_commits(self) -> None:
        """Say in the job's document when the last batch was committed: not per batch, for that is read by people.

        A leader tidies the replicas' document as often.
        """
        while True:
            noted = self._health.fence.committed_at
            await asyncio.sleep(_COMMITS_NOTED_EVERY)
            if self._term.epoch is not None and self._health.fence.committed_at > noted:
                await self._note(self._jobs.committed(self._term.token, self._health.fence.committed_at))
            if self._term.epoch is not None:
                if (
                    self.seat.driver is not None
                ):  # a script that only asks for the lead says nothing of queries or roots
                    await self._note_came_up()
                await self._roster.sweep()

    async def _note_came_up(self) -> None:
        """The script is as far as the gate: if it leads, its generation is the one that has led from here on."""
        if not self.came_up:
            self.came_up = True
            if self._term.epoch is not None:
                await self._note(self._jobs.led(self._term.token, self._roster.generation()))

    async def _note(self, write: Coroutine[object, object, Job]) -> None:
        """A fact others may want to know. Losing it costs them that fact; leadership is the elector's business."""
        try:
            await write
        except LeadershipLost as lost:
            self._log.say("overtaken", str(lost))
        except DocumentError as error:
            if str(error) != self._unnoted:
                self._unnoted = str(error)
                self._log.say("unnoted", self._unnoted)
        else:
            self._unnoted = ""

    def takes_over(self) -> None:
        """The driver that stood by was told to lead."""
        if self.seat.driver is not None and self._standing.queries:  # else it says itself whether it has any to start
            self._limit.begins(self.seat.driver)

    def rest(self) -> None:
        """A standby leaves its processors to a takeover that is about to come, whoever it is that takes over."""
        if self.seat.driver is not None and self._term.epoch is None:
            # By then the leader has stopped in order and released its lock, or has lost it.
            seconds = self._settings.stop_patience + self._settings.timings.lease
            self._log.say("rests", f"the leader's pod is being deleted: no rehearsal for {seconds:g} s")
            self.seat.driver.say(PauseRehearsals(seconds))

    # Its end.

    async def suspend(self) -> None:
        """Return when the driver has finished or abandoned its batch, or patience runs out."""
        if self.seat.driver is not None:
            self.seat.driver.say(Suspend(self._settings.stop_patience))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._suspended.wait(), self._settings.stop_patience + _COMMIT)

    async def end_by_handler(self) -> None:
        """Return when the script has ended by its own handler of SIGTERM, or patience runs out; at once if it has none."""
        if self.seat.driver is not None and await self.seat.driver.end_by_handler(self._settings.stop_patience):
            self._log.say("script-told", "the script's own handler of SIGTERM had its time behind a closed gate")

    async def bury(self, *, by_itself: bool = False) -> None:
        """Return when no process of the driver is left. Until there is another, this replica is not ready to lead."""
        self._limit.ends()
        self._standing, self._stood, self._running = _NOT_REHEARSED, _SAID_NOTHING, 0
        self._health.driver_gone(by_itself=by_itself)
        self._ready(False)
        await self.seat.clear()

    @property
    def completed(self) -> bool:
        """Whether the script has come to its end under this leader, though its end may wait in the queue or for its burial."""
        return self._term.epoch is not None and self._completed == self._term.token

    def _overhear_end(self, driver: DriverProcess, status: int) -> None:
        if self._term.epoch is not None and isinstance(_end(driver, status), Completed):
            self._completed = self._term.token
        self._happen(Exited(driver, status))

    async def exited(self, driver: DriverProcess, status: int) -> None:
        """Bury it. A standby's is followed by another; what follows a leader's is the control loop's to decide."""
        end = _end(driver, status)
        await self.bury(by_itself=self._term.epoch is None)
        match end:
            case Refused(error) if self._term.epoch is not None or self._leader_elsewhere() is None:
                raise error  # a living leader's standby goes on
            case Completed() if self._term.epoch is not None:
                self._happen(Finished(self._term.token))
            case Completed() | Failed() | Refused():
                await self._died(end.reason)

    async def _died(self, reason: str) -> None:
        if self._term.epoch is None:
            self._standby_failures += 1
            self._standing = replace(_NOT_REHEARSED, reason=f"its script ended: {reason}")
            self._log.say("standby-ended", reason, failures=self._standby_failures)
            await self.publish()
            self.respawn(restart.backoff(self._standby_failures, self._settings.restart_delay))
        else:
            self._log.say("driver-died", reason, epoch=self._term.epoch)
            self._happen(Died(reason, self._term.token))


def _end(driver: DriverProcess, status: int) -> Completed | Refused | Failed:
    return how_it_ended(driver.ended, status, driver.killed_because, memory_was_short=driver.memory_was_short)
