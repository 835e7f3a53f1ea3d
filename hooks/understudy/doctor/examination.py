"""A whole examination: each check gathers its facts within a time-out, and one that cannot be made keeps no other from being made.

Nothing is changed, but for one name in HA storage that is written and stays (see ``storage``).
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.blobs.model import BlobStore
from understudy.doctor import documents, lock, machine, replicas, rights, roots, storage
from understudy.doctor.documents import Read
from understudy.doctor.finding import Finding, Severity, by_gravity, note, of_error, ok, warning
from understudy.doctor.machine import Machine, look
from understudy.doctor.pods import Pod, pods, seen_in
from understudy.doctor.replicas import Seen
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.election.records import Held
from understudy.errors import DocumentError, ServerUnreachable, UnderstudyError
from understudy.ha.job import Job
from understudy.ha.replicas import Replica, readable_replicas
from understudy.processes import boot_id, started_at
from understudy.protocol import claim
from understudy.protocol.names import Names, job_document_of, lock_of, replicas_of
from understudy.submit import all_settings
from understudy.supervisor.backends import ha_storage
from understudy.threads import Threads

if TYPE_CHECKING:
    from understudy.documents.api_server import ApiServer

#: Seconds for a check, and for those that take longer by their nature: a lease is watched, conf/spark-env.sh may start a JVM, and a probe
#: is five requests to a store, each with its own time-out.
_WITHIN = 20.0
_LONGER = 90.0
#: Seconds for one root, and for one request to its store.
_ROOT_WITHIN, _REQUEST = 10.0, 5.0

#: Before every setting that says how to reach a bucket, and what else says it.
_S3A = "spark.hadoop.fs.s3a."
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI")


@dataclass(frozen=True, slots=True)
class Here:
    """What is looked at apart from documents. ``local``: replicas run here, so their disks and their Java are this machine's; ``pod``: for
    certain. ``blobs``: the HA storage, where a place was given. ``submit``: options of spark-submit that say how to reach buckets.
    ``machine`` finds Java, PySpark and the fence; it blocks.
    """

    local: bool
    pod: bool
    blobs: BlobStore | None = None
    submit: Sequence[str] = ()
    machine: Callable[[], Machine] = look


@dataclass(frozen=True, slots=True)
class Subject:
    """A cluster id. ``job``: what to look at where the documents do not say which job it has; ``lock_kind`` as ``--lock``. ``home``: its
    directory on this machine, which has its claims ``alone`` where documents are elsewhere: then one that was never granted a lock here has none.
    ``api``: the server of its Kubernetes cluster, where that has the documents; ``asked_of_pods``: one that knows the pods and has none. ``pause``: seconds between two looks at the lock.
    """

    cluster: str
    job: str
    documents: DocumentStore
    lock: DocumentStore
    lock_kind: str
    here: Here
    home: Path | None = None
    alone: bool = False
    api: ApiServer | None = None
    asked_of_pods: ApiServer | None = None
    pause: float = 0.5

    @property
    def kubernetes(self) -> ApiServer | None:
        """Where replicas are pods, the server that tells of them, wherever documents are (docs/decisions/0068)."""
        return self.api or self.asked_of_pods


@dataclass(frozen=True, slots=True)
class Report:
    """``findings``: worst first. ``cluster`` and ``job`` are empty where there is none."""

    cluster: str
    job: str
    findings: list[Finding]


async def examine(subject: Subject) -> Report:
    """Never raises for what is found, nor for a check that cannot be made."""
    cluster = subject.cluster
    told = await _read(subject.documents, replicas_of(cluster))
    if isinstance(told.error, ServerUnreachable):
        server = "documents" if subject.api is None else "api-server"
        return await examine_here(subject.here, of_error(server, told.error), cluster, subject.job or cluster)
    known = documents.bound_job(told)
    job, begun = known or (subject.job, bool(told.document))
    job = job or ("" if told.document else cluster)  # the default of --job-id, where no replica has said otherwise
    record = await _read(subject.documents, job_document_of(cluster, job)) if job else None
    case = _Case(subject, job, told, record, begun=begun, pods=await _pods(subject))
    checks = (
        _guarded(lock.CHECK, case.leadership(), _LONGER),
        _guarded(roots.CLAIMS, case.roots()),
        _guarded(storage.CHECK, case.storage(), _LONGER),
        _guarded(rights.CHECK, case.rights()),
        _guarded(machine.SPARK, _machine(subject.here), _LONGER),
    )
    found = [*case.documents(), *(each for some in await asyncio.gather(*checks) for each in some)]
    return Report(cluster, job, by_gravity(found))


async def examine_here(here: Here, why: Finding, cluster: str = "", job: str = "") -> Report:
    """What can be looked at where no document can be read; ``why`` not."""
    checks = (
        _guarded(storage.CHECK, _storage(here, cluster, job), _LONGER),
        _guarded(machine.SPARK, _machine(here), _LONGER),
    )
    found = [why, *(each for some in await asyncio.gather(*checks) for each in some)]
    return Report(cluster, job, by_gravity(found))


@dataclass(frozen=True, slots=True)
class _Case:
    """What is known once the documents are read. ``told``: the replicas' document; ``record``: the job's; ``None`` and an empty ``job_id`` where
    it is not known which job this is. ``begun``: replicas have led it, or may have.
    """

    subject: Subject
    job_id: str
    told: Read
    record: Read | None
    begun: bool
    pods: list[Pod] | DocumentError

    @property
    def job(self) -> Job | None:
        return None if self.record is None else documents.job_of(self.record, self.job_id)

    @property
    def everyone(self) -> list[Replica]:
        return readable_replicas(self.told.document)

    def documents(self) -> list[Finding]:
        api, job, record = self.subject.api, self.job, self.record
        found = [] if api is None else [ok("api-server", f"it answers, in namespace {api.namespace}")]
        found += documents.findings_of_replicas_document(self.told)
        if record is None:
            return [
                *found,
                note(documents.JOB, "not looked at: which job it is cannot be read", "Name it with --job-id"),
            ]
        found += documents.findings_of_job_document(record, self.job_id, begun=self.begun)
        return found if job is None else [*found, *documents.findings_of_job(job, record.name, time.time())]

    async def leadership(self) -> list[Finding]:
        """The lock, who holds it, and who would take it."""
        subject, job, everyone = self.subject, self.job, self.everyone
        name, expected = lock_of(subject.cluster), lock.led(job, begun=self.begun)
        watched = await lock.watch(subject.lock, name, expected=expected, wall=time.time, pause=subject.pause)
        holder = watched.state.holder if isinstance(watched.state, Held) else None
        hint = "" if subject.api is None else "Is --lock what understudy run was given? "
        found = lock.findings(watched, name, job, everyone, begun=self.begun, hint=hint)
        found += replicas.findings(everyone, holder, self._seen(), led=expected)
        if expected and holder is not None and watched.changed:
            found += [*lock.findings_of_clocks(watched), *([] if job is None else [roots.fence_in_force(job)])]
        return found

    def _seen(self) -> Seen:
        if self.subject.kubernetes is None:
            return seen_here(self.everyone)
        if isinstance(self.pods, DocumentError):
            return Seen(unseen=frozenset(each.holder for each in self.everyone))
        return seen_in(self.pods, self.everyone)

    async def roots(self) -> list[Finding]:
        job, subject = self.job, self.subject
        if job is None:
            return [note(roots.CLAIMS, "not looked at: the job's record does not say which roots it has")]
        here = subject.here
        reach = roots.Reach(here.local, bucket_of(here.submit, os.environ), _ROOT_WITHIN)
        recorded = {each.root for each in job.checkpoints.known}
        looked = await asyncio.gather(*(roots.look(each, logs=each in recorded, reach=reach) for each in job.roots))
        after = await self._job_now() or job
        former = documents.former_locks(self.told)
        found = [
            finding
            for each in looked
            for finding in roots.findings(each, job, after, subject.cluster, subject.lock_kind, former)
        ]
        return [*found, *await self._floor(after)]

    async def _floor(self, job: Job) -> list[Finding]:
        if self.subject.home is None:
            return []
        ours = claim.Claim(job.token, job.holder, self.subject.cluster, job.job, self.subject.lock_kind)
        directory = self.subject.home / "floor"
        read = Read(claim.ENTRY)
        if directory.is_dir():  # a store would make it
            read = await _read(FilesystemDocumentStore(directory, _REQUEST), claim.ENTRY)
        former = documents.former_locks(self.told)
        begun = self.begun and not self.subject.alone
        return roots.findings_of_floor(read.document, read.error, ours, begun=begun, former=former)

    async def storage(self) -> list[Finding]:
        return await _storage(self.subject.here, self.subject.cluster, self.job_id, self._job_now)

    async def rights(self) -> list[Finding]:
        api = self.subject.kubernetes
        if api is None:
            return []
        found = self.pods
        native = not isinstance(found, DocumentError) and any(each.native for each in found)
        needed = rights.needed(
            Names(self.subject.cluster, self.job_id or self.subject.cluster),
            self.subject.lock_kind if self.subject.api is not None else rights.ELSEWHERE,
            native=native,
        )
        if api.in_pod:
            return rights.findings(await rights.ask(api, needed), api.namespace)
        if isinstance(found, DocumentError):
            return [rights.not_asked(found)]
        accounts = sorted({each.account for each in found})
        if not accounts:
            return [rights.not_asked("no pod of this cluster id is there, so its service account is not known")]
        try:
            asked = [await rights.ask(api, needed, each) for each in accounts]
        except DocumentError as error:
            return [rights.not_asked(error)]
        return [f for each in asked for f in rights.findings(each, api.namespace)]

    async def _job_now(self) -> Job | None:
        if self.record is None:
            return None
        return documents.job_of(await _read(self.subject.documents, self.record.name), self.job_id)


async def _never() -> Job | None:
    return None


async def _storage(
    here: Here, cluster: str, job: str, job_now: Callable[[], Coroutine[Any, Any, Job | None]] = _never
) -> list[Finding]:
    if here.blobs is None:
        return [storage.not_given()]
    looked = await storage.look(here.blobs, cluster, job)
    return storage.findings(looked, await job_now(), cluster)


async def _machine(here: Here) -> list[Finding]:
    if not here.local:
        return [machine.elsewhere()]
    return machine.findings(await Threads().call(here.machine, _LONGER), pod=here.pod)


async def _read(store: DocumentStore, name: str) -> Read:
    try:
        return Read(name, await store.read(name))
    except UnderstudyError as error:
        return Read(name, error=error)


async def _pods(subject: Subject) -> list[Pod] | DocumentError:
    if subject.kubernetes is None:
        return []
    try:
        return await pods(subject.kubernetes, subject.cluster)
    except DocumentError as error:
        return error


async def _guarded(check: str, looking: Coroutine[Any, Any, list[Finding]], within: float = _WITHIN) -> list[Finding]:
    try:
        async with asyncio.timeout(within):
            return await looking
    except TimeoutError:
        return [warning(check, f"not looked at to its end: no answer within {within:g} s", "Look at what it reads")]
    except UnderstudyError as error:
        return [of_error(check, error, Severity.WARNING)]
    except Exception as error:  # noqa: BLE001 - a defect in one check must not hide what the others find
        text = f"the check broke off: {error!r}"
        return [warning(check, text, "This is a defect of understudy doctor; what the other checks say stands")]


def seen_here(everyone: Sequence[Replica]) -> Seen:
    """By processes of this machine. A proof of life is not asked: asking moves the file of a dead replica."""
    name, boot = socket.gethostname(), boot_id()
    ours = [each for each in everyone if each.host == name]
    gone = frozenset(each.holder for each in ours if each.boot != boot or started_at(each.pid) is None)
    return Seen(gone, unseen=frozenset(each.holder for each in everyone if each.host != name))


def bucket_of(submit: Sequence[str], environ: Mapping[str, str]) -> Callable[[str], BlobStore] | None:
    """Opens the place of an ``s3a://`` URL; ``None`` where nothing says how to reach it: a client without credentials waits for those of a
    cloud's machine.
    """
    told = any(key.startswith(_S3A) for key in all_settings(submit, environ))
    if not told and not any(environ.get(each) for each in _CREDENTIALS):
        return None

    def opened(url: str) -> BlobStore:
        store = ha_storage(url, submit, _REQUEST)
        assert store is not None, "a URL was given"
        return store

    return opened
