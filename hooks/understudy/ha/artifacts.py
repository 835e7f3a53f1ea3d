"""What a job consists of, in HA storage: blobs ``artifacts/<cluster>/<job>/<number>/<SHA-256>``, which the job's document points to.

They are stored before the pointer is written, in one compare-and-set, so a submission that breaks off is never run. A file is read as a
whole and compared with its digest, each time. Flink's way to remove such a thing is mark, discard, forget: here the number is taken back
(``submissions``), then files are discarded, and there is nothing left to forget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Self

from understudy.blobs.digest import is_whole, sha256
from understudy.blobs.model import BlobStore
from understudy.errors import DocumentUnreadable, RequestRefused
from understudy.ha.job import RESTORE, Job
from understudy.ha.submissions import Submission, Submissions
from understudy.protocol import kinded
from understudy.protocol.names import Names

_ROOT = "artifacts"
_KIND, _VERSION = "understudy/submission", 1
_DIGEST = re.compile("[0-9a-f]{64}")
_AGAIN = "Submit it again"


@dataclass(frozen=True, slots=True)
class File:
    """``name``: what the driver finds it under. ``length`` in bytes."""

    name: str
    sha256: str
    length: int

    def is_(self, data: bytes | None) -> bool:
        return is_whole(data, self.sha256, self.length)


@dataclass(frozen=True, slots=True)
class Attached:
    """One of the things that ``option`` of spark-submit lists: a file, or what ``url`` names. ``alias``: what it is to be called (``env.tgz#env``)."""

    option: str
    url: str = ""
    name: str = ""
    sha256: str = ""
    length: int = 0
    alias: str = ""

    @property
    def file(self) -> File | None:
        return File(self.name, self.sha256, self.length) if self.sha256 else None


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that was submitted. ``submit``: options of spark-submit, without those that list files."""

    cluster: str
    job: str
    script: File
    arguments: list[str]
    submit: list[str]
    attached: list[Attached]

    @property
    def files(self) -> list[File]:
        return [self.script, *(each.file for each in self.attached if each.file is not None)]

    def encode(self) -> bytes:
        """JSON for people and programs, the same for the same content."""
        return kinded.encode(_KIND, _VERSION, self)

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Raises ``DocumentUnreadable``, also for a newer version, and for names that would leave the directory they are fetched to."""
        try:
            found = kinded.decode(_KIND, _VERSION, data, cls)
            for each in found.files:
                check_file(each)
        except ValueError as error:
            raise DocumentUnreadable(
                f"what was submitted cannot be read: {error}", where=where, remedy=f"Upgrade this replica. {_AGAIN}"
            ) from None
        return found


def check_file(file: File) -> None:
    """Raises ``ValueError`` for what is no file of one directory, on any machine."""
    file.name.encode()  # which a name that is no UTF-8 does not survive
    if not file.name or file.name in {".", ".."} or "/" in file.name or "\0" in file.name:
        raise ValueError(f"{file.name!r} is no name of a file")
    if not _DIGEST.fullmatch(file.sha256):
        raise ValueError(f"{file.sha256!r} is no SHA-256")


def artifacts_of_job(names: Names) -> str:
    """Where all artifacts of a job are, as a prefix."""
    return f"{_ROOT}/{names.cluster}/{names.job}/"


@dataclass(frozen=True, slots=True)
class ArtifactStore:
    """The artifacts of one job. Every method raises ``DocumentError``."""

    blobs: BlobStore
    names: Names

    @property
    def below(self) -> str:
        return artifacts_of_job(self.names)

    async def keep(self, number: int, data: bytes) -> None:
        """Store ``data``, which may be there already. Raises ``DocumentUnreadable`` where other bytes stand under its digest."""
        name = self.name(number, sha256(data))
        if await self.blobs.create(name, data) != data:
            raise DocumentUnreadable("other bytes stand under this digest", where=self._where(name), remedy=_TAMPERED)

    async def fetch(self, number: int, file: File) -> bytes:
        """Raises ``DocumentUnreadable`` where it is gone, or is not what was submitted."""
        name = self.name(number, file.sha256)
        data = await self.blobs.read(name)
        if data is None:
            raise DocumentUnreadable(
                f"{file.name} of submission {number} is gone", where=self._where(name), remedy=_AGAIN
            )
        if not file.is_(data):
            what = f"{file.name} of submission {number} is not what was submitted: its SHA-256 is {sha256(data)}"
            raise DocumentUnreadable(what, where=self._where(name), remedy=_TAMPERED)
        return data

    async def manifest(self, one: Submission) -> Manifest:
        """Raises ``DocumentUnreadable`` where it is gone, is not what was submitted, or is another job's."""
        return self._manifest(one, await self._manifest_bytes(one))

    async def whole(self, one: Submission) -> dict[str, bytes]:
        """All that it consists of, by name. Raises ``DocumentUnreadable`` where something is gone, or is not what was submitted."""
        stored = await self._manifest_bytes(one)
        found = {self.name(one.number, one.manifest): stored}
        for each in self._manifest(one, stored).files:
            found[self.name(one.number, each.sha256)] = await self.fetch(one.number, each)
        return found

    async def is_whole(self, one: Submission) -> bool:
        """Whether every file of it is there, as it was submitted."""
        try:
            await self.whole(one)
        except DocumentUnreadable:
            return False
        return True

    async def _manifest_bytes(self, one: Submission) -> bytes:
        name = self.name(one.number, one.manifest)
        data = await self.blobs.read(name)
        if data is None:
            what = f"submission {one.number} has no manifest: it was removed, or lost"
            raise DocumentUnreadable(what, where=self._where(name), remedy=_AGAIN)
        if sha256(data) != one.manifest:
            what = f"the manifest of submission {one.number} is not what was submitted"
            raise DocumentUnreadable(what, where=self._where(name), remedy=_TAMPERED)
        return data

    def _manifest(self, one: Submission, data: bytes) -> Manifest:
        where = self._where(self.name(one.number, one.manifest))
        found = Manifest.decode(data, where)
        if (found.cluster, found.job) != (self.names.cluster, self.names.job):
            whose = f"the manifest is of job {found.job} of cluster {found.cluster}"
            raise DocumentUnreadable(whose, where=where, remedy=_AGAIN)
        return found

    async def there(self) -> list[str]:
        """The names of everything that is there."""
        return await self.blobs.names(self.below)

    async def needed(self, known: Submissions) -> list[str] | None:
        """The names of what the current submission consists of; ``None`` where its manifest does not tell."""
        if (one := known.current) is None:
            return []
        try:
            manifest = await self.manifest(one)
        except DocumentUnreadable:
            return None
        digests = {one.manifest, *(each.sha256 for each in manifest.files)}
        return sorted(self.name(one.number, each) for each in digests)

    def name(self, number: int, digest: str) -> str:
        """Of the blob with that SHA-256."""
        return f"{self.below}{number}/{digest}"

    def _where(self, name: str) -> str:
        return f"{self.blobs.place}/{name}"


_TAMPERED = "Find out who writes there. Nothing of it is run; remove the object, and submit it again"


def unreferenced(
    there: Collection[str], needed: Collection[str] | None, known: Submissions, names: Names
) -> tuple[str, ...]:
    """What may go of ``there``, in order; a name that ends with a slash means everything below it. ``needed``: as ``ArtifactStore`` tells, asked
    before ``there`` was listed. What has a number above the last one may be under way, and stays.
    """
    current = 0 if known.current is None else known.current.number
    found = dict.fromkeys(
        name if number == current else f"{artifacts_of_job(names)}{number}/"
        for name in there
        if 0 < (number := number_of(name, names)) <= known.last
        and (number != current or (needed is not None and name not in needed))
    )
    return tuple(found) if known.readable else ()


def beyond(there: Iterable[str], known: Submissions, names: Names) -> int:
    """The highest number in ``there`` that was never given: of a submission that failed, or is under way; 0 for none."""
    highest = max((number_of(each, names) for each in there), default=0)
    return highest if known.readable and highest > known.last else 0


def number_of(name: str, names: Names) -> int:
    """Of which submission ``name`` is; 0 for what is none of this job's."""
    below = artifacts_of_job(names)
    number = name.removeprefix(below).partition("/")[0]
    return int(number) if name.startswith(below) and number.isdecimal() else 0


def readable(job: Job | None, where: str) -> Submissions:
    """What was submitted for ``job``. Raises ``DocumentUnreadable`` where the entry is damaged."""
    known = Submissions() if job is None else job.submissions
    if not known.readable:
        raise DocumentUnreadable("entry submitted cannot be read", where=where, remedy=RESTORE)
    return known


def give(one: Submission) -> Callable[[Job], Job]:
    """The change of a job by which ``one`` is what runs. It raises ``RequestRefused`` where its number has been used meanwhile."""

    def given(job: Job) -> Job:
        known = job.submissions
        if known.current == one:  # the answer to an earlier try was lost
            return job
        if not known.readable or known.last >= one.number:
            raise RequestRefused(
                f"number {one.number} was used meanwhile, by another submission or by understudy gc",
                where="submit",
                remedy=f"The job is as it was. {_AGAIN}",
            )
        return replace(job, submissions=known.given(one))

    return given


def take_back(number: int) -> Callable[[Job], Job]:
    """The change of a job by which no submission up to ``number`` is given any more."""
    return lambda job: replace(job, submissions=job.submissions.taken_back(number))
