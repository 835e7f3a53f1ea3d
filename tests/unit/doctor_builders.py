"""A job of one machine as its replicas leave it, in real stores, and what ``understudy doctor`` finds of it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tests.doubles.epochs import nothing_granted
from understudy.doctor.examination import Here, Subject, examine
from understudy.doctor.finding import Finding, Severity
from understudy.doctor.machine import Machine
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Content, LeaderRecord, Written
from understudy.election.records import GRANT, GrantEntry
from understudy.environment import Java
from understudy.fencing.claim import claim
from understudy.ha.checkpoints import Checkpoint
from understudy.ha.generation import Generation
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.processes import boot_id
from understudy.protocol.claim import DIRECTORY, Claim
from understudy.protocol.names import LOCK_LABELS
from understudy.protocol.strict_json import parse
from understudy.protocol.token import Token

TOKEN = Token(3, 1)
#: Seconds: a lease short enough for a test to watch one to its end, and how often the leader renews it.
LEASE, RENEWAL = 1.0, 0.05
SOUND = Machine("4.2.1", Java(Path("/java"), 17, Path("/")), Path("/fence.jar"), 0.0)


def replica(holder: str, role: str, **changes: object) -> Replica:
    """One that lives: its process is this one."""
    made = Replica(holder, role, True, "live", 4, 1.0, "", "", 1, os.getpid(), socket.gethostname(), 1, boot_id(), 1.0)
    return replace(made, **{"queries": 1, **changes})  # type: ignore[arg-type]


@dataclass(slots=True)
class Ward:
    """Cluster ``c`` with job ``j`` below ``home``: ``a`` leads under token 3.1, ``b`` stands by; one query, with its checkpoint and its sink."""

    home: Path
    grant: GrantEntry = field(default_factory=lambda: GrantEntry(TOKEN.epoch, "a", "n0"))
    acquired: str = "2026-11-26T00:00:00Z"
    #: Seconds by which the leader's clock is ahead.
    ahead: float = 0.0
    #: Seconds of the lock's lease: the doctor waits that long for a renewal.
    lease: float = LEASE

    @property
    def documents(self) -> FilesystemDocumentStore:
        return FilesystemDocumentStore(self.home / "c" / "documents", 5.0)

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.documents, "c-j", "j", "job.py")

    @property
    def replicas(self) -> ReplicaStore:
        return ReplicaStore(self.documents, "c-replicas")

    @property
    def checkpoint(self) -> Path:
        return self.home / "checkpoint"

    @property
    def sink(self) -> Path:
        return self.home / "sink"

    async def begin(self) -> None:
        """Everything is as it has to be."""
        await self.replicas.join("j")
        await self.jobs.begin_attempt(
            TOKEN.epoch, "a", nothing_granted, Generation(1, "digest"), run="monday", now=10.0
        )
        for root in (self.checkpoint, self.sink):
            self.claim(root)
        for log in ("offsets", "commits"):
            (self.checkpoint / log).mkdir()
            for batch in range(5, 9):
                (self.checkpoint / log / str(batch)).write_text("v1\n")
        await self.jobs.claims(TOKEN, (f"file:{self.checkpoint}", str(self.sink)))
        committed = Checkpoint(f"file:{self.checkpoint}", "flights", "parquet", 7, 1000.0)
        await self.jobs.serving(TOKEN, 1000.0, (committed,))
        await claim(FilesystemDocumentStore(self.home / "c" / "floor", 5.0), "claim", self.own)
        for each in (replica("a", "leader"), replica("b", "standby")):
            await self.replicas.publish(each)
        await self.renew(0)

    @property
    def own(self) -> Claim:
        return Claim(TOKEN, "a", "c", "j", "file")

    def claim(self, root: Path, standing: Claim | None = None) -> None:
        """As the fence leaves it."""
        directory = root / DIRECTORY
        directory.mkdir(parents=True, exist_ok=True)
        body = (standing or self.own).to_body()
        (directory / "claim@1").write_text(str(body).replace("'", '"'))
        assert parse((directory / "claim@1").read_bytes()) == body

    async def renew(self, number: int) -> None:
        """Write the lock's record, as its holder does every few seconds."""
        seen = await self.documents.read("c-lock")
        now = datetime.fromtimestamp(time.time() + self.ahead, UTC)
        stamp = now.isoformat().replace("+00:00", "Z")
        leader = LeaderRecord("" if self.grant.released else self.grant.holder, self.lease, self.acquired, stamp, 2)
        grant = replace(self.grant, nonce=f"n{number}")
        content = Content({GRANT: grant.encode()}, leader, LOCK_LABELS)
        written = await (
            self.documents.create("c-lock", content) if seen is None else self.documents.replace(seen, content)
        )
        assert isinstance(written, Written), written

    async def entry(self, document: str, name: str, text: str | None) -> None:
        """Put ``text`` there, by hand."""
        seen = await self.documents.read(document)
        assert seen is not None
        written = await self.documents.replace(seen, Content({name: text}, seen.leader))
        assert isinstance(written, Written), written

    def lose(self, document: str) -> None:
        for each in (self.home / "c" / "documents").glob(f"{document}@*"):
            each.unlink()

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """A leader that lives."""

        async def renew() -> None:
            for number in range(1, 10_000):
                await self.renew(number)
                await asyncio.sleep(RENEWAL)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()

    async def findings(self, here: Here | None = None) -> list[Finding]:
        documents = self.documents
        here = here or Here(local=True, pod=False, machine=lambda: SOUND)
        subject = Subject("c", "", documents, documents, "file", here, home=self.home / "c", pause=RENEWAL)
        return (await examine(subject)).findings


def examined(
    home: Path,
    harm: Callable[[Ward], Awaitable[object]] | None = None,
    *,
    leader: bool = True,
    here: Here | None = None,
) -> list[Finding]:
    """What is found once ``harm`` was done to a sound job; ``leader``: one lives, and renews the lock."""

    async def run() -> list[Finding]:
        ward = Ward(home, lease=60.0 if leader else LEASE)
        await ward.begin()
        if harm is not None:
            await harm(ward)
        if not leader:
            return await ward.findings(here)
        async with ward.renewing():
            return await ward.findings(here)

    return asyncio.run(run())


def grave(findings: list[Finding]) -> list[Finding]:
    """Problems and warnings."""
    return [each for each in findings if each.severity in {Severity.PROBLEM, Severity.WARNING}]
