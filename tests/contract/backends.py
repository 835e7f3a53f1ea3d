"""What the contract suite needs of a backend. A new backend is one more class here and one more line in ``BACKENDS``."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Protocol

from testkit.faults import Fault
from tests.contract.worker import Win, race
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Content, Document, DocumentStore, Outcome, Unknown
from understudy.documents.numbered import Numbered
from understudy.events import Log

WORKER = Path(__file__).with_name("worker.py")

#: Seconds for requests that must not time out, however busy the machine is.
PATIENT = 60.0


class Backend(Protocol):
    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        """Another client of the same server; ``faults`` befall its next writes, in order."""
        ...

    def cut_off(self) -> DocumentStore:
        """A client that gets no answer to anything."""
        ...

    def land(self) -> None:
        """Every delayed request arrives now."""
        ...

    def stored(self, name: str) -> bytes: ...

    def plant(self, name: str, data: bytes) -> None:
        """These bytes are the document now: another program's work, or an accident."""
        ...

    def remove(self, name: str) -> None:
        """The document is deleted behind everyone's back."""
        ...

    def race(self, name: str, writers: int, rounds: int) -> list[Win]:
        """``writers`` add 1 to a counter ``rounds`` times each, all at once; what each of them believes to have written."""
        ...


@dataclass(slots=True)
class Memory:
    server: MemoryServer = field(default_factory=MemoryServer)

    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        store = MemoryDocumentStore(self.server, log=log)
        store.inject(*faults)
        return store

    def cut_off(self) -> DocumentStore:
        store = MemoryDocumentStore(self.server)
        store.reachable = False
        return store

    def land(self) -> None:
        self.server.land()

    def stored(self, name: str) -> bytes:
        return self.server.stored[name][1]

    def plant(self, name: str, data: bytes) -> None:
        self.server.overwrite(name, data)

    def remove(self, name: str) -> None:
        self.server.remove(name)

    def race(self, name: str, writers: int, rounds: int) -> list[Win]:
        wins: list[Win] = []

        def run(who: str) -> None:
            wins.extend(asyncio.run(race(MemoryDocumentStore(self.server), name, who, rounds)))

        threads = [threading.Thread(target=run, args=(f"writer-{i}",)) for i in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return wins


@dataclass(slots=True)
class _ServerFault:
    """Makes a filesystem request fail where a fault says so."""

    faults: list[Fault | None]
    stuck: threading.Event = field(default_factory=threading.Event)
    delayed: threading.Event = field(default_factory=threading.Event)
    late: int = 0
    landed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    current: Fault | None = None

    def __call__(self, step: str) -> None:
        if step == "looked":
            self.current = self.faults.pop(0) if self.faults else None
        match self.current, step:
            case Fault.LOST_REQUEST, "looked":
                raise OSError(errno.EIO, "the disk refuses")
            case Fault.LOST_ANSWER, "linked":
                raise OSError(errno.EIO, "the disk took it and hung up")
            case Fault.DELAYED, "linking":
                self.late += 1
                self.stuck.set()
                self.delayed.wait()
            case Fault.DELAYED, "temporary-removed":
                self.landed.release()
            case _:
                pass


class _FaultyStore(FilesystemDocumentStore):
    """Gives up waiting as soon as its request is stuck, as after a time-out, and not after so many seconds."""

    def __init__(self, directory: Path, server_fault: _ServerFault, log: Log | None) -> None:
        super().__init__(directory, PATIENT, log=log, at_step=server_fault)
        self._fault = server_fault

    async def create(self, name: str, content: Content) -> Outcome:
        return await self._impatiently(super().create(name, content))

    async def replace(self, seen: Document, content: Content) -> Outcome:
        return await self._impatiently(super().replace(seen, content))

    async def _impatiently(self, request: Coroutine[None, None, Outcome]) -> Outcome:
        self._fault.stuck.clear()
        task = asyncio.ensure_future(request)
        while not task.done() and not self._fault.stuck.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.005)
        if task.done():
            return task.result()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return Unknown("it is not waited for any more")


@dataclass(slots=True)
class Filesystem:
    directory: Path
    server_faults: list[_ServerFault] = field(default_factory=list)

    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        if not faults:
            return FilesystemDocumentStore(self.directory, PATIENT, log=log)
        server_fault = _ServerFault(list(faults))
        self.server_faults.append(server_fault)
        return _FaultyStore(self.directory, server_fault, log)

    def cut_off(self) -> DocumentStore:
        gone = self.directory / "unmounted"
        store = FilesystemDocumentStore(gone, PATIENT)
        gone.rmdir()
        return store

    def land(self) -> None:
        for server_fault in self.server_faults:
            server_fault.delayed.set()
            for _ in range(server_fault.late):
                assert server_fault.landed.acquire(timeout=PATIENT)
            server_fault.late = 0

    def files(self, name: str) -> list[Path]:
        paths = self.directory.glob(f"{name}@*")
        return sorted(paths, key=lambda path: int(path.name.rpartition("@")[2]))

    def stored(self, name: str) -> bytes:
        return self.files(name)[-1].read_bytes()

    def plant(self, name: str, data: bytes) -> None:
        files = Numbered(self.directory)
        files.path(name, files.highest(name) + 1).write_bytes(data)

    def remove(self, name: str) -> None:
        for path in self.files(name):
            path.unlink()

    def race(self, name: str, writers: int, rounds: int) -> list[Win]:
        workers = [self.worker("race", name, f"writer-{i}", str(rounds)) for i in range(writers)]
        outputs = [worker.communicate()[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * writers
        return [Win(*win) for output in outputs for win in json.loads(output)]

    def worker(self, what: str, *arguments: str) -> Popen[str]:
        command = [sys.executable, str(WORKER), what, str(self.directory), *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())}
        return Popen(command, env=environment, stdin=PIPE, stdout=PIPE, text=True)


def _import_path() -> Iterable[str]:
    root = WORKER.parents[2]
    return str(root / "hooks"), str(root)


BACKENDS = ("memory", "filesystem")


def make(kind: str, directory: Path) -> Backend:
    match kind:
        case "memory":
            return Memory()
        case "filesystem":
            return Filesystem(directory)
        case _:
            raise AssertionError(kind)
