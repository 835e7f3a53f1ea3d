"""What a replica does that was given no script: it waits until one is submitted, and fetches it.

It runs what it has fetched until it ends, also where something else is submitted meanwhile: new code comes by new replicas, as with any
other upgrade, and generations see to it that it does not go back (``ha.generation``).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.blobs.model import BlobStore
from understudy.clock import HostClock
from understudy.errors import AccessDenied, DocumentEmptied, DocumentError, DocumentUnreadable, EnvironmentProblem
from understudy.events import Log
from understudy.ha.artifacts import ArtifactStore, Attached, File, readable
from understudy.ha.generation import Generation
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import ReplicaStore
from understudy.ha.services import HighAvailabilityServices
from understudy.ha.submissions import Submission
from understudy.protocol.messages import RehearsalReport
from understudy.submit import combined
from understudy.supervisor.backends import ha_storage
from understudy.supervisor.health import FenceCounts, Health
from understudy.supervisor.hosts import Host
from understudy.supervisor.membership import Membership
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workspace import OwnDirectory, sweep

WAITS = "waits for a first submission: understudy submit"

#: What waiting changes nothing of. Anything else that a server says, or does not say in time, may be otherwise in a while.
_FINAL = (AccessDenied, DocumentEmptied, DocumentUnreadable)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Seconds of one request for a file, which may have 64 MiB.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """``settings`` of the replica that runs it; its files are in ``directory``, which is this process's."""

    settings: RunSettings
    directory: OwnDirectory


@dataclass(slots=True)
class Submitted:
    """One replica, until it has something to run. ``blobs``: the HA storage, with time for large files."""

    settings: RunSettings
    services: HighAvailabilityServices
    host: Host
    log: Log
    blobs: BlobStore
    health: Health
    told_to_stop: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, settings: RunSettings, services: HighAvailabilityServices, host: Host, log: Log) -> Submitted:
        blobs = ha_storage(settings.storage.ha_storage, settings.submit, PATIENCE)
        assert blobs is not None, "settings are checked"
        # there is no elector whose turn could be late: it lives as long as it answers
        health = Health(host.clock, FenceCounts(), live_within=settings.timings.retry, last_turn=host.clock.now)
        return cls(settings, services, host, log, blobs, health)

    async def fetched(self) -> Fetched | None:
        """What is to run; ``None`` where this replica was told to stop before there was anything. Then, and where it raises, all is closed.

        Raises ``DocumentUnreadable`` for what is not as it was submitted, ``IdentityConflict`` for another job's cluster id, and ``DocumentError``.
        """
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.told_to_stop.set)
        names = self.settings.names
        replicas = ReplicaStore(self.services.documents, names.replicas)
        membership = _membership(replicas, self.host, self.log)
        try:
            await replicas.join(self.settings.job)
            found = await self._awaited(
                JobStore(self.services.documents, names.job_document, names.job, ""), membership
            )
        except BaseException:
            await self._close(membership)
            raise
        finally:
            for number in _SIGNALS:  # until the supervisor hears them itself, one ends this process at once
                loop.remove_signal_handler(number)
        if found is not None and self.told_to_stop.is_set():
            found.directory.remove()
            found = None
        if found is None:
            await self._close(membership)
        return found

    async def _close(self, membership: Membership) -> None:
        await membership.leave()
        await self.host.close()
        await self.services.close()

    async def _awaited(self, jobs: JobStore, membership: Membership) -> Fetched | None:
        said = ""
        while not self.told_to_stop.is_set():
            try:
                one = await self._current(jobs)
                if one is not None and (found := await self._fetch(one, jobs)) is not None:
                    return found
            except DocumentError as error:
                if not self.health.waits or isinstance(error, _FINAL):
                    raise  # as every replica does that cannot begin
                if str(error) != said:
                    said = str(error)
                    self.log.say("unreachable", said)
                one = None
            if one is None:
                await self._wait(membership)
        return None

    async def _current(self, jobs: JobStore) -> Submission | None:
        return readable(await jobs.read(), jobs.name).current

    async def _wait(self, membership: Membership) -> None:
        if not self.health.waits:
            self.health.waits = WAITS
            self.log.say("waits-for-submission", f"nothing was submitted for job {self.settings.job} yet")
        await membership.publish(
            RehearsalReport("", rehearsed=False, how="", rounds=0, seconds=0.0, reason=WAITS), 0.0, leads=False
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.timings.retry):
                await self.told_to_stop.wait()

    async def _fetch(self, one: Submission, jobs: JobStore) -> Fetched | None:
        """``None`` where another submission has come meanwhile, so that files of this one may have been removed."""
        base = self.settings.home / "artifacts"
        await asyncio.to_thread(sweep, base)
        try:
            directory = OwnDirectory(base)
        except OSError as error:
            raise _no_room(base, error) from None
        try:
            settings = await fetch(self.settings, ArtifactStore(self.blobs, self.settings.names), one, directory.path)
        except DocumentUnreadable:
            directory.remove()
            if await self._current(jobs) != one:
                return None
            raise
        except BaseException:
            directory.remove()
            raise
        self.log.say(
            "fetched", f"submission {one.number} of job {self.settings.job}: {one.script}", submission=one.number
        )
        return Fetched(settings, directory)


async def fetch(settings: RunSettings, store: ArtifactStore, one: Submission, directory: Path) -> RunSettings:
    """``settings`` of a replica that runs ``one``, whose files are below ``directory`` then, each as it was submitted.

    The options of ``settings`` win over those that were submitted; of files and packages both count.

    Raises ``DocumentUnreadable``, ``DocumentError``, and ``EnvironmentProblem`` where the disk does not take them.
    """
    manifest = await store.manifest(one)

    async def placed(file: File, among: Path) -> Path:
        data = await store.fetch(one.number, file)
        await asyncio.to_thread(_write, among / file.name, data)
        return among / file.name

    listed: dict[str, list[str]] = {}
    script = await placed(manifest.script, directory / "script")
    for number, each in enumerate(manifest.attached):
        # a directory for each: two files of one name may be listed by two options
        where = each.url if each.file is None else str(await placed(each.file, directory / str(number)))
        listed.setdefault(each.option, []).append(_called(where, each))
    files = [word for option, found in listed.items() for word in (option, ",".join(found))]
    code = hashlib.sha256(os.fsencode("\0".join((one.manifest, *settings.submit)))).hexdigest()[:12]
    return replace(
        settings,
        script=script,
        arguments=tuple(manifest.arguments),
        submit=tuple(combined([*manifest.submit, *files], settings.submit)),
        submission=one.number,
        code=code,
    )


def _called(where: str, attached: Attached) -> str:
    return f"{where}#{attached.alias}" if attached.alias else where


def _write(path: Path, data: bytes) -> None:
    """Raises ``EnvironmentProblem``."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise _no_room(path, error) from None


def _no_room(path: Path, error: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"cannot be written: {error.strerror}", where=str(path), remedy="Make room below --ha-dir"
    )


def _membership(replicas: ReplicaStore, host: Host, log: Log) -> Membership:
    clock: HostClock = host.clock
    return Membership(replicas, host, Generation, clock, log, lambda _: False)
