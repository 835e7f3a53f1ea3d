"""The contract suite's backend for a real API server: faults happen to requests on their way there and back."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from subprocess import PIPE, Popen
from typing import Any

from kubernetes.aio import client, config

from e2e.cluster.layout import REPOSITORY
from testkit.faults import Fault
from tests.contract.worker import Win
from understudy.documents.api_server import Answer, ApiServer, Json
from understudy.documents.kubernetes import ConfigMapShape, KubernetesDocumentStore, LeaseShape, Shape
from understudy.documents.model import Content, Document, DocumentStore, Outcome
from understudy.events import Log
from understudy.protocol.names import LEADER_ANNOTATION

SHAPES: dict[str, Shape] = {"configmap": ConfigMapShape(), "lease": LeaseShape()}

#: Seconds for requests that must not time out, however busy the machine is.
PATIENT = 60.0


def kubeconfig(path: str, context: str) -> client.Configuration:
    configuration = client.Configuration()
    asyncio.run(config.load_kube_config(path, context, client_configuration=configuration))
    return configuration


def with_token(like: client.Configuration, token: str) -> client.Configuration:
    """The same server, as a service account."""
    configuration = client.Configuration(host=like.host)
    configuration.ssl_ca_cert = like.ssl_ca_cert
    configuration.api_key["BearerToken"] = f"Bearer {token}"
    return configuration


@dataclass(slots=True)
class ServerFault:
    """What befalls the next writes; requests that are late wait in ``late``."""

    faults: list[Fault | None]
    late: list[tuple[str, str, Json | None, str, dict[str, str]]] = field(default_factory=list)


class FaultyServer(ApiServer):
    """An ``ApiServer`` between which and the real one things happen."""

    server_fault: ServerFault

    async def request(
        self, method: str, path: str, body: Json | None = None, *, patch: str = "", **query: str
    ) -> Answer:
        writes = method in ("POST", "PATCH")
        fault = self.server_fault.faults.pop(0) if writes and self.server_fault.faults else None
        match fault:
            case Fault.LOST_REQUEST:
                raise TimeoutError("the request got lost")
            case Fault.LOST_ANSWER:
                await super().request(method, path, body, patch=patch, **query)
                raise TimeoutError("the answer got lost")
            case Fault.DELAYED:
                self.server_fault.late.append((method, path, body, patch, query))
                raise TimeoutError("the request is late")
            case None:
                return await super().request(method, path, body, patch=patch, **query)


@dataclass(slots=True)
class PerCall:
    """A store that connects for every call, so that no connection outlives the event loop of a test."""

    backend: Kubernetes
    log: Log | None = None
    server_fault: ServerFault = field(default_factory=lambda: ServerFault([]))

    async def read(self, name: str) -> Document | None:
        async with self._server() as api:
            return await self._store(api).read(name)

    async def create(self, name: str, content: Content) -> Outcome:
        async with self._server() as api:
            return await self._store(api).create(name, content)

    async def replace(self, seen: Document, content: Content) -> Outcome:
        async with self._server() as api:
            return await self._store(api).replace(seen, content)

    async def bury(self, seen: Document) -> Outcome:
        async with self._server() as api:
            return await self._store(api).bury(seen)

    async def watch(self, name: str) -> AsyncIterator[Document | None]:
        async with self._server() as api:
            async for document in self._store(api).watch(name):
                yield document

    def _server(self) -> FaultyServer:
        server = FaultyServer(self.backend.configuration, self.backend.namespace, PATIENT)
        server.server_fault = self.server_fault
        return server

    def _store(self, api: ApiServer) -> KubernetesDocumentStore:
        return KubernetesDocumentStore(api, SHAPES[self.backend.shape], log=self.log)


@dataclass(slots=True)
class Kubernetes:
    """One namespace; ``shape`` says whether documents are ConfigMaps or Leases."""

    namespace: str
    shape: str
    configuration: client.Configuration
    environment: Mapping[str, str] = field(default_factory=dict)
    server_faults: list[ServerFault] = field(default_factory=list)

    def client(self, *faults: Fault | None, log: Log | None = None) -> DocumentStore:
        server_fault = ServerFault(list(faults))
        self.server_faults.append(server_fault)
        return PerCall(self, log, server_fault)

    def cut_off(self) -> DocumentStore:
        nowhere = client.Configuration(host="https://127.0.0.1:1")
        return PerCall(Kubernetes(self.namespace, self.shape, nowhere))

    def land(self) -> None:
        async def run() -> None:
            for server_fault in self.server_faults:
                for method, path, body, patch, query in server_fault.late:
                    async with self._api() as api:
                        await api.request(method, path, body, patch=patch, **query)
                server_fault.late.clear()

        _outside(run())

    def stored(self, name: str) -> bytes:
        raise NotImplementedError("an object is no piece of bytes")

    def plant(self, name: str, data: bytes) -> None:
        """As an operator would by hand: the leader record becomes ``data``."""
        patch = {"metadata": {"annotations": {LEADER_ANNOTATION: data.decode()}}}
        self._do("PATCH", name, patch)

    def remove(self, name: str) -> None:
        self._do("DELETE", name)

    def race(self, name: str, writers: int, rounds: int) -> list[Win]:
        command = [sys.executable, "-m", "e2e.harness.racing_writer", self.namespace, self.shape, name]
        environment = {**self.environment, "PYTHONPATH": f"{REPOSITORY / 'hooks'}{os.pathsep}{REPOSITORY}"}
        workers = [
            Popen([*command, f"writer-{i}", str(rounds)], env=environment, stdout=PIPE, text=True)
            for i in range(writers)
        ]
        outputs = [worker.communicate()[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * writers
        return [Win(*win) for output in outputs for win in json.loads(output)]

    def _do(self, method: str, name: str, body: Json | None = None) -> None:
        async def run() -> None:
            async with self._api() as api:
                shape = SHAPES[self.shape]
                answer = await api.request(
                    method, api.path(shape.resource, name, shape.group), body, patch="merge" if body else ""
                )
                assert answer.status == 200, answer.reason

        _outside(run())

    def _api(self) -> ApiServer:
        return ApiServer(self.configuration, self.namespace, PATIENT)


def _outside(work: Any) -> None:
    """Run ``work`` to its end although the caller may be inside an event loop of its own."""
    import threading

    thread = threading.Thread(target=asyncio.run, args=(work,))
    thread.start()
    thread.join()
