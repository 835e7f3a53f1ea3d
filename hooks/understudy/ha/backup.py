"""A copy of one cluster id's HA data in one file: its documents, its results and what was submitted, to be written again where they are lost.

Not in it: checkpoints and sinks, which are Spark's; the lock, which is won above the job's token; and what replicas say of themselves. A copy
may be older than what has happened since. Its tokens are safe then, too: the claims in the checkpoints are newer, and the first leader raises
its own above them. But a run that has ended since runs again, unless HA storage has its result.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from understudy.blobs.digest import sha256
from understudy.documents import codec
from understudy.documents.model import Content, Document, DocumentStore
from understudy.documents.settle import shell, write_once
from understudy.election.records import Held, lock_state_of
from understudy.errors import DocumentError, DocumentUnreadable, IdentityConflict, RequestRefused, SettingsError
from understudy.ha import ownership
from understudy.ha.artifacts import ArtifactStore, number_of, readable
from understudy.ha.components import PREFIX
from understudy.ha.job import Job
from understudy.ha.replicas import is_of_a_replica
from understudy.ha.requests import ANSWER, REQUEST
from understudy.ha.results import JobResult, JobResultStore
from understudy.ha.submissions import Submissions
from understudy.protocol import typed
from understudy.protocol.names import BURIED, Names
from understudy.protocol.strict_json import parse

_KIND, _VERSION = "understudy/backup", 1
#: What was asked of a job then is not asked of it again; who served its components then does not any more.
_PASSING = {REQUEST, ANSWER}


@dataclass(frozen=True, slots=True)
class Copied:
    """What a document holds."""

    entries: dict[str, str]
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Backup:
    """``at``: seconds since 1970. ``results``: names of blobs, and their texts. ``artifacts``: names of what the last submission consists of, and
    their bytes in Base64.
    """

    cluster: str
    job: str
    at: float
    documents: dict[str, Copied]
    results: dict[str, str]
    artifacts: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return Names(self.cluster, self.job)

    def encode(self) -> str:
        """JSON, with a checksum. Releases that know no artifacts read it where there are none."""
        body = asdict(self)
        if not self.artifacts:
            del body["artifacts"]
        return (
            f"{json.dumps({'kind': _KIND, 'version': _VERSION, 'checksum': codec.checksum(body), **body}, indent=2)}\n"
        )

    @classmethod
    def decode(cls, text: str, where: str) -> Self:
        """Raises ``SettingsError`` for anything but a whole copy whose documents can be read."""
        try:
            found = cls._decoded(text)
            for name, copied in found.documents.items():
                if name == found.names.job_document:
                    ownership.refuse_other_job(name, Job.of(_document(name, copied)).job, found.job)
            for name, result in found.results.items():
                JobResult.decode(result.encode(), name)
            for name, data in found.artifacts.items():
                _artifact(found.names, name, data)
        except (DocumentError, IdentityConflict, ValueError) as error:
            raise SettingsError(
                f"this is no backup of ours, or a damaged one: {error}",
                where=where,
                remedy="Take another copy; nothing was changed",
            ) from None
        return found

    @classmethod
    def _decoded(cls, text: str) -> Self:
        """Raises ``ValueError``."""
        body = parse(text)
        if not isinstance(body, dict) or body.pop("kind", None) != _KIND:
            raise ValueError("it says so nowhere")
        if (version := body.pop("version", None)) != _VERSION:
            raise ValueError(f"its version is {version!r}, and {_VERSION} is known here")
        if body.pop("checksum", None) != codec.checksum(body):
            raise ValueError("its checksum does not match")
        documents = body.get("documents")
        if not isinstance(documents, dict) or not all(isinstance(each, dict) for each in documents.values()):
            raise ValueError("it has no documents")
        copied = {name: typed.build(Copied, each) for name, each in documents.items()}
        return replace(typed.build(cls, {**body, "documents": {}}), documents=copied)


def _artifact(names: Names, name: str, text: str) -> bytes:
    """Raises ``ValueError`` for what is none of the job's, or not the bytes that its name tells."""
    data = base64.b64decode(text, validate=True)
    if not number_of(name, names) or name.rpartition("/")[2] != sha256(data):
        raise ValueError(f"{name} is not what was submitted")
    return data


def _document(name: str, copied: Copied) -> Document:
    return Document(name, copied.entries, None, copied.labels, "")


async def take(documents: DocumentStore, names: Names, results: JobResultStore | None, at: float) -> Backup:
    """What stands there now. ``results``: where there is HA storage; what was submitted is there, too.

    Raises ``DocumentError``, also for what cannot be read: that is no copy to rely on.
    """
    found = {}
    for name in (names.job_document, names.replicas):
        document = await documents.read(name)
        if document is None or document.buried:
            continue
        entries = {
            key: text
            for key, text in document.entries.items()
            if not (is_of_a_replica(key) or key in _PASSING or key.startswith(PREFIX))
        }
        found[name] = Copied(entries, dict(document.labels))
    job = Job.of(_document(names.job_document, found[names.job_document])) if names.job_document in found else None
    texts = {}
    for path in await results.names() if results is not None else ():
        assert results is not None, "there are no names without it"
        if (data := await results.blobs.read(path)) is not None:
            texts[path] = JobResult.decode(data, path).encode().decode()
    store = None if results is None or job is None else ArtifactStore(results.blobs, names)
    artifacts = {} if store is None or job is None else await _artifacts(store, readable(job, names.job_document))
    return Backup(names.cluster, names.job, at, found, texts, artifacts)


