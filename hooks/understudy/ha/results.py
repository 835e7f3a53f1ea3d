"""Results of runs in HA storage: Flink's ``JobResultStore`` (FLIP-194). A run that has a result has ended for good.

The job's document says first that a run has ended; what stands here is made of that, so every replica makes the same. It is written twice:
as *dirty* (``result_DIRTY.json``) before anything that the run leaves is removed, and as clean (``result.json``) afterwards. Both are created
and never renamed or replaced, and a clean result beside a dirty one wins. So each step may be taken twice, and by several replicas at once.

Results outlive the documents. Where those are lost, a run that FINISHED stays so, and tokens go on above its own. A run that has FAILED has
none: it may be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass

from understudy.blobs.model import BlobStore
from understudy.errors import DocumentUnreadable
from understudy.ha.at_once import for_each
from understudy.ha.job import Job, Status
from understudy.ha.runs import REMEMBERED, PastRun, Runs
from understudy.protocol import typed
from understudy.protocol.names import Names
from understudy.protocol.strict_json import parse
from understudy.protocol.token import Token

_VERSION = 1
_KIND = "understudy/job-result"
_DIRTY, _CLEAN = "result_DIRTY.json", "result.json"
#: Below the HA storage.
ROOT = "job-results"


@dataclass(frozen=True, slots=True)
class JobResult:
    """``run`` is empty where the run had no id. ``token`` is the one it ended under, and ``first`` the one it began under, as integers.
    Times in seconds since 1970, 0 where they are not known.
    """

    cluster: str
    job: str
    run: str
    status: str
    reason: str
    token: int
    first: int
    began: float
    ended: float

    def encode(self) -> bytes:
        """JSON for people and schedulers, the same for the same result."""
        body = {"kind": _KIND, "version": _VERSION, **asdict(self)}
        return f"{json.dumps(body, indent=2, sort_keys=True)}\n".encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> JobResult:
        """Fields of a newer release are left out. Raises ``DocumentUnreadable``, also for a newer version."""
        try:
            version, body = _versioned(data)
            found = typed.build_known(cls, body) if version == _VERSION else None
        except ValueError as error:
            raise DocumentUnreadable(
                f"the result cannot be read: {error}",
                where=where,
                remedy="Restore the object; it is not taken for absent",
            ) from None
        if found is None:
            raise DocumentUnreadable(
                f"the result has version {version}, newer than {_VERSION}, the newest known here",
                where=where,
                remedy="Upgrade this replica",
            )
        return found


def _versioned(data: bytes) -> tuple[int, Mapping[str, object]]:
    """Raises ``ValueError``."""
    body = parse(data.decode("utf-8"))
    if not isinstance(body, dict) or body.get("kind") != _KIND:
        raise ValueError("it is none of ours")
    version = body.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"its version is {version!r}")
    return version, body


def result_of(job: Job, cluster: str) -> JobResult | None:
    """What ``job`` has come to; ``None`` for one that may still run."""
    if job.status not in {Status.FINISHED, Status.CANCELED}:
        return None
    runs = job.runs
    return JobResult(
        cluster, job.job, runs.run, job.status.value, job.reason, int(job.token), runs.first, runs.began, runs.ended
    )


def as_job(results: Collection[JobResult]) -> Job:
    """The job as its document said it, where that is lost: no run that has a result runs again, and tokens go on above all of theirs.

    ``results``: all there are, at least one.
    """
    *earlier, result = sorted(results, key=lambda each: each.token)
    token = Token.from_int(result.token)
    past = tuple(PastRun(each.run, each.status, each.ended) for each in earlier)
    runs = Runs(result.run, result.began, result.first, result.ended, past[-REMEMBERED:])
    return Job(
        result.job,
        "",
        Status(result.status),
        token,
        token,
        "",
        committed_at=result.ended,
        reason=result.reason,
        runs=runs,
    )


def results_of_job(names: Names) -> str:
    """Where all results of a job are, as a prefix."""
    return f"{ROOT}/{names.cluster}/{names.job}/"


class JobResultStore:
    """The results of one job."""

    def __init__(self, blobs: BlobStore, cluster: str, job: str, *, delete_on_commit: bool = False) -> None:
        """``delete_on_commit``: no clean result is kept. Then nothing but the job's document knows that a run has ended."""
        self.blobs, self.delete_on_commit = blobs, delete_on_commit
        self._below = results_of_job(Names(cluster, job))
        self.place = f"{blobs.place}/{self._below}".rstrip("/")

    async def read(self, run: str, first: int = 0) -> JobResult | None:
        """The result of ``run``, clean or dirty; a run without an id is known by the token it began under."""
        clean = await self._at(self._path(run, first, _CLEAN))
        return clean or await self._at(self._path(run, first, _DIRTY))

    async def all(self) -> list[JobResult]:
        """The results of all runs, by their tokens: the clean one of a run, where there is one."""
        names = await self.names()
        beside = {*self.dirty_beside_clean(names)}
        paths = [each for each in names if each.rpartition("/")[2] in {_CLEAN, _DIRTY} and each not in beside]
        found = [result for result in await for_each(self._at, paths) if result is not None]
        return sorted(found, key=lambda result: result.token)

    async def names(self) -> list[str]:
        """Of everything there is."""
        return await self.blobs.names(self._below)

    @staticmethod
    def dirty_beside_clean(names: Collection[str]) -> list[str]:
        """Those of ``names`` that a commit was to delete which broke off."""
        runs = {name.removesuffix(f"/{_CLEAN}") for name in names if name.endswith(f"/{_CLEAN}")}
        return sorted(each for run in runs if (each := f"{run}/{_DIRTY}") in names)

    def below(self, result: JobResult) -> str:
        """Everything of the run, as a prefix."""
        return self._path(result.run, result.first, "")

    async def begin(self, result: JobResult) -> JobResult:
        """Note that the run has ended, before anything it leaves is removed. The result that stands there: the first one wins."""
        if (clean := await self._at(self._path(result.run, result.first, _CLEAN))) is not None:
            return clean
        path = self._path(result.run, result.first, _DIRTY)
        return JobResult.decode(await self.blobs.create(path, result.encode()), self._where(path))

    async def commit(self, result: JobResult) -> None:
        """Note that nothing of the run is left to remove. A clean result that stands there already stays."""
        if not self.delete_on_commit:
            await self.blobs.create(self._path(result.run, result.first, _CLEAN), result.encode())
        await self.blobs.delete(self._path(result.run, result.first, _DIRTY))

    async def _at(self, path: str) -> JobResult | None:
        data = await self.blobs.read(path)
        return None if data is None else JobResult.decode(data, self._where(path))

    def _where(self, path: str) -> str:
        return f"{self.blobs.place}/{path}"

    def _path(self, run: str, first: int, name: str) -> str:
        """No run's id begins with the underscore."""
        return f"{self._below}{run or f'_{first}'}/{name}"
