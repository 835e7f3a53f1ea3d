"""A cluster as its documents show it: what ``understudy status`` prints."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from understudy.documents.model import Document, DocumentStore
from understudy.election.records import Corrupt, Free, Held, lock_state_of
from understudy.errors import DocumentEmptied, DocumentUnreadable, UnderstudyError
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.components import ENDPOINT
from understudy.ha.job import ENTRY, RESTORE, Job
from understudy.ha.replicas import Replica, ReplicaStore, lacks_queries, running_queries
from understudy.ha.requests import Answer, Pause, Request, Result
from understudy.ha.submissions import Submission
from understudy.protocol.names import job_document_of, lock_of, replicas_of
from understudy.redaction import presentable
from understudy.supervisor.ended import in_utc

#: The status of a job that no replica has ever led.
_NOT_BEGUN = "NEW"
#: That of a job whose document could not be read.
_UNKNOWN = "UNKNOWN"
#: Seconds by which clocks of machines may differ without a word about it.
_CLOCKS_APART = 30.0


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """``commit_age_s``: seconds since the newest commit in any local checkpoint of the job, or since the last one that a leader
    has noted, once a minute; ``None`` if there is none. ``run`` is the id of the run under way or the last one, empty if none was given; ``run_began``
    and ``run_ended`` in seconds since 1970, ``None`` if not known. ``request``: the one under way. ``answer``: that to the last one.
    ``paused``: standbys do not take over. ``checkpoints``: of each query, the batch that the job's document says was committed; it
    is written once a minute, so the checkpoint may be ahead. ``endpoint``: where the leader serves probes and metrics, as host:port;
    empty where that is not known. ``submission``: what was submitted last, if anything was; ``submission_led``: the number of the one that has
    led last, 0 for a script that was not submitted. ``lease_s`` of the lock that is held, and ``renewed_age_s``: seconds since it was renewed, by the
    clock of its holder; ``None`` where that is not told.
    """

    cluster: str
    job: str
    status: str
    leader: str | None
    epoch: int
    attempt: int
    transitions: int
    commit_age_s: float | None
    failures: int
    replicas: list[Replica]
    problems: list[str]
    run: str = ""
    run_began: float | None = None
    run_ended: float | None = None
    reason: str = ""
    leader_name: str | None = None
    request: Request | None = None
    answer: Answer | None = None
    paused: Pause | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    endpoint: str = ""
    submission: Submission | None = None
    submission_led: int = 0
    lease_s: float | None = None
    renewed_age_s: float | None = None

    @property
    def begun(self) -> bool:
        return self.status != _NOT_BEGUN

    def summary(self) -> str:
        """In one line, for a list of several; one more for each problem."""
        leads = f"{self.leader_name} leads with epoch {self.epoch}" if self.leader else "no replica leads"
        line = f"{self.cluster:<24}{self.job:<24}{self.status:<10}{leads}"
        return "\n".join([line, *(f"problem: {problem}" for problem in self.problems)])

    def lines(self, now: float) -> list[str]:
        width = max((len(each.name) for each in self.replicas), default=8) + 2
        age = "none yet" if self.commit_age_s is None else f"{self.commit_age_s:.1f} s ago"
        out = [
            f"cluster {self.cluster}   job {self.job}   {self.status}{self._run()}",
            *([f"reason  {self.reason}"] if self.reason else []),
            f"leader  {self.leader_name or 'none'}{self._address()}   epoch {self.epoch}   attempt {self.attempt}   transitions {self.transitions}",
            *self._unrenewed(),
            f"commit  {age}   recent failures {self.failures}",
            *self._submission(now),
            *self._request(now),
            "",
            f"{'REPLICA':<{width}}{'PID':<9}{'ROLE':<9}{'REHEARSED':<34}{'HELD AT':<24}NOTE",
        ]
        running = running_queries(self.replicas)
        for each in sorted(self.replicas, key=lambda replica: (replica.role, replica.since)):
            when = f"{each.how}, {each.rounds} rounds, {now - each.rehearsed_at:.0f} s ago" if each.rehearsed else "no"
            note = each.reason
            if each.role == "leader":
                when = f"leads, {each.queries} queries" if each.queries else "leads"
            elif each.rehearsed and (lacks := lacks_queries(each.queries, running, each.held)):
                note = f"{lacks}; {note}" if note else lacks
            out.append(f"{each.name:<{width}}{each.pid:<9}{each.role:<9}{when:<34}{each.held:<24}{note}".rstrip())
        return [*out, *self._checkpoints(now), *(f"problem: {problem}" for problem in self.problems)]

    def _unrenewed(self) -> list[str]:
        """A record stays when its holder dies, and clocks may differ by more than a lease: so this is a hint, and no change of what is shown."""
        if not self.lease_s or self.renewed_age_s is None or self.renewed_age_s < self.lease_s + _CLOCKS_APART:
            return []
        why = "it is dead or cut off, unless clocks differ; understudy doctor watches the lock"
        return [
            f"        not renewed for {self.renewed_age_s:.0f} s by its own clock, with a lease of {self.lease_s:g} s: {why}"
        ]

    def _checkpoints(self, now: float) -> list[str]:
        if not self.checkpoints:
            return []
        width = max(5, *(len(each.query) for each in self.checkpoints)) + 2
        out = ["", f"{'QUERY':<{width}}{'SINK':<14}{'BATCH':<10}{'NOTED':<14}CHECKPOINT"]
        for each in self.checkpoints:
            drained = "  drained" if each.drained else ""
            noted = f"{now - each.at:.0f} s ago"
            out.append(f"{each.query:<{width}}{each.sink:<14}{each.batch:<10}{noted:<14}{each.root}{drained}")
        return out

    def _request(self, now: float) -> list[str]:
        """A pause; what the job is asked to do, or what came of the last request, if it was not done."""
        return [*self._pause(now), *self._last_request(now)]

    def _pause(self, now: float) -> list[str]:
        if self.paused is None:
            return []
        by = f" by {self.paused.by} {now - self.paused.at:.0f} s ago" if self.paused.by else ""
        return [f"PAUSED{by}: no standby takes over; understudy unpause ends that"]

    def _last_request(self, now: float) -> list[str]:
        if (asked := self.request) is not None:
            by = f" by {asked.by}" if asked.by else ""
            return [f"request {asked.action} is under way, asked for{by} {now - asked.at:.0f} s ago ({asked.id})"]
        if self.answer is not None and self.answer.result != Result.DONE:
            return [f"request {self.answer.request} {self.answer.result}: {self.answer.text}"]
        return []

    def _submission(self, now: float) -> list[str]:
        if (one := self.submission) is None:
            return []
        by = f" by {one.by}" if one.by else ""
        leads = "" if self.submission_led in {0, one.number} else f"; submission {self.submission_led} leads"
        return [f"submitted {one.script} (submission {one.number}){by} {now - one.at:.0f} s ago{leads}"]

    def _run(self) -> str:
        if self.run_ended is not None:
            when = f"ended {in_utc(self.run_ended)}"
        else:
            when = "" if self.run_began is None else f"began {in_utc(self.run_began)}"
        return "".join(f"   {each}" for each in (f"run {self.run}" if self.run else "", when) if each)

    def _address(self) -> str:
        """Where the leader's probes are reached."""
        return f" at {self.endpoint}" if self.endpoint else ""


