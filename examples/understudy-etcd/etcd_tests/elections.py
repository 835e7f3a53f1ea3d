"""Elections on three members: each candidate reaches each member over a wire of its own, which can be cut."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from etcd_tests.server import Cluster, Member
from tests.contract import candidates
from tests.contract.candidates import FAST, Candidate, contend
from understudy.config.timings import Timings
from understudy_etcd.address import parse
from understudy_etcd.client import EtcdClient
from understudy_etcd.documents import EtcdDocumentStore


@dataclass
class Wire:
    """A candidate's way to one member."""

    upstream: int
    port: int = 0
    _whole: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        self._whole.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        self._whole.clear()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for each in self._serving:
            each.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:
            writer.close()
            return
        try:
            both = [
                asyncio.ensure_future(self._pass(reader, requests)),
                asyncio.ensure_future(self._pass(answers, writer)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        finally:
            requests.close()
            writer.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._whole.wait()
                sink.write(data)
                await sink.drain()


@dataclass
class OnEtcd:
    cluster: Cluster
    prefix: str

    @property
    def leader(self) -> Member:
        return self.cluster.leader

    async def join(self, holder: str, all_of_them: list[Candidate], timings: Timings = FAST) -> candidates.Member:
        wires = [Wire(each.client_port) for each in self.cluster.members]
        for each in wires:
            await each.start()
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in wires)
        client = EtcdClient(parse(f"{hosts}/{self.prefix}"), timings.request)
        member = contend(EtcdDocumentStore(client), "etcd", holder, all_of_them, [*wires], timings)

        async def close() -> None:
            await client.close()
            for each in wires:
                await each.close()

        member.close = close
        return member
