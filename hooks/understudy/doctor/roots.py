"""The roots of a job, checkpoints and sinks: whether each has this job's claim, and reaches the batch that is on record.

The fence asks the same when a leader claims a root and Spark lists its logs; here it is known before a takeover needs it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.blobs.model import BlobStore
from understudy.doctor.finding import Finding, Severity, note, of_error, ok, warning
from understudy.documents.model import Document
from understudy.errors import CheckpointLost, DocumentError, DocumentUnreadable, UnderstudyError
from understudy.fencing.claim import NO_FORMER_LOCKS, local_root_claim, standing_claim, why_refused
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.job import Job
from understudy.protocol.claim import DIRECTORY, FILE, Claim, decode
from understudy.protocol.messages import ClaimRefused
from understudy.supervisor.claims import claimed_by_another, refused_claim
from understudy.threads import Threads

CLAIMS = "claims"
CHECKPOINTS = "checkpoints"
FENCE = "fence"

#: Spark's logs below a checkpoint, each of which has to reach the batch on record.
LOGS = ("offsets", "commits")


@dataclass(frozen=True, slots=True)
class Root:
    """``claim``: what stands there; ``None`` for none. ``last``: the highest entry of each log, -1 for an empty or missing one. ``unseen``: why
    it was not looked at from here; ``error``: why that did not succeed; ``damaged``: its claim cannot be understood.
    """

    root: str
    claim: Claim | None = None
    last: dict[str, int] = field(default_factory=dict)
    unseen: str = ""
    error: UnderstudyError | None = None
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Reach:
    """How roots are reached from here. ``disks``: those on local disks are this machine's, or this pod's. ``bucket`` opens the place that a
    ``s3a://`` URL names; ``None`` where it was not told how. ``within``: seconds for a root.
    """

    disks: bool
    bucket: Callable[[str], BlobStore] | None
    within: float


async def look(root: str, *, logs: bool, reach: Reach) -> Root:
    """``logs``: it is a checkpoint on record, so its logs are listed, too. Nothing is written."""
    try:
        async with asyncio.timeout(reach.within):
            if root.startswith(("/", "file:")):
                return await _on_disk(root, reach, logs=logs)
            if root.startswith("s3a://"):
                return await _in_bucket(root, reach, logs=logs)
    except TimeoutError:
        what = f"no answer within {reach.within:g} s"
        return Root(root, error=DocumentError(what, where=root, remedy="Can it be reached from here?"))
    except UnderstudyError as error:
        return Root(root, error=error)
    return Root(root, unseen="understudy doctor reads local disks and s3a://")


async def _on_disk(root: str, reach: Reach, *, logs: bool) -> Root:
    if not reach.disks:
        return Root(root, unseen="it is on a disk of the replicas: run understudy doctor there")
    path = Path(root.removeprefix("file:"))

    def read() -> Root:
        last = {log: _highest(_listed(path / log)) for log in LOGS} if logs else {}
        try:
            return Root(root, local_root_claim(path), last)
        except DocumentUnreadable as error:
            return Root(root, None, last, error=error, damaged=True)

    try:
        return await Threads().call(read, reach.within)
    except TimeoutError:  # an OSError, too
        raise
    except OSError as error:
        raise DocumentError(str(error), where=root, remedy="Is the disk alive, and may this user read it?") from error


async def _in_bucket(root: str, reach: Reach, *, logs: bool) -> Root:
    if reach.bucket is None:
        return Root(
            root, unseen="how to reach the bucket was not told: give --conf spark.hadoop.fs.s3a.…, as the job has it"
        )
    store = reach.bucket(root)
    data = await store.read(f"{DIRECTORY}/{FILE}")
    last = (
        {log: _highest(name.rpartition("/")[2] for name in await store.names(f"{log}/")) for log in LOGS}
        if logs
        else {}
    )
    try:
        return Root(root, None if data is None else decode(data, where=f"{root}/{DIRECTORY}/{FILE}"), last)
    except DocumentUnreadable as error:
        return Root(root, None, last, error=error, damaged=True)


def _listed(directory: Path) -> list[str]:
    """Empty where there is none. Raises ``OSError`` for one that may not be read: ``glob`` takes it for an empty one."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _highest(names: Iterable[str]) -> int:
    return max((int(name) for name in names if name.isdigit()), default=-1)


# Findings


def findings(
    root: Root, before: Job, after: Job, cluster: str, lock: str, former: Mapping[str, int] = NO_FORMER_LOCKS
) -> list[Finding]:
    """``before`` and ``after``: the job as it was before and after ``root`` was looked at. A record grows before a claim does, so a claim above
    the later record was not made under this one. ``lock``: the kind of lock that grants tokens here; ``former``: those from which the job was moved.
    """
    found = _findings(root, before, after, cluster, lock, former)
    return [_of_an_unused_root(each) for each in found] if _unused(root.root, before) else found