def renewed_at(document: Document | None) -> float | None:
    """When the lock was renewed as its holder's clock told it, in seconds since 1970; ``None`` where that is not told. For people."""
    try:
        told = datetime.fromisoformat("" if document is None or document.leader is None else document.leader.renewed)
    except ValueError:
        return None
    return told.timestamp() if told.tzinfo else None


@dataclass(frozen=True, slots=True)
class _Lock:
    """As it stands. ``written``: there is one; ``lease`` in seconds and ``renewed`` in seconds since 1970, of one that is held."""

    written: bool = False
    leader: str | None = None
    epoch: int = 0
    transitions: int = 0
    lease: float | None = None
    renewed: float | None = None


async def _read_lock(lock: DocumentStore, name: str, met: list[UnderstudyError]) -> _Lock:
    """What cannot be read is added to ``met``."""
    try:
        record = await lock.read(name)
    except UnderstudyError as error:
        met.append(error)
        return _Lock()
    written = record is not None
    transitions = record.leader.transitions if record is not None and record.leader is not None else 0
    match lock_state_of(record):
        case Held(_, epoch, leader, lease):
            return _Lock(written, leader, epoch, transitions, lease, renewed_at(record))
        case Free(_, epoch, _):
            return _Lock(written, None, epoch, transitions)
        case Corrupt() as corrupt:
            met.append(DocumentUnreadable(f"the lock cannot be read: {corrupt.cause}", where=name))
    return _Lock(written, transitions=transitions)


