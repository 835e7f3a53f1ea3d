"""``understudy status`` and ``resume``: what is not there, not allowed, not reachable and not begun are told apart."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.doubles.epochs import nothing_granted
from tests.unit.answering import kubeconfig, serving
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.documents.model import DocumentStore
from understudy.ha.generation import Generation
from understudy.ha.job import Status
from understudy.ha.job_store import JobStore
from understudy.ha.replicas import Replica, ReplicaStore
from understudy.protocol.token import Token


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    error: str


async def understudy(*words: str, **environment: str) -> Said:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "understudy.cli.main", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    out, error = await process.communicate()
    return Said(process.returncode or 0, out.decode(), error.decode())


def of_machine(home: Path, *words: str) -> Said:
    return asyncio.run(understudy(words[0], "--ha-dir", str(home), *words[1:]))


def begin(home: Path, cluster: str, *, failed: str = "", led: bool = True) -> None:
    """A cluster of a job, as replicas leave it."""

    async def write() -> None:
        documents: DocumentStore = FilesystemDocumentStore(home / cluster / "documents", 5.0)
        await ReplicaStore(documents, f"{cluster}-replicas").join(cluster)
        if not led:
            return
        jobs = JobStore(documents, f"{cluster}-{cluster}", cluster, "job.py")
        job = await jobs.begin_attempt(1, "holder", nothing_granted, Generation())
        if failed:
            await jobs.failed_once(job.token, 1.0, 60.0, failed)
            await jobs.end(Token(1, 1), Status.FAILED, failed)

    asyncio.run(write())


class TestOnOneMachine:
    def test_a_mistyped_id_is_told_what_there_is(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights")
        for command in ("status", "resume"):
            said = of_machine(tmp_path, command, "--cluster-id", "flihgts")
            assert (said.code, said.out) == (2, "")
            assert f"--cluster-id: no cluster 'flihgts' under {tmp_path}. There is flights" in said.error

    def test_a_job_that_never_began_says_so(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights", led=False)
        for command in ("status", "resume"):
            said = of_machine(tmp_path, command, "--cluster-id", "flights")
            assert said.code == 9, said
            assert "no replica has ever led" in said.error
            assert "NEW" not in said.out

    def test_a_failed_job_says_why(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights", failed="ValueError: no such airport, password=hunter2hunter2")
        said = of_machine(tmp_path, "status")
        assert said.code == 0
        assert "FAILED" in said.out
        assert "reason  ValueError: no such airport, password=***" in said.out

    def test_without_an_id_it_lists_what_there_is(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights")
        begin(tmp_path, "trains", failed="of something")
        said = of_machine(tmp_path, "status")
        assert said.code == 0
        assert [line.split()[:3] for line in said.out.splitlines()] == [
            ["flights", "flights", "RUNNING"],
            ["trains", "trains", "FAILED"],
        ]
        assert [each["cluster"] for each in json.loads(of_machine(tmp_path, "status", "--json").out)] == [
            *("flights", "trains")
        ]
        assert of_machine(tmp_path, "resume").code == 2, "which of them is not guessed"

    def test_a_record_that_cannot_be_read_is_neither_a_new_job_nor_a_success(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights")
        begin(tmp_path, "torn")
        (tmp_path / "torn" / "documents" / "torn-torn@1").write_text("{")
        said = of_machine(tmp_path, "status", "--cluster-id", "torn")
        assert (said.code, said.out.splitlines()[0]) == (4, "cluster torn   job torn   UNKNOWN")
        assert "torn-torn@1: the document is not JSON" in said.error
        listed = of_machine(tmp_path, "status")
        assert listed.code == 4, "of several clusters, the one that cannot be read is not passed over"
        assert [line.split()[:3] for line in listed.out.splitlines()[:2]] == [
            ["flights", "flights", "RUNNING"],
            ["torn", "torn", "UNKNOWN"],
        ]
        assert "problem: " in listed.out
        assert "torn-torn@1" in listed.error

    def test_a_record_that_is_gone_is_no_job_that_never_began(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights")
        asyncio.run(publish_leader(tmp_path, "flights"))
        (tmp_path / "flights" / "documents" / "flights-flights@1").unlink()
        said = of_machine(tmp_path, "status")
        assert said.code == 4, said
        assert "the job's record is gone, and replicas have led it before" in said.error

    def test_a_lock_that_cannot_be_read_is_no_success(self, tmp_path: Path) -> None:
        begin(tmp_path, "flights")
        (tmp_path / "flights" / "documents" / "flights-lock@1").write_text("{")
        said = of_machine(tmp_path, "status")
        assert said.code == 4, said
        assert "RUNNING" in said.out, "the rest is shown"

    @pytest.mark.parametrize("command", ["status", "result", "leader", "doctor"])
    def test_a_job_that_was_removed_is_neither_there_nor_one_that_never_began(
        self, tmp_path: Path, command: str
    ) -> None:
        begin(tmp_path, "flights", failed="ValueError")
        assert of_machine(tmp_path, "purge", "--cluster-id", "flights", "--remove").code == 0
        said = of_machine(tmp_path, command, "--cluster-id", "flights")
        assert said.code == 5, said
        assert "were removed for good" in said.out + said.error
        assert "FAILED" not in said.out

    @pytest.mark.parametrize("interval", ["nan", "inf", "-1", "0"])
    def test_an_interval_that_is_none_is_refused_by_name(self, tmp_path: Path, interval: str) -> None:
        begin(tmp_path, "flights")
        said = of_machine(tmp_path, "status", "--watch", "--interval", interval)
        assert said.code == 2, said
        assert said.error.startswith("understudy: --interval: ")


async def publish_leader(home: Path, cluster: str) -> None:
    """A leader has said that the job has begun, and has left since."""
    documents: DocumentStore = FilesystemDocumentStore(home / cluster / "documents", 5.0)
    replicas = ReplicaStore(documents, f"{cluster}-replicas")
    await replicas.publish(Replica("a", "leader", False, "", 0, 0.0, "", "", 0, 1, "host", 1, "boot", 1.0))
    await replicas.leave("a")


Handler = Callable[[web.Request], Awaitable[web.Response]]


def in_kubernetes(tmp_path: Path, handler: Handler | None, *words: str) -> Said:
    """What the command says where ``handler`` is the API server, or nothing listens."""

    async def ask() -> Said:
        if handler is None:
            with socket.socket() as nothing:
                nothing.bind(("127.0.0.1", 0))
                return await _with_kubeconfig(tmp_path, f"http://127.0.0.1:{nothing.getsockname()[1]}", words)
        async with serving(handler) as address:
            return await _with_kubeconfig(tmp_path, address, words)

    return asyncio.run(ask())


async def _with_kubeconfig(tmp_path: Path, address: str, words: tuple[str, ...]) -> Said:
    path = kubeconfig(tmp_path, address)
    return await understudy(words[0], "--context", "test", *words[1:], KUBECONFIG=str(path))


def configmap(name: str) -> dict[str, Any]:
    """As the bundle makes it: it has not been written yet."""
    labels = {"understudy.dev/cluster": name.removesuffix("-replicas")}
    return {"metadata": {"name": name, "uid": "1", "resourceVersion": "1", "labels": labels}}


async def knows_flights(request: web.Request) -> web.Response:
    name = request.path.rpartition("/")[2]
    if name == "configmaps":
        items = [configmap("flights-replicas"), configmap("flights-lock")]
        return web.json_response({"items": items if "cluster" in request.query["labelSelector"] else []})
    if request.path.endswith("configmaps/flights-replicas"):
        return web.json_response(configmap("flights-replicas"))
    return web.json_response({"kind": "Status", "reason": "NotFound", "message": "not found"}, status=404)


async def forbids(request: web.Request, user: str = "system:serviceaccount:jobs:watcher") -> web.Response:
    message = f'configmaps is forbidden: User "{user}" cannot get resource "configmaps"'
    return web.json_response({"reason": "Forbidden", "message": message}, status=403)


async def forbids_ann(request: web.Request) -> web.Response:
    return await forbids(request, "ann")


async def knows_no_one(_: web.Request) -> web.Response:
    return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)


async def is_overloaded(_: web.Request) -> web.Response:
    return web.json_response({"kind": "Status", "message": "no leader of etcd"}, status=503)


@pytest.mark.parametrize("command", ["status", "resume", "leader"])
@pytest.mark.parametrize(
    ("handler", "cluster", "code", "said"),
    [
        (knows_flights, "flihgts", 2, "--cluster-id: no cluster 'flihgts' in namespace jobs. There is flights"),
        (knows_flights, "flights", 9, "no replica"),
        (forbids, "flights", 7, "this service account (jobs/watcher) may not get configmaps jobs/flights-replicas"),
        (forbids_ann, "flights", 7, "[flights-replicas] to their Role (docs/requests.md has one) of namespace jobs"),
        (knows_no_one, "flights", 4, "the API server does not know who asks"),
        (is_overloaded, "flights", 8, "the API server cannot answer now"),
        (None, "flights", 8, "the API server does not answer"),
    ],
    ids=["mistyped", "never-began", "forbidden", "a-person-forbidden", "not-logged-in", "overloaded", "down"],
)
def test_in_kubernetes_different_things_are_different_sentences_and_exit_codes(
    tmp_path: Path, command: str, handler: Handler | None, cluster: str, code: int, said: str
) -> None:
    found = in_kubernetes(tmp_path, handler, command, "--cluster-id", cluster)
    assert found.code == code, found
    assert said in found.error
    assert len(found.error.strip().splitlines()) == 1
    assert "NEW" not in found.out


def test_in_kubernetes_clusters_are_found_by_label(tmp_path: Path) -> None:
    assert in_kubernetes(tmp_path, knows_flights, "status").code == 9, "the only one there is was looked at"
    listed = in_kubernetes(tmp_path, forbids, "status")
    assert listed.code == 7
    assert "may not list configmaps" in listed.error