def _findings(root: Root, before: Job, after: Job, cluster: str, lock: str, former: Mapping[str, int]) -> list[Finding]:
    if root.unseen:
        return [note(CLAIMS, f"{root.root}: not looked at: {root.unseen}")]
    if root.damaged:
        return [of_error(CLAIMS, claimed_by_another(root.root, "unreadable", str(root.error)))]
    if root.error is not None:
        return [of_error(CLAIMS, root.error, Severity.WARNING)]
    claim = root.claim
    if claim is None:
        return [_refused(root.root, "missing-claim")]
    ours = Claim(after.token, after.holder, cluster, after.job, lock)
    reason = why_refused(ours, claim, former)
    if reason in {"other-cluster", "other-job", "other-lock"}:
        owner = f"job {claim.job} of cluster {claim.cluster}, under lock {claim.lock}"
        return [of_error(CLAIMS, claimed_by_another(root.root, reason, owner))]
    found = [_compared(root.root, claim, before.claimed.tokens.get(root.root, 0), after)]
    checkpoint = next((each for each in before.checkpoints.known if each.root == root.root), None)
    return found if checkpoint is None else [*found, *_reaches(root, checkpoint)]


def _unused(root: str, job: Job) -> bool:
    """Whether the driver that has come up last does without it: its script may have given the root up."""
    held = next((roots for number, roots in job.claimed.by_token if number == int(job.token)), ())
    return job.serving == job.token and bool(held) and root not in held


def _of_an_unused_root(found: Finding) -> Finding:
    if found.severity is not Severity.PROBLEM:
        return found
    text = f"{found.text}; no query of the present driver uses it"
    return replace(found, severity=Severity.WARNING, text=text, exit_code=0)


def _compared(root: str, claim: Claim, recorded: int, job: Job) -> Finding:
    if int(claim.token) < recorded:
        return _refused(root, "behind-record", int(claim.token))
    if claim.token > job.token:
        text = f"{root}: claimed under token {claim.token}, above {job.token}, the job's: the job's document was restored from a copy"
        remedy = (
            "The next token goes above both. A request that was under way then may be in it: see docs/operations.md"
        )
        return warning(CLAIMS, text, remedy)
    return ok(CLAIMS, f"{root}: claimed by this job under token {claim.token}")


def _refused(root: str, reason: str, token: int = 0) -> Finding:
    error = refused_claim(ClaimRefused(root, reason, token))
    assert error is not None, "only a higher token is no error"
    return of_error(CLAIMS, error)


def _reaches(root: Root, checkpoint: Checkpoint) -> list[Finding]:
    name = f"query {checkpoint.query}" if checkpoint.query else "its query"
    if checkpoint.drained:
        return [note(CHECKPOINTS, f"{root.root}: {name} was drained, and nothing goes on from here")]
    short = {log: last for log, last in root.last.items() if last < checkpoint.batch}
    if short:
        ends = " and ".join(f"{log} end at {last}" if last >= 0 else f"{log} are empty" for log, last in short.items())
        what = f"{name} has committed batch {checkpoint.batch}, and {ends}: it was restored from a copy, or has lost entries"
        return [of_error(CHECKPOINTS, CheckpointLost.of(root.root, what))]
    return [ok(CHECKPOINTS, f"{root.root}: {name} is at batch {root.last['commits']}, on record is {checkpoint.batch}")]


def findings_of_floor(
    document: Document | None,
    error: UnderstudyError | None,
    ours: Claim,
    *,
    begun: bool,
    former: Mapping[str, int] = NO_FORMER_LOCKS,
) -> list[Finding]:
    """Of the claim that one machine keeps apart from the lock, ``floor/claim``: without it no replica can be granted an epoch.

    ``former`` as in ``findings``.
    """
    if error is not None:
        return [of_error(CLAIMS, error)]
    try:
        claim = None if document is None else standing_claim(document)
    except DocumentError as damage:
        return [of_error(CLAIMS, damage)]
    if claim is None:
        if not begun:
            return []
        text = "floor/claim: it is gone, so only the job's document and the roots know which epochs were granted"
        return [warning(CLAIMS, text, "The next grant writes it again. Keep the documents until then")]
    if (reason := why_refused(ours, claim, former)) in {"other-cluster", "other-job", "other-lock"}:
        owner = f"job {claim.job} of cluster {claim.cluster}, under lock {claim.lock}"
        return [of_error(CLAIMS, claimed_by_another("floor/claim", str(reason), owner))]
    return [ok(CLAIMS, f"floor/claim: the highest token is {claim.token}")]


def fence_in_force(job: Job) -> Finding:
    """Known by its claims alone: a driver asks its session whether the fence is in force before it claims a root, and tells only then."""
    roots = next((roots for number, roots in job.claimed.by_token if number == int(job.token) and job.token.epoch), ())
    known = [each for each in roots if each not in job.claimed.inherited]
    if known:
        text = f"in force in the driver of token {job.token}: it asked its session before it claimed {known[0]}"
        return ok(FENCE, text)
    text = f"whether it is in force is not known from here: the driver of token {job.token} has claimed no root that is on record"
    remedy = "A driver without it ends with exit code 3; the leader's metric understudy_refused_writes_total counts what it refused"
    return note(FENCE, text, remedy)