async def read_cluster_status(
    documents: DocumentStore, lock: DocumentStore, cluster: str, failures: list[UnderstudyError] | None = None
) -> ClusterStatus:
    """Never raises for what cannot be read: that is a problem in the picture, and the rest is shown. ``failures`` gets them too."""
    met: list[UnderstudyError] = [] if failures is None else failures
    held = await _read_lock(lock, lock_of(cluster), met)
    leader = held.leader
    replicas: list[Replica] = []
    job: Job | None = None
    bound: str | None = None
    status = _UNKNOWN
    try:
        store = ReplicaStore(documents, replicas_of(cluster))
        replicas, bound = await store.read(), await store.job()
        job = await _job(documents, cluster, bound)
        if job is None and await store.begun():
            raise DocumentEmptied(
                "the job's record is gone, and replicas have led it before", where=cluster, remedy=RESTORE
            )
        status = _NOT_BEGUN if job is None or job.never_led else job.status.value
    except UnderstudyError as error:
        met.append(error)
    return ClusterStatus(
        cluster=cluster,
        job=job.job if job is not None else bound or "unknown",
        status=status,
        leader=leader,
        epoch=held.epoch,
        attempt=job.token.attempt if job is not None else 0,
        transitions=held.transitions,
        commit_age_s=_newest_commit_age(job),
        failures=len(job.failures) if job is not None else 0,
        replicas=[_as_the_lock_says(each, leader) for each in replicas] if held.written else replicas,
        problems=[*dict.fromkeys(presentable(str(error)) for error in met)],
        reason=_reason(job),
        leader_name=leader and _named(leader, replicas),
        run=job.runs.run if job is not None else "",
        run_began=(job.runs.began or None) if job is not None else None,
        run_ended=(job.runs.ended or None) if job is not None else None,
        request=job.requests.under_way if job is not None else None,
        answer=job.requests.answer if job is not None else None,
        paused=job.requests.paused if job is not None else None,
        checkpoints=job.checkpoints.known if job is not None else (),
        endpoint=_endpoint(job, leader, replicas),
        submission=job.submissions.current if job is not None else None,
        submission_led=job.generation.submission if job is not None else 0,
        lease_s=held.lease,
        renewed_age_s=None if held.renewed is None else time.time() - held.renewed,
    )


def _endpoint(job: Job | None, leader: str | None, replicas: list[Replica]) -> str:
    """As the leader has confirmed it; one of an older image says it with the other replicas. Not of one that leads no more."""
    found = None if job is None else job.leader_of(ENDPOINT)
    if found is not None and found.holder == leader:
        return found.address
    return next((each.address for each in replicas if each.holder == leader and each.role == "leader"), "")


def _reason(job: Job | None) -> str:
    """Why a job has ended; of one that runs, what its last failure was, while that counts."""
    if job is None or not (job.status.terminal or job.failures):
        return ""
    return presentable(job.reason)


def _named(holder: str, replicas: list[Replica]) -> str:
    """A pod's name, or the beginning of an id; one that says nothing of itself is called by its whole id."""
    return next((each.name for each in replicas if each.holder == holder), holder)


def _as_the_lock_says(replica: Replica, leader: str | None) -> Replica:
    """A leader that was cut off or is frozen still believes, and has told others, that it leads."""
    return replace(replica, role="deposed") if replica.role == "leader" and replica.holder != leader else replica


async def _job(documents: DocumentStore, cluster: str, job: str | None) -> Job | None:
    document = None if job is None else await documents.read(job_document_of(cluster, job))
    return Job.of(document) if document is not None and ENTRY in document.entries else None


def _newest_commit_age(job: Job | None) -> float | None:
    newest = []
    for root in job.roots if job is not None else ():
        if root.startswith(("/", "file:")):
            newest += _committed_at(Path(root.removeprefix("file:")))
    if job is not None and job.committed_at:
        newest.append(job.committed_at)  # of queries in buckets, and of checkpoints that are no disk's of this machine
    return time.time() - max(newest) if newest else None


def _committed_at(root: Path) -> list[float]:
    """When each of its batches was committed. Spark removes old entries meanwhile, and new ones come under a temporary name."""
    found = []
    with suppress(OSError):
        for entry in root.glob("commits/*"):
            with suppress(OSError):
                if entry.name.isdigit():
                    found.append(entry.stat().st_mtime)
    return found
