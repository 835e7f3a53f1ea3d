"""What a replica runs on does not follow from where its documents are: a pod is a pod with either."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from tests.unit.answering import Handler, served
from understudy.config.timings import timings_from
from understudy.documents.api_server import ApiServer
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import AccessDenied, DocumentError, ServerUnreachable, SettingsError
from understudy.events import Log
from understudy.ha.replicas import Replica
from understudy.ha.services import HighAvailabilityServices
from understudy.processes import Alive, boot_id
from understudy.supervisor import backends
from understudy.supervisor.hosts import Host, NoEvidence, PodIdentity, this_machine
from understudy.supervisor.settings import RunSettings
from understudy.supervisor.workload import AfterExit

POD = {"UNDERSTUDY_POD_UID": "p-1", "UNDERSTUDY_POD_NAME": "flights-1", "UNDERSTUDY_POD_IP": "10.0.0.7"}
OWNER = {"kind": "Job", "name": "flights-29400120", "uid": "u-1", "controller": True}
SEEN: dict[str, Any] = {
    "metadata": {"ownerReferences": [OWNER]},
    "spec": {"restartPolicy": "Never", "containers": [{"image": "flights:1"}]},
}


def settings(tmp_path: Path, ha: str = "zookeeper") -> RunSettings:
    script = tmp_path / "job.py"
    script.touch()
    return RunSettings(script, (), (), "c", "j", tmp_path / "ha", timings_from("fast", {}), lock_kind=ha, ha=ha)


@pytest.fixture
def in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_TERMINATION_LOG", str(tmp_path / "termination"))
    for name, value in POD.items():
        monkeypatch.setenv(name, value)


def host_at(tmp_path: Path, handler: Handler) -> Host:
    """Of a pod whose documents no API server keeps, as one that answers as ``handler`` does tells it. It is closed again."""

    async def ask(api: ApiServer) -> Host:
        host = await backends._this_pod_alone(
            settings(tmp_path), PodIdentity.of_environment(), api, Log(stream=io.StringIO())
        )
        await host.close()
        return host

    return cast(Host, asyncio.run(served(handler, ask)))


@pytest.mark.usefixtures("in_a_pod")
def test_a_pod_asks_its_cluster_about_pods_wherever_its_documents_are(tmp_path: Path) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response(SEEN)

    host = host_at(tmp_path, handler)
    assert asked == ["/api/v1/namespaces/tests/pods/flights-1"]
    assert (host.name, host.address) == ("flights-1", "10.0.0.7:8080")
    assert host.told_of_deaths
    assert host.holder.startswith("p-1_"), "by which the kubelet's word of a death is told to be about it"
    assert (host.workload, host.after_exit) == ("flights-29400120/u-1", AfterExit.COUNTED)


@pytest.mark.usefixtures("in_a_pod")
@pytest.mark.parametrize(
    ("status", "error", "said"),
    [(403, AccessDenied, "may not see its own pod"), (503, ServerUnreachable, "cannot answer now")],
    ids=["forbidden", "outage"],
)
def test_a_pod_that_cannot_see_itself_says_why(
    tmp_path: Path, status: int, error: type[DocumentError], said: str
) -> None:
    """One that meets an outage is not told to look at its Role."""

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"message": "no"}, status=status)

    with pytest.raises(error, match=said):
        host_at(tmp_path, handler)


def test_a_machine_knows_its_own_dead_also_those_of_an_earlier_boot_and_no_others(tmp_path: Path) -> None:
    evidence = NoEvidence(tmp_path)
    alive = Alive(tmp_path / "mine")

    def entry(holder: str, boot: str) -> Replica:
        return Replica(holder, "standby", True, "live", 1, 1.0, "", "", 0, 1, "h", alive.inode, boot, 1.0)

    assert not evidence.is_dead(entry("mine", boot_id()))
    os.close(alive.descriptor)  # as with its last process
    alive.path.write_text("of an earlier boot")
    assert evidence.is_dead(entry("mine", "of an earlier boot"))
    assert not evidence.is_dead(entry("theirs", "of an earlier boot")), "another machine's boots are others"
    alive.path.write_text(boot_id())
    assert evidence.is_dead(entry("mine", boot_id()))


def test_what_is_not_told_that_it_is_a_pod_is_a_machine(tmp_path: Path) -> None:
    documents = FilesystemDocumentStore(tmp_path / "documents", 5.0)
    services = HighAvailabilityServices(documents, documents, place="elsewhere")
    host = asyncio.run(backends._host(settings(tmp_path), services, None, Log(stream=io.StringIO())))
    assert host.after_exit is AfterExit.NOTHING
    unasked = cast(Any, None)
    assert isinstance(host.evidence(unasked, unasked), NoEvidence)
    assert not host.told_of_deaths


@pytest.mark.usefixtures("in_a_pod")
@pytest.mark.parametrize(
    ("pod", "after"),
    [
        ("flights-0", AfterExit.RESTART),
        ("flights-12", AfterExit.RESTART),
        ("flights-29400120-24567", AfterExit.NOTHING),  # of a Job; its five random signs may all be digits
        ("flights-7c9f6d5b8-x2v4q", AfterExit.NOTHING),
        ("flights", AfterExit.NOTHING),
    ],
)
def test_on_a_volume_the_name_of_a_statefulsets_pod_says_that_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod: str, after: AfterExit
) -> None:
    monkeypatch.setenv("UNDERSTUDY_POD_NAME", pod)
    assert this_machine(settings(tmp_path)).after_exit is after


def test_a_machine_whose_name_ends_with_a_number_is_no_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_POD_UID", raising=False)
    monkeypatch.setenv("UNDERSTUDY_POD_NAME", "flights-0")
    assert this_machine(settings(tmp_path)).after_exit is AfterExit.NOTHING


@pytest.mark.usefixtures("in_a_pod")
def test_a_pod_whose_documents_are_on_its_own_volume_asks_no_server(tmp_path: Path) -> None:
    async def run() -> Host:
        services, host = await backends.connect(settings(tmp_path, "filesystem"), Log(stream=io.StringIO()))
        await services.close()
        return host

    assert asyncio.run(run()).name != "flights-1"


def test_a_pod_that_is_told_half_is_refused_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_POD_UID", "p-1")
    monkeypatch.delenv("UNDERSTUDY_POD_NAME", raising=False)
    with pytest.raises(SettingsError, match="UNDERSTUDY_POD_NAME: not set"):
        asyncio.run(backends.connect(settings(tmp_path), Log(stream=io.StringIO())))


@pytest.mark.parametrize("client", ["kazoo", "obstore", "kubernetes", "aiohttp"])
def test_a_supervisor_loads_no_client_before_it_is_needed(client: str) -> None:
    program = (
        "import sys, understudy.supervisor.backends, understudy.supervisor.supervisor\n"
        f"assert {client!r} not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
