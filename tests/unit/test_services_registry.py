"""``--ha`` and ``--lock``: which services they name, and what is said of those that cannot be used."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.config.locks import BUILT_IN
from understudy.documents.model import Content, Written
from understudy.errors import EnvironmentProblem, SettingsError
from understudy.services import registry
from understudy.services.plugin import ServicesSettings
from understudy.services.registry import Choice, choose

PLUGIN = """
from understudy.documents.filesystem import FilesystemDocumentStore
from understudy.errors import ServerUnreachable
from understudy.ha.services import HighAvailabilityServices
from understudy.services.plugin import Plugin

async def connect(settings):
    if settings.address == "raises":
        raise RuntimeError("out of order")
    if settings.address == "exits":
        raise SystemExit(0)
    if settings.address == "unreachable":
        raise ServerUnreachable("no answer", where="--ha-address", remedy="Start it")
    if settings.address == "number":
        return 7
    documents = FilesystemDocumentStore(settings.home / "shelf", settings.request_timeout)
    lock = object() if settings.address == "lock" else documents
    return HighAvailabilityServices(documents, lock, place=f"on the shelf {settings.address}")

async def clusters(settings):
    return sorted(each.parent.name for each in settings.ha_dir.glob("*/shelf"))

PLUGIN = Plugin(locks=("hook", "bolt"), connect=connect, clusters=clusters)
TAKES_A_NAME = Plugin(locks=("lease",), connect=connect)
NEEDS_A_PLACE = Plugin(locks=("hook",), connect=connect, address="HOST:PORT")
TEXT = Plugin(locks=("hook"), connect=connect)
LOCKLESS = Plugin(locks=(), connect=connect)
NUMBER = 7
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on Python's path with an installed package that provides services."""
    site = tmp_path / "site"
    info = site / "shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "shelf_services.py").write_text(PLUGIN)
    (site / "shelf_raises.py").write_text("raise RuntimeError('out of order')\n")
    (site / "shelf_exits.py").write_text("raise SystemExit(0)\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[understudy.ha]\nshelf = shelf_services:PLUGIN\ntakes = shelf_services:TAKES_A_NAME\n"
        "needs = shelf_services:NEEDS_A_PLACE\n"
        "text = shelf_services:TEXT\nraises = shelf_raises:PLUGIN\nexits = shelf_exits:PLUGIN\n"
        "lockless = shelf_services:LOCKLESS\nnumber = shelf_services:NUMBER\nbroken = shelf_services_not_there:PLUGIN\n"
        "filesystem = shelf_services:NUMBER\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "shelf_services", raising=False)
    return site


def settings(tmp_path: Path, address: str = "", cluster: str = "flights") -> ServicesSettings:
    return ServicesSettings(cluster=cluster, lock="hook", request_timeout=5.0, ha_dir=tmp_path / "ha", address=address)


@pytest.mark.parametrize(
    ("ha", "lock", "chosen"),
    [
        ("", "", Choice("filesystem", "file")),
        ("", "file", Choice("filesystem", "file")),
        ("", "multi", Choice("kubernetes", "multi")),
        ("kubernetes", "", Choice("kubernetes", "lease")),
        ("kubernetes", "configmap", Choice("kubernetes", "configmap")),
        ("filesystem", "", Choice("filesystem", "file")),
    ],
)
def test_each_follows_from_the_other(monkeypatch: pytest.MonkeyPatch, ha: str, lock: str, chosen: Choice) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert choose(ha, lock) == chosen


def test_in_a_pod_the_api_server_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    assert choose("", "") == Choice("kubernetes", "lease")
    assert choose("filesystem", "") == Choice("filesystem", "file")


def test_locks_of_a_built_in_are_those_that_it_makes() -> None:
    for name, kinds in BUILT_IN.items():
        assert registry.load(name).locks == kinds


def test_a_built_in_loads_no_client_of_another(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from understudy.services import registry; from understudy.services.plugin import ServicesSettings\n"
        "told = ServicesSettings(cluster='c', lock='file', request_timeout=5.0, ha_dir=Path(sys.argv[1]))\n"
        "asyncio.run(registry.connect('filesystem', told))\n"
        "print({'aiohttp', 'kazoo', 'kubernetes', 'obstore'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_an_unknown_lock_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        SettingsError, match="--lock: unknown lock 'spinlock'. Choose one of lease, configmap, multi, file"
    ):
        choose("", "spinlock")


def test_a_lock_that_these_services_do_not_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="--lock: 'lease' is no lock of --ha filesystem. .* choose file"):
        choose("filesystem", "lease")


def test_another_packages_services_are_found_by_their_name(shelf: Path, tmp_path: Path) -> None:
    async def use() -> None:
        assert choose("shelf", "") == Choice("shelf", "hook")
        assert choose("shelf", "bolt") == Choice("shelf", "bolt")
        services = await registry.connect("shelf", settings(tmp_path, "upstairs"))
        assert services.place == "on the shelf upstairs"
        assert isinstance(await services.documents.create("flights-lock", Content({"a": "b"})), Written)
        await services.close()
        assert await registry.clusters("shelf", settings(tmp_path, cluster="")) == ["flights"]

    asyncio.run(use())


def test_services_that_are_not_there_are_refused_with_those_that_are(shelf: Path) -> None:
    with pytest.raises(SettingsError, match=r"--ha: there are no services 'etcd'. Choose one of .*filesystem, .*shelf"):
        choose("etcd", "")