async def _artifacts(store: ArtifactStore, known: Submissions) -> dict[str, str]:
    """Raises ``DocumentUnreadable`` where something of the last submission is gone, or is not what was submitted."""
    if (one := known.current) is None:
        return {}
    return {name: base64.b64encode(data).decode() for name, data in (await store.whole(one)).items()}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a backup is restored to. ``locks``: each store in which a replica may hold the lock. ``results``: needed where the backup has some, or
    artifacts.
    """

    documents: DocumentStore
    locks: Collection[DocumentStore]
    results: JobResultStore | None = None


async def restore(backup: Backup, target: Target, *, overwrite: bool) -> list[str]:
    """Write what ``backup`` holds; the names of what was written, which may be all there already.

    ``overwrite``: documents that stand there, and cannot be read perhaps, are replaced. Results never are: what has ended has ended. Artifacts are
    never: others stand under another name.

    Raises:
        RequestRefused: documents stand there, or a leader lives; nothing was changed.
        DocumentError: part of it was written perhaps; restoring again goes on.
    """
    seen = {name: await _standing(target.documents, name) for name in backup.documents}
    missing = [name for name, copied in backup.documents.items() if not seen[name].shows(copied)]
    if (taken := [name for name in missing if seen[name].has_content]) and not overwrite:
        raise RequestRefused(
            f"there is other HA data already: {', '.join(taken)}",
            where="restore",
            remedy="Restore it with --overwrite once no replica runs, or elsewhere",
        )
    if leader := await living_leader(target.locks, backup.names.lock):
        raise RequestRefused(
            f"replica {leader} leads the job", where="restore", remedy="End its replicas first; checkpoints stay"
        )
    written = []
    for path, text in sorted(backup.artifacts.items()):  # before what points to them
        assert target.results is not None, "the backup has some"
        data = _artifact(backup.names, path, text)
        if await target.results.blobs.read(path) is None:
            written.append(path)
        await ArtifactStore(target.results.blobs, backup.names).keep(number_of(path, backup.names), data)
    # the job first: where only its record is there, replicas join it
    for name in sorted(missing, key=lambda each: each != backup.names.job_document):
        await _write(target.documents, name, seen[name].document, backup.documents[name])
        written.append(name)
    for path, text in sorted(backup.results.items()):
        assert target.results is not None, "the backup has some"
        if await target.results.blobs.read(path) is None:
            await target.results.blobs.create(path, text.encode())
            written.append(path)
    return written


@dataclass(frozen=True, slots=True)
class _Standing:
    """``document``: the one to replace; empty where it cannot be read, which ``damaged`` says."""

    document: Document | None
    damaged: bool = False

    @property
    def has_content(self) -> bool:
        """The bundle makes documents without any."""
        return self.damaged or (self.document is not None and bool(self.document.entries or self.document.buried))

    def shows(self, wanted: Copied) -> bool:
        seen = self.document
        if seen is None or seen.buried:
            return False
        return all(seen.entries.get(key) == text for key, text in wanted.entries.items())


async def _standing(documents: DocumentStore, name: str) -> _Standing:
    """Raises ``DocumentError``."""
    try:
        return _Standing(await documents.read(name))
    except DocumentUnreadable as error:
        return _Standing(shell(error, name), damaged=True)


async def living_leader(locks: Collection[DocumentStore], name: str) -> str:
    """Who renews the lock in one of ``locks``, each watched for one lease; empty for no one. A lock that cannot be read is renewed by no one."""
    return next(filter(None, await asyncio.gather(*(_renews(lock, name) for lock in locks))), "")


async def _renews(lock: DocumentStore, name: str) -> str:
    with suppress(DocumentUnreadable):
        before = await lock.read(name)
        match lock_state_of(before):
            case Held(_, _, holder, lease_seconds):
                await asyncio.sleep(lease_seconds)
                after = await lock.read(name)
                if after is not None and before is not None and after.revision != before.revision:
                    return holder
    return ""


async def _write(documents: DocumentStore, name: str, seen: Document | None, wanted: Copied) -> None:
    """Raises ``DocumentError``."""
    gone = dict.fromkeys(seen.entries if seen is not None else ())
    content = Content({**gone, **wanted.entries}, None, {**wanted.labels, BURIED: None})
    again = "See what writes it, and restore again"
    await write_once(documents, name, seen, content, remedy=again, repeat="Restore again")
