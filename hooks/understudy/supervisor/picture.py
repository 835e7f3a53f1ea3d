"""A cluster as its documents show it: what ``understudy status`` prints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.election.records import Buried, Corrupt, Free, Held, Unwritten, sight_of
from understudy.errors import UnderstudyError
from understudy.ha.job import ENTRY, Job
from understudy.ha.replicas import Replica, ReplicaStore

_REQUEST = 5.0


@dataclass(frozen=True, slots=True)
class Picture:
    """``commit_age_s``: seconds since the newest commit in any local checkpoint of the job; ``None`` if there is none."""

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

    def lines(self, now: float) -> list[str]:
        age = "none yet" if self.commit_age_s is None else f"{self.commit_age_s:.1f} s ago"
        out = [
            f"cluster {self.cluster}   job {self.job}   {self.status}",
            f"leader  {self.leader or 'nobody'}   epoch {self.epoch}   attempt {self.attempt}   transitions {self.transitions}",
            f"commit  {age}   recent failures {self.failures}",
            "",
            f"{'REPLICA':<10}{'PID':<9}{'ROLE':<9}{'REHEARSED':<26}{'HELD AT':<24}NOTE",
        ]
        for each in sorted(self.replicas, key=lambda replica: (replica.role, replica.since)):
            when = f"{each.how}, {each.rounds} rounds, {now - each.rehearsed_at:.0f} s ago" if each.rehearsed else "no"
            if each.role == "leader":
                when = "leads"
            out.append(
                f"{each.holder[:8]:<10}{each.pid:<9}{each.role:<9}{when:<26}{each.held:<24}{each.reason}".rstrip()
            )
        return out + [f"problem: {problem}" for problem in self.problems]


async def read_picture(home: Path) -> Picture:
    cluster = home.name
    store = FilesystemDocumentStore(home / "documents", _REQUEST)
    problems: list[str] = []
    leader: str | None = None
    epoch, transitions = 0, 0
    try:
        lock = await store.read(f"{cluster}-lock")
        match sight_of(lock):
            case Held(_, epoch, leader, _):
                pass
            case Free(_, epoch, _):
                pass
            case Corrupt() as corrupt:
                problems.append(f"the lock cannot be read: {corrupt}")
            case Unwritten() | Buried():
                pass
        transitions = lock.leader.transitions if lock is not None and lock.leader is not None else 0
    except UnderstudyError as error:
        problems.append(str(error))
    replicas: list[Replica] = []
    job: Job | None = None
    try:
        replicas = await ReplicaStore(store, f"{cluster}-replicas").read()
        job = await _job(store, home)
    except UnderstudyError as error:
        problems.append(str(error))
    return Picture(
        cluster=cluster,
        job=job.job if job is not None else "unknown",
        status=job.status.value if job is not None else "NEW",
        leader=leader,
        epoch=epoch,
        attempt=job.token.attempt if job is not None else 0,
        transitions=transitions,
        commit_age_s=_newest_commit_age(job),
        failures=len(job.failures) if job is not None else 0,
        replicas=replicas,
        problems=problems,
    )


async def _job(store: FilesystemDocumentStore, home: Path) -> Job | None:
    reserved = {f"{home.name}-lock", f"{home.name}-replicas"}
    names = {path.name.partition("@")[0] for path in (home / "documents").glob(f"{home.name}-*@*")} - reserved
    for name in sorted(names):
        document = await store.read(name)
        if document is not None and ENTRY in document.entries:
            return Job.of(document)
    return None


def _newest_commit_age(job: Job | None) -> float | None:
    newest = [
        entry.stat().st_mtime
        for root in (job.roots if job is not None else ())
        if root.startswith(("/", "file:"))
        for entry in Path(root.removeprefix("file:")).glob("commits/*")
        if entry.name.isdigit()
    ]
    return time.time() - max(newest) if newest else None