def test_a_package_that_cannot_be_imported_is_named(shelf: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"--ha broken: shelf_services_not_there:PLUGIN cannot be loaded"):
        choose("broken", "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("number", r"--ha number: its entry point names a builtins.int and no .*Plugin"),
        ("takes", "--ha takes: it calls a lock 'lease'"),
        ("lockless", "--ha lockless: it has no kind of lock"),
        ("text", "--ha text: its locks are no tuple of texts but 'hook'"),
    ],
)
def test_a_plug_in_that_is_none_is_refused(shelf: Path, name: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        registry.load(name)


def test_services_that_need_an_address_say_how_it_looks(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--ha-address: --ha needs needs a place. Write HOST:PORT"):
        asyncio.run(registry.connect("needs", settings(tmp_path)))
    asyncio.run(registry.connect("needs", settings(tmp_path, "upstairs")))


def test_a_name_that_two_packages_provide_is_refused(shelf: Path) -> None:
    info = shelf / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[understudy.ha]\nshelf = other_services:PLUGIN\n")
    with pytest.raises(
        SettingsError, match="--ha shelf: several packages provide it: other_services:PLUGIN, shelf_serv"
    ):
        registry.load("shelf")


def test_no_package_takes_the_name_of_a_built_in(shelf: Path) -> None:
    assert registry.load("filesystem").locks == ("file",)


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("raises", 2, "--ha shelf: its services raised RuntimeError: out of order"),
        ("exits", 2, "--ha shelf: its services raised SystemExit: 0"),
        ("number", 2, "--ha shelf: its services are a builtins.int"),
        ("lock", 2, "--ha shelf: its lock lack read, create, replace, bury, watch"),
        ("unreachable", 8, "--ha-address: no answer. Start it"),
    ],
)
def test_a_replica_ends_with_one_line_for_services_that_do_not_work(
    shelf: Path, tmp_path: Path, address: str, code: int, said: str
) -> None:
    (tmp_path / "job.py").write_text("")
    words = [
        "run",
        "--ha-dir",
        str(tmp_path / "ha"),
        "--ha",
        "shelf",
        "--ha-address",
        address,
        str(tmp_path / "job.py"),
    ]
    ended = understudy(shelf, *words)
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr.strip().splitlines()[-1]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("absent", 2, "--ha: there are no services 'absent'. Choose one of broken, exits, filesystem,"),
        ("broken", 3, "--ha broken: shelf_services_not_there:PLUGIN cannot be loaded: ModuleNotFoundError"),
        ("raises", 3, "--ha raises: shelf_raises:PLUGIN cannot be loaded: RuntimeError: out of order"),
        ("exits", 3, "--ha exits: shelf_exits:PLUGIN cannot be loaded: SystemExit: 0"),
        ("number", 2, "--ha number: its entry point names a builtins.int"),
        ("text", 2, "--ha text: its locks are no tuple of texts"),
    ],
)
@pytest.mark.parametrize("command", ["run", "status"])
def test_a_plug_in_that_cannot_be_used_is_one_error_at_start(
    shelf: Path, tmp_path: Path, command: str, name: str, code: int, said: str
) -> None:
    (tmp_path / "job.py").write_text("")
    last = [str(tmp_path / "job.py")] if command == "run" else []
    ended = understudy(shelf, command, "--ha-dir", str(tmp_path / "ha"), "--ha", name, *last)
    assert said in ended.stderr.strip().splitlines()[-1], ended.stderr
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "ha").exists()


def test_commands_look_where_the_services_are(shelf: Path, tmp_path: Path) -> None:
    asyncio.run(begun(settings(tmp_path)))
    words = ["status", "--ha-dir", str(tmp_path / "ha")]
    ended = understudy(shelf, *words, "--ha", "shelf", "--ha-address", "upstairs")
    assert (ended.returncode, "cluster flights on the shelf upstairs" in ended.stderr) == (9, True), ended.stderr
    ended = understudy(shelf, *words, UNDERSTUDY_HA="shelf", UNDERSTUDY_HA_ADDRESS="downstairs")
    assert (ended.returncode, "cluster flights on the shelf downstairs" in ended.stderr) == (9, True), ended.stderr
    ended = understudy(shelf, *words, "--ha", "shelf", "--cluster-id", "trains")
    assert ended.returncode == 2
    assert "--cluster-id: no cluster 'trains' on the shelf" in ended.stderr
    assert "There is flights" in ended.stderr
    ended = understudy(shelf, *words, "--ha-address", "upstairs")
    assert (ended.returncode, "--ha-address: whose it is is not said" in ended.stderr) == (2, True), ended.stderr


def test_a_state_is_declared_for_a_cluster_that_these_services_have_never_seen_if_both_ids_are_given(
    shelf: Path, tmp_path: Path
) -> None:
    """On an API server objects are there before the first replica; elsewhere nothing is."""
    words = ["ensure", "suspended", "--ha", "shelf", "--ha-dir", str(tmp_path / "ha"), "--cluster-id", "trains"]
    ended = understudy(shelf, *words)
    assert (ended.returncode, "no cluster 'trains' on the shelf" in ended.stderr) == (2, True), ended.stderr
    for _ in range(2):
        ended = understudy(shelf, *words, "--job-id", "arrivals")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "job arrivals of cluster trains on the shelf" in ended.stdout
        assert "is SUSPENDED; it has not begun" in ended.stdout


async def begun(told: ServicesSettings) -> None:
    from understudy.ha.replicas import ReplicaStore

    services = await registry.connect("shelf", told)
    await ReplicaStore(services.documents, "flights-replicas").join("flights")


def understudy(site: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), **variables}
    environment.pop("KUBERNETES_SERVICE_HOST", None)
    command = [sys.executable, "-m", "understudy.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
