"""What a driver reports of itself, and what others are told of it: probes, the log, the replicas' and the job's documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace

from understudy.clock import HostClock
from understudy.errors import DocumentError, LeadershipLost
from understudy.events import Log
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.job import Job
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import lacks_queries
from understudy.processes import time_namespace
from understudy.protocol.messages import (
    OFF,
    WARM_UP,
    Advice,
    Attached,
    Checkpoints,
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
)
from understudy.protocol.token import Token
from understudy.supervisor.driver_slot import DriverSlot
from understudy.supervisor.health import Health
from understudy.supervisor.membership import Membership
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.silence import LOOK_EVERY
from understudy.supervisor.standby_staleness import StandbyStaleness
from understudy.supervisor.state import Leadership, token_of
from understudy.supervisor.takeover_limit import TakeoverLimit

#: Seconds between two notes of the last commit in the job's document.
_COMMITS_NOTED_EVERY = LOOK_EVERY
#: Seconds at most between two looks at how many queries the leader runs: each is a request.
_COMPARE_EVERY = 30.0
_NOT_REHEARSED = RehearsalReport("", rehearsed=False, how="", rounds=0, seconds=0.0)
_SUSPENDED = "the job is SUSPENDED"
#: How standbys stand of which none is ever rehearsed: it is the script, or a setting, so none need leave the lock to a better one.
_AS_READY_AS_THEY_GET = frozenset({WARM_UP, OFF})
#: What was said last of how a driver stands: whether it is rehearsed, why not, and which queries it lacks.
_SAID_NOTHING = (False, "", "")


@dataclass(slots=True)
class _Up:
    """A driver's process whose script came up as a leader's at ``since``, and whether it is ``noted`` that it has run well."""

    process: object
    since: float
    noted: bool = False


class DriverReports:
    """One replica's. ``leadership`` is asked and never changed; ``ready`` tells the elector whether this replica is as ready as any."""

    def __init__(
        self,
        settings: RunSettings,
        jobs: JobStore,
        membership: Membership,
        health: Health,
        slot: DriverSlot,
        staleness: StandbyStaleness,
        clock: HostClock,
        log: Log,
        *,
        leadership: Callable[[], Leadership],
        ready: Callable[[bool], None],
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._membership = membership
        self._health = health
        self._slot = slot
        self._staleness = staleness
        self._clock = clock
        self._log = log
        self._leadership = leadership
        self._ready = ready
        self._limit = TakeoverLimit(settings.takeover.timeout, clock.instant)
        self.standing = _NOT_REHEARSED
        self._stood = _SAID_NOTHING
        self._compared_at = 0.0
        self._rehearsed_at = 0.0
        self._running = 0  # queries of a leader's script
        self._unnoted = ""  # what was said last of why something is not in the job's document
        self.checkpoints: tuple[Checkpoint, ...] = ()  # what drivers have committed under the current grant
        self.came_up = False  # whether this replica's script has ever come as far as the gate
        self._up: _Up | None = None

    @property
    def _token(self) -> Token | None:
        return token_of(self._leadership())

    async def handle(self, message: Message) -> None:
        """Anything a driver may say that decides nothing."""
        if (process := self._slot.process) is None:
            return
        match message:
            case Hello(boottime_ns=there, time_namespace=namespace):
                if namespace != time_namespace() or there > self._clock.instant().boottime_ns:
                    process.kill_now("its clocks are not ours")
            case Attached(spark=version):
                self._health.driver_is_up()
                self._log.say("attached", f"Spark {version} is up behind the gate")
            case RehearsalReport():
                await self._note_standing(message)
            case Advice() | StillRunning() | Ended():
                self._tell_of_script(message)
            case Starting():
                self._limit.begins(process)
            case Roots() | Running() | Started() | Committed() | Checkpoints():
                await self._note_leader(message)
            case other:
                process.kill_now(f"a driver does not say {other}")

    def _tell_of_script(self, message: Advice | StillRunning | Ended) -> None:
        match message:
            case Advice(text):
                self._log.say("advice", text)
            case StillRunning(what):
                self._log.say("still-running", f"the script's main thread has ended; the driver waits for {what}")
            case Ended(code, error):
                self._log.say("script-ended", error or "the script ended", code=code)

    async def _note_leader(self, message: Roots | Running | Started | Committed | Checkpoints) -> None:
        """How far a leader has come."""
        if (token := self._token) is None:
            return
        match message:
            case Roots(roots):
                await self._note_came_up()
                await self._note(self._jobs.claims(token, tuple(roots)))
            case Running(queries, failed):
                for name in sorted(failed.keys() - self._health.failed.keys()):
                    told = f"query {name} has ended, and {queries} of the script's run: {failed[name]}"
                    self._log.say("query-failed", told, epoch=token.epoch)
                self._running, self._health.failed = queries, failed
                await self.publish()
            case Started(queries, claimed, seconds):
                self._limit.ends()
                await self._note_came_up()
                self._health.reached("start", seconds)
                facts = {"claim_s": round(claimed, 3), "seconds": round(seconds, 3)}
                self._log.say("started", f"queries that run now: {queries}", epoch=token.epoch, **facts)
            case Committed(root, batch, seconds):
                self._health.reached("first_commit", seconds)
                told = f"batch {batch} of {root}"
                self._log.say("first-commit", told, epoch=token.epoch, seconds=round(seconds, 3))
                await self._note(self._jobs.serving(token, self._clock.wall(), self.checkpoints))
            case Checkpoints(found):
                at = self._clock.wall()
                self.checkpoints = tuple(Checkpoint(each.root, each.query, each.sink, each.batch, at) for each in found)

    async def _note_standing(self, standing: RehearsalReport) -> None:
        await self._note_came_up()
        self._staleness.note(standing)
        if not standing.calls_functions:
            self._slot.calls_functions = False  # for good: the next driver runs the same script
        self.standing = standing
        await self.compare()
        lacks = lacks_queries(standing.queries, self._health.running, standing.held)
        stands = standing.rehearsed, standing.reason, lacks
        changed, self._stood = stands != self._stood, stands
        if standing.rehearsed:
            self._rehearsed_at = self._clock.wall()
        self._health.stands(standing, self._rehearsed_at)
        if standing.rounds >= self._settings.rehearsal.rounds and self._slot.process is not None:
            self._slot.process.lift_priority()
        if changed:
            event = "rehearsed" if standing.rehearsed and not lacks else "not-rehearsed"
            how = lacks or f"{standing.how} in {standing.seconds:.1f} s, waits at {standing.held}"
            self._log.say(event, standing.reason or how)
        self._ready(standing.rehearsed or standing.how in _AS_READY_AS_THEY_GET)
        await self.publish()

    async def compare(self, *, at_most_every: float = 0.0) -> None:
        """Look how many queries the leader runs: a standby that has rehearsed fewer says so."""
        if self._clock.now() < self._compared_at + at_most_every:
            return
        if self._token is None and self.standing.queries:
            self._compared_at = self._clock.now()
            self._health.running = await self._membership.running()

    async def publish(self) -> None:
        """Tell the other replicas how it stands with ours."""
        await self._membership.publish(
            self.standing,
            self._rehearsed_at,
            leads=self._token is not None,
            running=self._running,
            failed=self._health.failed,
        )

    async def note_commits(self) -> None:
        """Say in the job's document when the last batch was committed: not per batch, for that is read by people.

        A leader tidies the replicas' document as often, and every replica gives its sign of life, where others need one.
        """
        while True:
            noted = self._health.fence.committed_at
            await asyncio.sleep(_COMMITS_NOTED_EVERY)
            if await self._membership.look():
                await self.publish()
            if (token := self._token) is None:
                continue
            if self._health.fence.committed_at > noted:
                await self._note(self._jobs.committed(token, self._health.fence.committed_at, self.checkpoints))
            if self._slot.process is not None:  # a script that only asks for the lead reports no queries and no roots
                await self._note_came_up()
                await self._note_ran_well(token)
            await self._membership.sweep()

    async def _note_came_up(self) -> None:
        """The script is as far as the gate: if it leads, its generation is the one that has led from here on."""
        token, process = self._token, self._slot.process
        if token is not None and process is not None and (self._up is None or self._up.process is not process):
            self._up = _Up(process, self._clock.now())
        if not self.came_up:
            self.came_up = True
            if token is not None:
                await self._note(self._jobs.led(token, self._membership.generation()))

    async def _note_ran_well(self, token: Token) -> None:
        """Once for each driver that has run for the restart window: starting, and waiting for a start, are no part of that."""
        up = self._up
        if up is None or up.process is not self._slot.process or up.noted:
            return
        if self._clock.now() >= up.since + self._settings.restart.window:
            up.noted = await self._note(self._jobs.ran_well(token))

    async def _note(self, write: Coroutine[object, object, Job]) -> bool:
        """A fact others may want to know, and whether it was written. Losing it costs them that fact; leadership is the elector's business."""
        try:
            await write
        except LeadershipLost as lost:
            self._log.say("claim-superseded", str(lost))
        except DocumentError as error:
            if str(error) != self._unnoted:
                self._unnoted = str(error)
                self._log.say("status-write-failed", self._unnoted)
        else:
            self._unnoted = ""
            return True
        return False

    # --- what the supervisor tells ------------------------------------------------------------------------------------

    def takes_over(self) -> None:
        """The driver that stood by was told to lead."""
        if self._slot.process is not None and self.standing.queries:  # else it says itself whether it has any to start
            self._limit.begins(self._slot.process)

    def pause_rehearsals(self) -> None:
        """A standby leaves its processors to a takeover that is about to come, whichever replica takes over."""
        if self._slot.process is not None and self._token is None:
            # By then the leader has stopped in order and released its lock, or has lost it.
            seconds = self._settings.takeover.stop_patience + self._settings.timings.lease
            self._log.say("rehearsals-paused", f"the leader's pod is being deleted: no rehearsal for {seconds:g} s")
            self._slot.process.send(PauseRehearsals(seconds))

    def driver_gone(self, *, by_itself: bool) -> None:
        """Until there is another driver, this replica is not ready to lead."""
        self._limit.ends()
        self.standing, self._stood, self._running = _NOT_REHEARSED, _SAID_NOTHING, 0
        self._health.driver_gone(by_itself=by_itself)
        self._ready(False)

    def suspended(self) -> None:
        self.standing = replace(_NOT_REHEARSED, reason=_SUSPENDED)
        self._health.suspends()

    def resumed(self) -> None:
        self.standing = _NOT_REHEARSED
        self._health.resumes()

    def standby_ended(self, reason: str) -> None:
        self.standing = replace(_NOT_REHEARSED, reason=f"its script ended: {reason}")
