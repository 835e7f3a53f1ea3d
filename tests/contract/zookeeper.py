"""The contract suite's view of ZooKeeper: a path of its own for each test, and clients that a proxy fails."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from testkit.faults import Fault
from testkit.s3 import Missing
from testkit.zookeeper import Ensemble, Server, ZooKeeperProxy, ensemble
from tests.contract.backends import PATIENT
from tests.contract.worker import Win, race
from understudy.documents.model import DocumentStore
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.documents.zookeeper_address import parse
from understudy.documents.zookeeper_connection import ZooKeeperConnection
from understudy.environment import find_java
from understudy.events import Log

USER, PASSWORD = "flights", "a-secret"

_numbers = itertools.count(1)


@contextmanager
def running(directory: Path) -> Iterator[Ensemble]:
    """Skips where there is no ZooKeeper to start."""
    try:
        with ensemble(directory, str(find_java().home / "bin" / "java"), user=USER, password=PASSWORD) as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


@dataclass
class ZooKeeper:
    """A backend of the suite. ``operator`` is another program's client, below ``path``."""

    ensemble: Ensemble
    path: str = ""
    connections: list[ZooKeeperConnection] = field(default_factory=list)
    proxies: list[ZooKeeperProxy] = field(default_factory=list)
    operator: Any = None

    def __post_init__(self) -> None:
        self.path = f"/tests/{next(_numbers)}"
        self.operator = KazooClient(hosts=self.ensemble.hosts)
        self.operator.start(60)
        self.operator.ensure_path(self.path)

    def address(self, hosts: str = "", options: str = "") -> str:
        return f"{hosts or self.ensemble.hosts}{self.path}{options}"

    def connection(self, hosts: str = "", timeout: float = PATIENT, options: str = "") -> ZooKeeperConnection:
        made = ZooKeeperConnection(parse(self.address(hosts, options)), timeout)
        self.connections.append(made)
        return made

    def proxy(self, server: Server | None = None, faults: list[Fault | None] | None = None) -> ZooKeeperProxy:
        made = ZooKeeperProxy((server or self.ensemble.servers[0]).client_port, faults or [])
        made.start()
        self.proxies.append(made)
        return made

    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        hosts = f"127.0.0.1:{self.proxy(faults=list(faults)).port}" if faults else ""
        return ZooKeeperDocumentStore(self.connection(hosts), log=log)

    def cut_off(self) -> DocumentStore:
        proxy = self.proxy()
        proxy.cut()
        return ZooKeeperDocumentStore(self.connection(f"127.0.0.1:{proxy.port}", 0.3))

    def land(self) -> None:
        for each in self.proxies:
            each.land()

    def stored(self, name: str) -> bytes:
        data: bytes = self.operator.get(f"{self.path}/{name}")[0]
        return data

    def plant(self, name: str, data: bytes) -> None:
        try:
            self.operator.set(f"{self.path}/{name}", data)
        except NoNodeError:
            self.operator.create(f"{self.path}/{name}", data)

    def remove(self, name: str) -> None:
        self.operator.delete(f"{self.path}/{name}")

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

    def close(self) -> None:
        async def end() -> None:
            await asyncio.gather(*(each.close() for each in self.connections))

        for proxy in self.proxies:
            proxy.restore()
        asyncio.run(end())
        for proxy in self.proxies:
            proxy.close()
        self.operator.stop()
        self.operator.close()
