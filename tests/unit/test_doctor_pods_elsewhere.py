"""A pod whose lock and documents are elsewhere: its pods and its rights are looked at as those of any other (docs/decisions/0068)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

from tests.doubles.memory import MemoryDocumentStore, MemoryServer
from tests.unit.answering import serving
from tests.unit.doctor_builders import SOUND, replica
from tests.unit.test_doctor_rights import Cluster, Rule, given_by_the_bundle
from understudy.cli.doctor import _asked_of_pods
from understudy.cli.where import Stores, Where
from understudy.doctor.examination import Here, Report, Subject, examine
from understudy.doctor.finding import Finding, Severity
from understudy.documents import api_server
from understudy.documents.api_server import ApiServer, _MountedToken
from understudy.ha.replicas import ReplicaStore

WITHOUT_DOCUMENTS = {rule for rule in given_by_the_bundle() if rule[2] not in {"configmaps", "leases"}}
LISTS = ("list", "", "pods", "")


def examined(directory: Path, allowed: set[Rule]) -> list[Finding]:
    (directory / "token").write_text("t")

    async def run() -> Report:
        documents = MemoryDocumentStore(MemoryServer())
        replicas = ReplicaStore(documents, "flights-replicas")
        await replicas.join("flights")
        await replicas.publish(replica("u1_a", "standby"))
        await replicas.publish(replica("u9_b", "standby", host="flights-9"))
        async with serving(Cluster(allowed).answer) as url:
            token = _MountedToken(directory / "token")
            async with ApiServer(client.Configuration(host=url), "tests", 5.0, token) as api:
                here = Here(local=True, pod=True, machine=lambda: SOUND)
                subject = Subject("flights", "", documents, documents, "zookeeper", here, asked_of_pods=api, pause=0.01)
                return await examine(subject)

    return asyncio.run(run()).findings


def test_its_rights_are_asked_and_a_pod_that_is_gone_is_noticed(tmp_path: Path) -> None:
    found = examined(tmp_path, WITHOUT_DOCUMENTS)
    (rights,) = (each for each in found if each.check == "rights")
    assert rights.severity is Severity.OK
    assert rights.text.endswith(f"has each of the {len(WITHOUT_DOCUMENTS)} rights that a replica needs")
    assert [each.text for each in found if "is gone, and what it said" in each.text] == [
        "flights-9 is gone, and what it said of itself is left"
    ]


def test_a_right_that_is_missing_is_named(tmp_path: Path) -> None:
    found = examined(tmp_path, WITHOUT_DOCUMENTS - {LISTS})
    (rights,) = (each for each in found if each.check == "rights")
    assert rights.severity is Severity.WARNING
    assert "may not list pods in tests" in rights.text


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("token", "t"), ("namespace", "jobs")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(api_server, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(ApiServer, "_in_cluster", classmethod(_in_cluster))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("UNDERSTUDY_POD_UID", "u1")
    return tmp_path


def _in_cluster(cls: type[ApiServer], timeout: float, namespace: str) -> ApiServer:
    """Without the certificate of a server that there is none of."""
    return cls(client.Configuration(host="http://127.0.0.1:1"), namespace, timeout)


def asked(**stores: Any) -> str | None:
    documents = MemoryDocumentStore(MemoryServer())
    where = Where(None, "flights", "jobs", "", "zookeeper", "zoo:2181")

    async def ask() -> str | None:
        async with _asked_of_pods(where, Stores("flights", documents, documents, "at zoo:2181", **stores)) as api:
            return None if api is None else api.namespace

    return asyncio.run(ask())


@pytest.mark.usefixtures("pod")
def test_the_server_is_the_pods_own_where_it_is_told_which_pod_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked() == "jobs"
    assert asked(home=Path("/x")) is None, "replicas that share a volume are one machine"
    monkeypatch.delenv("UNDERSTUDY_POD_UID")
    assert asked() is None, "a pod that is not told is a machine"
