"""Claiming a job for one start of a driver: the job's document first, then the claim in HA storage.

The order is the protocol's: lock, job document, and the roots last, by the driver. Nothing read before its claim is used.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from understudy.documents.model import DocumentStore
from understudy.documents.nonce import unique
from understudy.errors import (
    CheckpointLost,
    DocumentError,
    IdentityConflict,
    JobFailed,
    JobPaused,
    JobSuspended,
    LeadershipLost,
    UnderstudyError,
)
from understudy.fencing.claim import Refused, claim, local_root_claim, min_epoch
from understudy.ha.generation import Generation
from understudy.ha.job import Job, Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.runs import Begins
from understudy.protocol.claim import Claim
from understudy.protocol.messages import ClaimRefused
from understudy.protocol.token import Token
from understudy.supervisor.election import JobComponents
from understudy.supervisor.results import Results
from understudy.supervisor.settings import RunSettings
from understudy.threads import Threads

_CLAIM = "claim"
#: How often the lock is raised above a higher token that was met; more than once or twice means two leaders that both are.
_RAISES = 3


def refused_claim(refused: ClaimRefused) -> UnderstudyError | None:
    """What a refused claim of a root ends this replica with; ``None`` for a higher token, above which ours may be raised."""
    root = refused.root
    match refused.reason:
        case "higher-token":
            return None
        case "missing-claim":
            what = "this job has claimed it before, and now it has no claim: it is gone, was emptied, or was copied without its claim"
            return CheckpointLost.of(root, what)
        case "behind-record":
            token = Token.from_int(refused.token)
            what = f"its claim, {token}, is older than one this job has had there: it was restored from a copy"
            return CheckpointLost.of(root, what)
        case reason:
            return claimed_by_another(root, reason, refused.owner)


class Lock(Protocol):
    async def raise_above(self, epoch: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class JobClaims:
    """``unread`` is told, once each, of a root whose claim cannot be read. ``results``: where there is HA storage."""

    settings: RunSettings
    holder: str
    jobs: JobStore
    replicas: ReplicaStore
    claims: DocumentStore
    unread: Callable[[str], None] = lambda _: None
    wall: Callable[[], float] = time.time
    unique: Callable[[], str] = unique
    results: Results | None = None
    components: JobComponents = field(default_factory=JobComponents)
    _unread: set[str] = field(default_factory=set)
    _threads: dict[Path, Threads] = field(default_factory=dict)

    async def begin_attempt(
        self, epoch: int, generation: Generation, lock: Lock, above: Token, *, came_up: bool = True
    ) -> Job | None:
        """The job under a new token of ``epoch`` or above, and above ``above``; ``None`` when the lock is lost on the way.

        A job whose run has ended, or that is SUSPENDED, is returned as it is. Raises ``IdentityConflict`` when HA storage belongs to someone else, and
        ``Superseded`` when a newer generation has led.
        """
        run = self.settings.run_id
        if self.results is not None:
            await self.results.before_another_run()
        for _ in range(_RAISES):
            try:
                job = await self.jobs.begin_attempt(
                    epoch,
                    self.holder,
                    self._known_without_job,
                    generation,
                    above,
                    came_up=came_up,
                    run=run,
                    now=self.wall(),
                    also=self.components.taken_along,
                )
            except LeadershipLost:
                current = await self.jobs.read()
                met = current.token if current is not None else Token(epoch, 0)
            else:
                if isinstance(job.part_of(run), Begins):
                    # The run before it was to be canceled, and has ended with this write.
                    if self.results is not None:
                        await self.results.before_another_run()
                    continue
                if job.not_led_for(run) or (found := await self._claim_storage(job.token)) is None:
                    return job
                met = found
            raised = await lock.raise_above(met.epoch)
            if raised is None:
                return None
            epoch = raised
        return None

    async def _known_without_job(self) -> int:
        """An epoch that was granted before, as others than the job's document tell it.

        In a cluster HA storage is this pod's own, and says nothing of those that led before it; the replicas' document does.
        """
        known = await min_epoch(self.claims, _CLAIM)
        return known or int(await self.replicas.begun())

    async def _claim_storage(self, token: Token) -> Token | None:
        """Write ``token`` into HA storage; the higher token that stands there, if one does."""
        settings = self.settings
        ours = Claim(token, self.holder, settings.cluster, settings.job, settings.lock_kind)
        answer = await claim(self.claims, _CLAIM, ours, self.unique, self.replicas.former_locks)
        if not isinstance(answer, Refused):
            return None
        if answer.reason != "higher-token" or answer.current is None:
            raise IdentityConflict(
                f"HA storage is claimed: {answer}", where=str(settings.home), remedy="Use another --cluster-id"
            )
        return answer.current.token

    async def highest_epoch(self, generation: Generation) -> int:
        """What a new epoch must be above: the job's document, the claim in HA storage, and the claims in local roots.

        A root that cannot be read is left out: it may be one that was given up long ago, and then it would stop every election.
        The others and the document say enough, and a leader that claims that root meets the claim in it.

        Raises if this replica must not contend: ``JobFailed`` when the job has ended, ``JobSuspended``, ``JobPaused``,
        ``Superseded`` when a newer generation has led, ``DocumentUnreadable`` when the job's status is unknown here.
        """
        job = await self.jobs.read()
        # guard: ended-job-is-not-contended-for
        if job is not None and job.over_for(self.settings.run_id):
            raise JobFailed("the job has ended and has no leader", where=self.jobs.name)
        # guard: suspended-job-is-not-contended-for
        if job is not None and job.status is Status.SUSPENDED:
            raise JobSuspended("the job is SUSPENDED", where=self.jobs.name)
        # guard: paused-job-is-not-taken-over
        if job is not None and job.requests.keeps_from_leading(self.holder, job.holder):
            raise JobPaused("the job is paused: understudy unpause lets standbys take over again", where=self.jobs.name)
        if job is not None:
            generation.check(job.understood(self.jobs.name).generation)
        roots = (
            []
            if job is None
            else [Path(root.removeprefix("file:")) for root in job.roots if root.startswith(("/", "file:"))]
        )
        found = await asyncio.gather(min_epoch(self.claims, _CLAIM), *map(self._epoch_in, roots))
        return max(*found, 0 if job is None else job.token.epoch, self.replicas.epoch_before)

    async def _epoch_in(self, root: Path) -> int:
        """The epoch of the claim in ``root``; 0 where there is none, or where it cannot be read."""
        threads = self._threads.setdefault(root, Threads())
        within = self.settings.timings.request / 2
        if threads.running:
            return self._left_out(root, "an earlier look at it hangs")
        try:
            standing = await threads.call(lambda: local_root_claim(root), within)
        except (DocumentError, TimeoutError) as error:
            return self._left_out(root, str(error) or f"not read within {within:g} s")
        self._unread.discard(str(root))
        return 0 if standing is None else standing.token.epoch

    def _left_out(self, root: Path, why: str) -> int:
        if str(root) not in self._unread:
            self._unread.add(str(root))
            self.unread(f"{root}: {why}")
        return 0


_RULE = (
    "A checkpoint and a streaming file sink belong to one job; only jobs that append in batches may share a directory"
)

#: Who has claimed a directory before us, by the reason that its claim refuses ours with; and what can be done.
_CLAIMED: Mapping[str, tuple[str, str]] = {
    "other-cluster": (
        "claimed by another cluster id",
        f"Use another checkpoint location or cluster id. {_RULE}",
    ),
    "other-job": (
        "claimed by another job of this cluster id",
        f"Use another checkpoint location, or the same --job-id. {_RULE}",
    ),
    "other-lock": (
        "claimed under another kind of lock, which does not exclude ours",
        "Use the same --ha and --lock as before; or move the job with understudy claims move, while nothing runs",
    ),
    "other-holder": ("claimed by another replica under our token", "Use another --cluster-id for one of the two"),
    "unreadable": ("claimed, and the claim cannot be read", "It is not taken for free: restore it, or look at it"),
}


def claimed_by_another(root: str, reason: str, owner: str = "") -> IdentityConflict:
    """The error for a directory whose claim ours cannot pass under any token. ``owner`` in words, if it is known."""
    what, remedy = _CLAIMED.get(reason, ("already claimed", "Use another checkpoint location or cluster id"))
    whose = f": {owner}" if owner else ""
    return IdentityConflict(f"{what}{whose} ({reason})", where=root, remedy=remedy)
