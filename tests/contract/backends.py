"""What the contract suite needs of a backend. A new backend is one more class here and one more line in ``BACKENDS``."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Protocol

from obstore import delete, get, put

from testkit import s3
from testkit.faults import Fault
from tests.contract.worker import Win, race
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import Content, Document, DocumentStore, Outcome, Unknown
from understudy.documents.numbered import Numbered
from understudy.documents.s3 import S3DocumentStore
from understudy.events import Log
from understudy.s3.client import Prefix
from understudy.s3.settings import S3Settings

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
        return _race_in_threads(self.client, name, writers, rounds)


def _race_in_threads(client: Callable[[], DocumentStore], name: str, writers: int, rounds: int) -> list[Win]:
    """With one client and one event loop each."""
    wins: list[Win] = []

    def run(who: str) -> None:
        wins.extend(asyncio.run(race(client(), name, who, rounds)))

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


class Stuck:
    """A request that stands still at a step until it is let go on."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, step: str) -> None:
        if step == self.step:
            self.reached.set()
            self.go_on.wait()
        if step == "temporary-removed":
            self.ended.set()


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
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(import_path())}
        return Popen(command, env=environment, stdin=PIPE, stdout=PIPE, text=True)


def import_path() -> Iterable[str]:
    root = WORKER.parents[2]
    return str(root / "hooks"), str(root)


#: A port on which nothing listens.
_NOWHERE = 9

#: What the proxy before a bucket's server does to the write that meets a fault.
_AT_THE_PROXY = {None: "pass", Fault.LOST_REQUEST: "503", Fault.LOST_ANSWER: "swallow", Fault.DELAYED: "keep"}


class _FaultyBucket(S3DocumentStore):
    """Its writes pass the proxy, one at a time, and meet the faults there."""

    def __init__(self, faults: list[Fault | None], proxy: s3.S3Proxy, prefix: str) -> None:
        super().__init__(s3.BUCKET, prefix, bucket_settings(proxy.port), PATIENT)
        self._faults, self._proxy = faults, proxy

    async def create(self, name: str, content: Content) -> Outcome:
        with self._fault():
            return await super().create(name, content)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        with self._fault():
            return await super().replace(seen, content)

    @contextmanager
    def _fault(self) -> Iterator[None]:
        meets = _AT_THE_PROXY[self._faults.pop(0) if self._faults else None]
        self._proxy.rule = lambda line: meets if line.startswith("PUT ") else "pass"
        try:
            yield
        finally:
            self._proxy.rule = lambda _: "pass"


@dataclass(slots=True)
class Bucket:
    """A prefix of its own in the bucket behind ``proxy``."""

    proxy: s3.S3Proxy
    prefix: str

    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        if faults:
            return _FaultyBucket(list(faults), self.proxy, self.prefix)
        settings = bucket_settings(self.proxy.upstream)
        return S3DocumentStore(s3.BUCKET, self.prefix, settings, PATIENT, log=log, look=0.02)

    def cut_off(self) -> DocumentStore:
        return S3DocumentStore(s3.BUCKET, self.prefix, bucket_settings(_NOWHERE), PATIENT)

    def land(self) -> None:
        self.proxy.land()

    def stored(self, name: str) -> bytes:
        objects = self._objects()
        return bytes(get(objects.store, objects.path(name)).bytes())

    def plant(self, name: str, data: bytes) -> None:
        objects = self._objects()
        put(objects.store, objects.path(name), data)

    def remove(self, name: str) -> None:
        objects = self._objects()
        delete(objects.store, objects.path(name))

    def race(self, name: str, writers: int, rounds: int) -> list[Win]:
        return _race_in_threads(self.client, name, writers, rounds)

    def _objects(self) -> Prefix:
        settings = bucket_settings(self.proxy.upstream)
        return Prefix(s3.BUCKET, self.prefix, settings, PATIENT, retries=0, patience=PATIENT)


def bucket_settings(port: int) -> S3Settings:
    return S3Settings(f"http://127.0.0.1:{port}", "us-east-1", path_style=True, key=s3.KEY, secret=s3.SECRET)


BACKENDS = ("memory", "filesystem", "s3")


@dataclass(slots=True)
class Servers:
    """The servers that backends share, started where one is first needed. Backends keep apart by names below ``directory``."""

    directory: Path
    running: ExitStack
    proxy: s3.S3Proxy | None = None

    def make(self, kind: str, directory: Path) -> Backend:
        match kind:
            case "memory":
                return Memory()
            case "filesystem":
                return Filesystem(directory)
            case "s3":
                if self.proxy is None:
                    port = self.running.enter_context(s3.server(self.directory))
                    self.proxy = self.running.enter_context(s3.S3Proxy(port).running())
                return Bucket(self.proxy, directory.name)
            case _:
                raise AssertionError(kind)
