"""Commands that must find no leader look at both kinds of lock that a Kubernetes cluster has, whichever ``--lock`` says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from tests.doubles.epochs import nothing_granted
from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.answering import kubeconfig, serving
from understudy.cli.main import app
from understudy.documents.kubernetes import ConfigMapShape, LeaseShape
from understudy.documents.model import Content, LeaderRecord
from understudy.election.records import GRANT, GrantEntry
from understudy.errors import RequestRefused
from understudy.ha.backup import take
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.purge import Purge
from understudy.ha.replicas import ReplicaStore
from understudy.protocol.names import Names

NAMES = Names("c", "j")
SHAPES: dict[str, LeaseShape | ConfigMapShape] = {"lease": LeaseShape(), "configmap": ConfigMapShape()}
HELD = Content({GRANT: GrantEntry(2, "a", "nonce").encode()}, LeaderRecord("a", 0.2, "", "", 0))


async def documents_of_a_job(documents: MemoryDocumentStore) -> JobStore:
    """It has ended, and its leader still gives nothing back."""
    await ReplicaStore(documents, NAMES.replicas).join("j")
    jobs = JobStore(documents, NAMES.job_document, "j", "job.py")
    await jobs.end((await jobs.begin_attempt(2, "a", nothing_granted, Generation())).token, Status.FINISHED, "over")
    return jobs


@dataclass
class Cluster:
    """An API server with a job's documents, and a lock of one ``kind`` that a leader renews whenever it is read."""

    kind: str
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

    def keep(self, resource: str, name: str, stored: dict[str, Any]) -> None:
        meta = {"name": name, "uid": "1", "resourceVersion": "1", **stored.pop("metadata", {})}
        self.objects[resource, name] = {"metadata": meta, **stored}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            self.written.append(request.path)
        resource, name = request.path.rsplit("/", 2)[1:]
        if (found := self.objects.get((resource, name))) is None:
            return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
        if (resource, name) == (f"{self.kind}s", NAMES.lock):
            found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)
        return web.json_response(found)

    async def tell(self, path: Path, *words: str) -> Any:
        documents = MemoryDocumentStore(MemoryServer())
        jobs = await documents_of_a_job(documents)
        (path / "backup.json").write_text((await take(documents, NAMES, None, 1.0)).encode())
        await jobs.change(
            (await jobs.begin_attempt(7, "b", nothing_granted, Generation(), run="next")).token, lambda job: job
        )
        await jobs.end(
            (await jobs.begin_attempt(8, "b", nothing_granted, Generation(), run="next")).token, Status.FINISHED, ""
        )
        for name in (NAMES.job_document, NAMES.replicas):
            document = await documents.read(name)
            assert document is not None
            self.keep("configmaps", name, {"data": dict(document.entries)})
        self.keep(f"{self.kind}s", NAMES.lock, SHAPES[self.kind].patch(HELD))
        async with serving(self.answer) as address:
            kubeconfig(path, address)
            return await asyncio.to_thread(CliRunner().invoke, app, [*words, "--context", "test"])


@pytest.fixture(
    params=[("restore", "backup.json", "--overwrite"), ("purge", "--cluster-id", "c", "--remove")],
    ids=["restore", "purge"],
)
def words(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    told: tuple[str, ...] = request.param
    return told


@pytest.mark.parametrize("kind", ["lease", "configmap"])
@pytest.mark.parametrize("told", [(), ("--lock", "configmap")], ids=" ".join)
def test_nothing_is_written_under_a_leader_whatever_kind_its_lock_is_of(
    words: tuple[str, ...], kind: str, told: tuple[str, ...], tmp_path: Path
) -> None:
    cluster = Cluster(kind)
    done = asyncio.run(cluster.tell(tmp_path, *words, *told))
    assert isinstance(done.exception, RequestRefused), done.exception
    assert "replica a leads the job" in str(done.exception)
    assert cluster.written == []


def test_both_locks_become_tombstones() -> None:
    async def script() -> None:
        documents, lease, configmap = (MemoryDocumentStore(MemoryServer()) for _ in range(3))
        await documents_of_a_job(documents)
        for lock in (lease, configmap):
            await lock.create(NAMES.lock, HELD)
        purge = Purge(NAMES, documents, [lease, configmap])
        await purge.check()
        gone = [each async for each in purge.remove()]
        assert gone.count(f"document {NAMES.lock}, which becomes a tombstone") == 2
        for lock in (lease, configmap):
            left = await lock.read(NAMES.lock)
            assert left is not None
            assert left.buried

    asyncio.run(script())
