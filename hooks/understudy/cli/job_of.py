"""The job of a cluster id, for commands that change it."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.cli.where import REQUEST, Stores
from understudy.errors import DocumentEmptied, JobNotBegun, SettingsError
from understudy.protocol.names import check_id, job_document_of, replicas_of

if TYPE_CHECKING:
    from understudy.ha.job import Job
    from understudy.ha.job_store import JobStore
    from understudy.ha.replicas import ReplicaStore


#: Seconds between two looks at the job while something is waited for.
LOOK = 0.2
#: The longest that may be waited for: a day, in seconds.
LONGEST = 86_400.0


def check_timeout(seconds: float) -> None:
    """Raises ``SettingsError`` unless ``seconds`` is above 0 and at most ``LONGEST``."""
    if not 0 < seconds <= LONGEST:
        raise SettingsError(f"{seconds:g} is no number of seconds up to a day", where="--timeout", remedy="Give one")


def who() -> str:
    """Who gives this command, for people."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in an image that is run under any uid
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def tell_done(job: str, action: str, text: str, *, as_json: bool) -> None:
    body = {"job": job, "action": action, "result": "done", "text": text}
    sys.stdout.write(f"{json.dumps(body) if as_json else f'{job} {text}'}\n")


async def bound_job(stores: Stores, remedy: str, *, removed: bool = False) -> str:
    """The job that the cluster id is bound to; ``removed`` as in ``ReplicaStore.job``.

    Raises ``JobNotBegun`` with ``remedy`` where no replica has ever run, ``IdentityConflict`` as ``ReplicaStore.job`` does, and ``DocumentError``.
    """
    from understudy.ha.replicas import ReplicaStore

    name = await ReplicaStore(stores.documents, replicas_of(stores.cluster)).job(removed=removed)
    if name is None:
        raise never_run(stores, remedy)
    return name


def never_run(stores: Stores, remedy: str) -> JobNotBegun:
    return JobNotBegun(
        f"no replica of cluster {stores.cluster!r} has ever run {stores.place}", where="--cluster-id", remedy=remedy
    )


async def begun(stores: Stores, replicas: ReplicaStore) -> bool:
    """Whether a job without a record may have had a leader: its replicas say so, or a claim on this machine does."""
    from understudy.documents.filesystem import FilesystemDocumentStore
    from understudy.fencing.claim import min_epoch

    floor = (
        stores.documents.directory.parent / "floor" if isinstance(stores.documents, FilesystemDocumentStore) else None
    )
    if floor is not None and floor.is_dir():
        claims = FilesystemDocumentStore(floor, REQUEST)
        if await min_epoch(claims, "claim"):
            return True
    return await replicas.begun()


@dataclass(frozen=True, slots=True)
class JobOf:
    """``known``: the job as it was found; ``None`` where its record is gone. ``here`` names it in words."""

    jobs: JobStore
    replicas: ReplicaStore
    known: Job | None
    here: str

    @classmethod
    async def cluster(cls, stores: Stores, what: str, *, submitted: bool = False) -> JobOf:
        """``what`` cannot be done to a job that has never run. ``submitted``: it can, where a script was submitted or the job declared.

        Raises:
            JobNotBegun: no replica has ever run, or ever led, in this cluster.
            DocumentEmptied: one has led, and the record that stands there was begun after its own was lost.
        """
        from understudy.ha.job import RESTORE
        from understudy.ha.replicas import ReplicaStore

        replicas = ReplicaStore(stores.documents, replicas_of(stores.cluster))
        name = await bound_job(stores, f"There is nothing to {what}: start it with understudy run")
        found = await cls.named(stores, replicas, name)
        if found.known is not None and not found.known.never_led:
            return found
        led = await replicas.begun()
        # once more: the first leader writes it before its replica says so
        found = await cls.named(stores, replicas, name)
        never_led = found.known is not None and found.known.never_led
        if led and never_led:
            raise DocumentEmptied("the record of the job that was led is gone", where=found.jobs.name, remedy=RESTORE)
        if not led and (found.known is None or (never_led and not submitted)):
            raise JobNotBegun(
                f"no replica has ever led {found.here}",
                where="--cluster-id",
                remedy=f"There is nothing to {what}: its replicas begin it as soon as one of them leads",
            )
        return found

    @classmethod
    async def bound(cls, stores: Stores, job_id: str) -> JobOf:
        """The job that the cluster id is bound to, and from now on if it was to none. Raises ``IdentityConflict`` for another one."""
        from understudy.ha.replicas import ReplicaStore

        replicas = ReplicaStore(stores.documents, replicas_of(stores.cluster))
        name = check_id(job_id or await replicas.job() or stores.cluster, "--job-id")
        await replicas.join(name)
        return await cls.named(stores, replicas, name)

    @classmethod
    async def named(cls, stores: Stores, replicas: ReplicaStore, name: str) -> JobOf:
        """Also one that no replica has led."""
        from understudy.ha.job_store import JobStore

        jobs = JobStore(stores.documents, job_document_of(stores.cluster, name), name, script="")
        return cls(jobs, replicas, await jobs.read(), f"job {name} of cluster {stores.cluster} {stores.place}")
