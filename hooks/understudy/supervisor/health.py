"""What a replica knows of its own health, for probes and metrics: counted where it happens, read on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from understudy.clock import Clock
from understudy.fencing.counters import CountersPage
from understudy.ha.replicas import lacks_queries
from understudy.protocol.messages import RehearsalReport

#: Seconds a standby's driver has for its first rehearsal before the standby counts as ready without one.
FIRST_REHEARSAL_WITHIN = 120.0


@dataclass(slots=True)
class FenceCounts:
    """What the fences of this replica's drivers, one after the other, have counted on their pages. Looking never raises."""

    refused: int = 0
    committed_at: float = 0.0  # s since 1970; 0: nothing yet
    _page: CountersPage | None = None
    _before: int = 0  # refused to earlier drivers

    def follow(self, page: CountersPage) -> None:
        """Another driver is started. Its predecessor is dead by then, and its page says the last it ever will."""
        self.look()
        self._page, self._before = page, self.refused

    def look(self) -> None:
        if self._page is not None:
            counts = self._page.read()
            self.refused = self._before + counts.refused
            self.committed_at = max(self.committed_at, counts.committed_at)


@dataclass(slots=True)
class Health:
    """``last_turn`` tells when the elector last decided anything (s of ``clock``), ``last_decision_at`` is the least it may say.
    ``lease_lasts``: whether the lock was renewed so lately that nothing can have taken it. ``phases``: the last takeover's, in seconds.

    ``queries``: how many this replica has rehearsed, ``running`` how many the leader's script runs; 0 where that is not known.
    ``failed``: queries of a leader's script that have ended on an exception and were not started again, with its first line.
    ``ended``: how the job did, in words, once it has; then there is nothing left that could be late. ``without_driver``: this
    replica has no driver until the job is resumed. ``waits``: what it waits for before it has anything to run. ``suspended``, ``paused``: the job is,
    as far as is known here.
    """

    clock: Clock
    fence: FenceCounts
    live_within: float
    last_turn: Callable[[], float] = lambda: 0.0
    lease_lasts: Callable[[], bool] = lambda: True
    last_decision_at: float = 0.0
    began_at: float = 0.0
    leads: bool = False
    epoch: int = 0
    rehearsed: bool = False
    how: str = ""
    held: str = ""
    queries: int = 0
    running: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    rehearsed_at: float = 0.0  # s since 1970, as those below
    stands_by_since: float = 0.0
    granted_at: float = 0.0
    committed_before: float = 0.0  # the last time before this lead, or its grant where that says more
    script_since: float = field(default_factory=time.time)  # s since 1970
    settled: bool = False
    driver_since: float | None = None  # s of ``clock``; None while no driver runs
    driver_up: bool = False  # Spark is up in it, or it has said how it stands
    driver_ended: bool = False  # by itself, and none since has come as far as its first rehearsal
    takeovers: int = 0
    losses: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    ended: str = ""
    without_driver: bool = False
    waits: str = ""
    suspended: bool = False
    paused: bool = False
    _resumed: bool = False
    _began_again: bool = False
    _granted_at: float = 0.0  # s of ``clock``

    def __post_init__(self) -> None:
        self.last_decision_at = self.began_at = self.clock.now()

    def granted(self, epoch: int, claim_s: float, *, begins: bool = False, committed_at: float = 0.0) -> None:
        """The job is claimed under ``epoch``: after a grant, or once more under it, for the next driver or after a higher token.

        A lead that ``begins`` the job's run, or goes on after a resume, takes nothing over from a leader. ``committed_at``: when the job
        has committed last, s since 1970, as its document has it; 0 for never.
        """
        self.epoch = epoch
        if self.leads:
            self._began_again = True
            return
        begins, self._resumed = begins or self._resumed, False
        self.leads, self._began_again = True, False
        self._granted_at, self.granted_at = self.clock.now(), time.time()
        self.committed_before = self.granted_at if begins or not committed_at else committed_at
        self.takeovers += not begins
        self.phases = {} if begins else {"claim": claim_s}

    def reached(self, phase: str, seconds: float) -> None:
        """A driver that leads has come to ``phase``, ``seconds`` after it was told to. Only what belongs to a takeover is kept."""
        if self.phases and phase not in self.phases:
            self.phases[phase] = self.clock.now() - self._granted_at if self._began_again else seconds

    def driver_starts(self) -> None:
        """A driver of this replica's is started: what counts from here on is how *it* does."""
        self.driver_since, self.driver_up = self.clock.now(), False
        self.without_driver = False

    def driver_is_up(self) -> None:
        self.driver_up = True

    def driver_gone(self, *, by_itself: bool = False) -> None:
        self.driver_since, self.driver_up = None, False
        self.rehearsed = self.settled = False
        self.how, self.held, self.queries, self.failed = "", "", 0, {}
        self.driver_ended = self.driver_ended or by_itself

    def lost(self) -> None:
        self.losses += self.leads
        self.leads = self.rehearsed = False
        self.stands_by_since = time.time()

    def suspends(self) -> None:
        self.without_driver = self._resumed = True

    def resumes(self) -> None:
        self.without_driver = False
        self.stands_by_since = time.time()

    def finished(self, said: str) -> None:
        self.ended, self.leads = said, False

    def stands(self, standing: RehearsalReport, rehearsed_at: float) -> None:
        self.rehearsed, self.how, self.rehearsed_at = standing.rehearsed, standing.how, rehearsed_at
        self.held, self.queries = standing.held, standing.queries
        self.settled = not standing.rehearsed and bool(standing.reason)
        self.driver_up, self.driver_since = True, self.clock.now() if self.driver_since is None else self.driver_since
        self.driver_ended = self.driver_ended and not (self.rehearsed or self.settled)

    @property
    def rehearsal_age(self) -> float | None:
        """Seconds since the last rehearsal that worked, or since this replica has stood by; ``None`` where none is due, or none has worked."""
        if not self.rehearsed_at or self.leads or self.without_driver or self.needs_no_leader:
            return None
        return max(0.0, time.time() - max(self.rehearsed_at, self.stands_by_since))

    @property
    def commit_age(self) -> float | None:
        """Seconds since the job's last commit; ``None`` where this replica does not lead."""
        return max(0.0, time.time() - max(self.fence.committed_at, self.committed_before)) if self.leads else None

    @property
    def needs_no_leader(self) -> bool:
        """Whether there is nothing to lead: the run has ended, or nothing was submitted yet."""
        return bool(self.ended or self.waits)

    @property
    def lacks(self) -> str:
        """Which queries a standby does not know, in words; empty where it knows them all."""
        return "" if self.leads else lacks_queries(self.queries, self.running, self.held)

    @property
    def live(self) -> bool:
        """The elector has had its turn lately: neither stuck nor dead. An ended job has none.

        The elector is asked, and no task in between: a leader must not be killed for what only its probes know.
        """
        last = max(self.last_decision_at, self.last_turn())
        return bool(self.ended) or self.clock.now() - last <= self.live_within

    @property
    def ready(self) -> tuple[bool, str]:
        """Ready to take over, or as ready as it is ever going to be; and in words.

        It is about the driver that runs now. A standby without a driver, or whose driver never comes up, does not
        become ready with time: a rollout must not replace a leader that works by code that does not start.
        """
        if said := self.ended or self.waits:
            return True, said
        if self.without_driver:
            return True, "idle: the job is SUSPENDED"
        if self.leads:
            return True, f"leads with epoch {self.epoch}"
        if self.rehearsed and not self.lacks:
            return True, f"rehearsed ({self.how})"
        if self.rehearsed and self.held:  # it declares no more before the grant, so it will not get readier by waiting
            return True, self.lacks
        if self.settled:
            return True, "will not be rehearsed: see status"
        if self.driver_ended:
            return False, "its driver has ended: see status"
        since = self.began_at if self.driver_since is None else self.driver_since
        late = self.clock.now() - since > FIRST_REHEARSAL_WITHIN
        if late and not self.driver_up:
            return False, f"its driver is not up after {FIRST_REHEARSAL_WITHIN:.0f} s"
        if late:
            return (
                True,
                self.lacks
                or f"no rehearsal within {FIRST_REHEARSAL_WITHIN:.0f} s, and it will not get readier by waiting",
            )
        return False, self.lacks or "the first rehearsal is not done yet"
