"""The contract suite's view of etcd: a prefix for each test, and clients that a proxy fails."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field

from etcd_tests.server import Cluster, Member, encoded, value_of
from testkit.faults import Fault
from testkit.s3 import S3Proxy, free_port
from tests.contract.backends import PATIENT
from tests.contract.worker import Win, race
from understudy.services.plugin import Content, Document, DocumentStore, Log, Outcome, SizeCheck
from understudy_etcd.address import parse
from understudy_etcd.client import EtcdClient
from understudy_etcd.documents import EtcdDocumentStore

_numbers = itertools.count(1)

#: What the proxy, which passes on any HTTP, does to the write that meets a fault.
_AT_THE_PROXY = {None: "pass", Fault.LOST_REQUEST: "503", Fault.LOST_ANSWER: "swallow", Fault.DELAYED: "keep"}


@dataclass
class PerCall:
    """A store that connects for every call, so that no connection outlives the event loop of a test."""

    address: str
    timeout: float = PATIENT
    log: Log | None = None
    size: SizeCheck = field(init=False)

    def __post_init__(self) -> None:
        self.size = SizeCheck(self.log)

    async def read(self, name: str) -> Document | None:
        async with self._opened() as store:
            return await store.read(name)

    async def create(self, name: str, content: Content) -> Outcome:
        async with self._opened() as store:
            return await store.create(name, content)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        async with self._opened() as store:
            return await store.replace(seen, content)

    async def bury(self, seen: Document) -> Outcome:
        async with self._opened() as store:
            return await store.bury(seen)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        async with self._opened() as store:
            async for document in store.watch(name):
                yield document

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[EtcdDocumentStore]:
        client = EtcdClient(parse(self.address), self.timeout)
        try:
            store = EtcdDocumentStore(client)
            store._size = self.size  # it warns once, however often it connects
            yield store
        finally:
            await client.close()


@dataclass
class Etcd:
    """A backend of the suite."""

    cluster: Cluster
    prefix: str = field(default_factory=lambda: f"/tests/{next(_numbers)}")
    proxies: list[S3Proxy] = field(default_factory=list)
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def operator(self) -> Member:
        return self.cluster.members[0]

    def address(self, hosts: str = "", options: str = "") -> str:
        return f"{hosts or self.cluster.hosts}{self.prefix}{options}"

    @asynccontextmanager
    async def opened(self, hosts: str = "", timeout: float = PATIENT) -> AsyncIterator[EtcdDocumentStore]:
        """A store whose connections last."""
        client = EtcdClient(parse(self.address(hosts)), timeout)
        try:
            yield EtcdDocumentStore(client)
        finally:
            await client.close()

    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        hosts = f"127.0.0.1:{self.proxy(*faults).port}" if faults else ""
        return PerCall(self.address(hosts), log=log)

    def proxy(self, *faults: Fault | None) -> S3Proxy:
        """Before the first member. ``faults`` befall the next writes, in order."""
        left = list(faults)

        def rule(line: str) -> str:
            return _AT_THE_PROXY[left.pop(0)] if "/v3/kv/txn" in line and left else "pass"

        made = self.running.enter_context(S3Proxy(self.operator.client_port, rule).running())
        self.proxies.append(made)
        return made

    def cut_off(self) -> DocumentStore:
        return PerCall(self.address(f"127.0.0.1:{free_port()}"))

    def land(self) -> None:
        for each in self.proxies:
            each.land()

    def stored(self, name: str) -> bytes:
        return value_of(self.operator, f"{self.prefix}/{name}")

    def plant(self, name: str, data: bytes) -> None:
        self.operator.ask("/v3/kv/put", {"key": encoded(f"{self.prefix}/{name}"), "value": encoded(data)})

    def remove(self, name: str) -> None:
        self.operator.ask("/v3/kv/deleterange", {"key": encoded(f"{self.prefix}/{name}")})

    def race(self, name: str, writers: int, rounds: int) -> list[Win]:
        wins: list[Win] = []

        def run(who: str) -> None:
            wins.extend(asyncio.run(race(self.client(), name, who, rounds)))

        threads = [threading.Thread(target=run, args=(f"writer-{i}",)) for i in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return wins
