"""What a person submits, looked at before anything of it is stored; and how it is stored."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from understudy.blobs.digest import sha256
from understudy.errors import DocumentEmptied, ScriptProblem, SettingsError
from understudy.ha.artifacts import ArtifactStore, Attached, File, Manifest, check_file, give, readable
from understudy.ha.job import RESTORE
from understudy.ha.job_store import JobStore, MinEpoch
from understudy.ha.submissions import Submission
from understudy.protocol.names import Names
from understudy.protocol.token import HIGHEST
from understudy.submit import FILES, files_at, option, settings_of, without

#: A file is held in memory while it is stored and while it is fetched; larger ones have a place in a bucket of their own. In bytes.
LARGEST = 64 * 1024 * 1024

#: What says where a job runs, which each replica is told by its own command line.
_PLACES = {"--master": "spark.master", "--deploy-mode": "spark.submit.deployMode"}
#: Files that hold secrets, or the way to them.
_SECRET_FILES = ("--properties-file", "--keytab", "--principal")
#: Spark's own rule for settings whose values it does not show.
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Draft:
    """``submit``: options of spark-submit, without those and the settings that list files, which are ``attached``. ``paths``: where each file is, by its digest."""

    script: File
    arguments: tuple[str, ...]
    submit: tuple[str, ...]
    attached: tuple[Attached, ...]
    paths: dict[str, Path]

    @classmethod
    def of(cls, submit: Sequence[str], script: str, arguments: Sequence[str]) -> Self:
        """Raises ``ScriptProblem`` and ``SettingsError``: a file is missing or too large, or an option belongs elsewhere."""
        _refuse(submit)
        if not Path(script).is_file():
            raise ScriptProblem("no such script", where=script, remedy="Give the path of a Python file")
        paths: dict[str, Path] = {}
        looked_at = _looked_at(Path(script), "script", paths)
        attached = tuple(
            each
            for name, setting in FILES.items()
            for part in option(submit, name, setting).split(",")
            if part.strip()
            for each in _attached(name, part.strip(), name if option(submit, name, "") else setting, paths)
        )
        others = list(submit)
        for name, setting in FILES.items():
            others = without(others, name, setting)
        return cls(looked_at, tuple(arguments), tuple(others), attached, paths)

    def manifest(self, names: Names) -> Manifest:
        return Manifest(
            names.cluster, names.job, self.script, list(self.arguments), list(self.submit), list(self.attached)
        )


def _refuse(submit: Sequence[str]) -> None:
    """Raises ``SettingsError``."""
    for name, setting in _PLACES.items():
        if option(submit, name, setting):
            raise SettingsError(
                "where a job runs is said to its replicas",
                where=name if option(submit, name, "") else setting,
                remedy="Give it to understudy run --submitted instead",
            )
    for name in _SECRET_FILES:
        if option(submit, name, ""):
            raise SettingsError(
                "what is submitted is kept in HA storage, where others may read it",
                where=name,
                remedy="Give it to understudy run --submitted instead",
            )
    for name in settings_of(submit):
        if _SECRET.search(name):
            raise SettingsError(
                f"the value of {name} would be kept in HA storage, where others may read it",
                where="--conf",
                remedy="Set it in spark-defaults.conf or in the environment, here and where the replicas run",
            )


def _attached(name: str, part: str, where: str, paths: dict[str, Path]) -> Iterator[Attached]:
    """Raises ``SettingsError``."""
    location, _, alias = part.partition("#")
    found = None if location.startswith("local:") else files_at(location)
    if found is None:
        yield Attached(name, url=location, alias=alias)
        return
    if not found or not all(map(Path.is_file, found)):
        missing = next(iter(found), location)
        raise SettingsError(f"{missing} is no file", where=where, remedy="Give the path of a file, or a URL")
    if alias and len(found) > 1:
        raise SettingsError(
            f"{len(found)} files are to be called {alias}", where=where, remedy="Leave #… out, or name one"
        )
    for path in found:
        file = _looked_at(path, where, paths)
        yield Attached(name, "", file.name, file.sha256, file.length, alias)


def _looked_at(path: Path, where: str, paths: dict[str, Path]) -> File:
    """Raises ``SettingsError``."""
    try:
        length = path.stat().st_size
        if length > LARGEST:
            raise SettingsError(
                f"{path} has {length} bytes, and {LARGEST} are the most that is stored of one file",
                where=where,
                remedy="Put it into a bucket or an image, and give its URL",
            )
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read: {error.strerror}", where=where, remedy="See who may read it"
        ) from None
    found = File(path.name, digest.hexdigest(), length)
    try:
        check_file(found)
    except ValueError as error:
        raise SettingsError(str(error), where=where, remedy="Give the file another name") from None
    paths[found.sha256] = path
    return found


def _read(path: Path, digest: str) -> bytes:
    """Raises ``SettingsError``."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"cannot be read any more: {error.strerror}", where=str(path), remedy="Submit it again"
        ) from None
    if sha256(data) != digest:
        raise SettingsError("it has changed since it was looked at", where=str(path), remedy="Submit it again")
    return data


async def submit(
    jobs: JobStore, store: ArtifactStore, draft: Draft, min_epoch: MinEpoch, *, by: str, at: float
) -> tuple[Submission, bool]:
    """Store ``draft`` and let the job's document name it; and whether that was needed: the same again changes nothing.

    ``min_epoch`` is asked where the job has no record: only a job that no replica has ever led is begun. ``at``: s since 1970.

    Raises:
        RequestRefused: another submission came between. Nothing was changed; ``understudy gc`` removes what was stored.
        SettingsError: a file has changed since it was looked at.
        DocumentError: part of it was stored perhaps, which is never run.
    """
    job = await jobs.read()
    known = readable(job, jobs.name)
    if job is None and await min_epoch():
        raise DocumentEmptied("the job's record is gone", where=jobs.name, remedy=RESTORE)
    manifest = draft.manifest(store.names).encode()
    one = Submission(known.last + 1, sha256(manifest), draft.script.name, by, at)
    standing = known.current
    if standing is not None and standing.manifest == one.manifest and await store.is_whole(standing):
        return standing, False
    for digest, path in draft.paths.items():
        await store.keep(one.number, await asyncio.to_thread(_read, path, digest))
    await store.keep(one.number, manifest)
    await jobs.change(HIGHEST, give(one), min_epoch)
    return one, True
