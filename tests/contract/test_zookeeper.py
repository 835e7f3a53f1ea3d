"""The documents' contract against an ensemble of three servers, and what only ZooKeeper can get wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.states import KeeperState

from testkit.faults import Fault
from testkit.zookeeper import Ensemble
from tests.contract.backends import Filesystem
from tests.contract.histories import CLIENTS, MOVES, play
from tests.contract.moving import Ends, one

# The suite itself, run again here: pytest collects what these modules have, and finds the fixture below.
from tests.contract.test_documents import *  # noqa: F403
from tests.contract.test_documents import LEADER, NAME, standing, written
from tests.contract.test_moving import (  # noqa: F401
    test_a_replica_at_the_new_place_leads_with_an_epoch_above,
    test_killed_before_any_request_it_goes_on_and_never_do_both_places_start,
)
from tests.contract.test_settling import *  # noqa: F403
from tests.contract.test_stored_form import *  # noqa: F403
from tests.contract.zookeeper import PASSWORD, USER, ZooKeeper, running
from understudy.documents.model import Conflict, Content, Document, Unknown
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.documents.zookeeper_connection import _Session
from understudy.errors import AccessDenied, DocumentTooLarge, ServerUnreachable, SettingsError, UnderstudyError
from understudy.services import registry
from understudy.services.plugin import ServicesSettings


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(tmp_path_factory.mktemp("zookeeper")) as made:
        yield made


@pytest.fixture
def ends(servers: Ensemble, tmp_path: Path) -> Iterator[Callable[[], Ends]]:
    """A directory, and ZooKeeper."""
    made: list[ZooKeeper] = []

    def another() -> Ends:
        made.append(ZooKeeper(servers))
        disk = one("--ha filesystem", Filesystem(tmp_path / f"{len(made)}").client(), "file")
        return Ends(disk, "file", one("--ha zookeeper", made[-1].client(), "zookeeper"), "zookeeper")

    yield another
    for each in made:
        each.close()


@pytest.fixture
def backend(servers: Ensemble) -> Iterator[ZooKeeper]:
    made = ZooKeeper(servers)
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(6))  # type: ignore[no-redef]
def test_all_clients_see_one_history(backend: ZooKeeper, seed: int) -> None:
    choose = random.Random(seed)
    asyncio.run(play(backend, [(choose.randrange(CLIENTS), choose.choice(MOVES)) for _ in range(25)]))


def test_a_znode_that_was_deleted_and_made_again_is_another_one(backend: ZooKeeper) -> None:
    async def run() -> None:
        store = backend.client()
        seen = written(await store.create(NAME, Content({"a": "1"})))
        backend.remove(NAME)
        again = written(await backend.client().create(NAME, Content({"a": "2"})))
        assert seen.revision.endswith("/0")
        assert again.revision.endswith("/0")
        assert await store.replace(seen, Content({"a": "3"})) == Conflict(again)
        assert await store.read(NAME) == again

    asyncio.run(run())


def test_a_read_shows_what_was_answered_by_another_server(backend: ZooKeeper) -> None:
    """Without the sync a follower answers from what it has heard so far. The server that leads does nothing for a sync."""

    async def run() -> None:
        following = [each for each in backend.ensemble.servers if each is not backend.ensemble.leader]
        stores = [ZooKeeperDocumentStore(backend.connection(f"127.0.0.1:{each.client_port}")) for each in following]
        document = written(await stores[0].create(NAME, Content({"n": "0"})))
        for n in range(150):
            writer, reader = stores[n % 2], stores[(n + 1) % 2]
            document = written(await writer.replace(document, Content({"n": str(n)})))
            assert await reader.read(NAME) == document

    asyncio.run(run())


def test_no_znode_of_ours_is_ephemeral(backend: ZooKeeper) -> None:
    async def run() -> None:
        written(await backend.client().create(NAME, Content({"a": "1"}, LEADER)))

    asyncio.run(run())
    assert backend.operator.exists(f"{backend.path}/{NAME}").ephemeralOwner == 0


def test_what_does_not_fit_into_the_servers_buffer_is_refused_before_it_is_sent(backend: ZooKeeper) -> None:
    async def run() -> None:
        store = ZooKeeperDocumentStore(backend.connection(options="?jute.maxbuffer=65536"))
        with pytest.raises(DocumentTooLarge, match="jute.maxbuffer leaves 64512"):
            await store.create(NAME, Content({"a": "x" * 65_000}))
        assert await store.read(NAME) is None

    asyncio.run(run())


def test_a_request_has_its_own_time_out_and_what_was_sent_is_unknown(backend: ZooKeeper) -> None:
    async def run() -> None:
        seen = written(await backend.client().create(NAME, Content({"a": "1"})))
        proxy = backend.proxy()
        connection = backend.connection(f"127.0.0.1:{proxy.port}", 0.5)
        store = ZooKeeperDocumentStore(connection)
        assert await read_in_the_end(store) == seen
        proxy.cut()
        with pytest.raises(ServerUnreachable, match="no answer within 0.5 s|ConnectionLoss"):
            await store.read(NAME)
        assert isinstance(await store.replace(seen, Content({"a": "2"})), Unknown)
        assert isinstance(await store.create(f"{NAME}-2", Content({"a": "2"})), Unknown)
        proxy.restore()
        assert await read_in_the_end(store) == seen

    asyncio.run(run())


async def read_in_the_end(store: ZooKeeperDocumentStore) -> Document | None:
    """Once there is a connection."""
    async with asyncio.timeout(60):
        while True:
            with suppress(ServerUnreachable):
                return await store.read(NAME)


def test_a_write_whose_connection_breaks_is_unknown_and_sent_once(backend: ZooKeeper) -> None:
    async def run() -> None:
        seen = written(await backend.client().create(NAME, Content({"n": "0"})))
        outcome = await backend.client(Fault.LOST_ANSWER).replace(seen, Content({"n": "1"}))
        assert isinstance(outcome, Unknown)
        now = await standing(backend.client())
        assert now.revision == f"{seen.revision.partition('/')[0]}/1"

    asyncio.run(run())


def credentials(directory: Path, password: str = PASSWORD) -> Path:
    file = directory / f"credentials-{password}"
    file.write_text(f"{USER}:{password}\n")
    return file


@pytest.mark.parametrize("scheme", ["digest", "sasl"])
def test_documents_made_with_credentials_are_their_owners_alone(
    backend: ZooKeeper, tmp_path: Path, scheme: str
) -> None:
    async def run() -> None:
        own = ZooKeeperDocumentStore(backend.connection(options=f"?{scheme}={credentials(tmp_path)}"))
        document = written(await own.create(NAME, Content({"a": "1"})))
        for other in (
            backend.client(),
            ZooKeeperDocumentStore(backend.connection(options=f"?digest={credentials(tmp_path, 'b')}")),
        ):
            with pytest.raises(AccessDenied, match="ZooKeeper refuses us"):
                await other.read(NAME)
            with pytest.raises(AccessDenied):
                await other.replace(document, Content({"a": "2"}))
        assert await own.read(NAME) == document

    asyncio.run(run())


async def refused(address: str, tmp_path: Path) -> UnderstudyError:
    told = ServicesSettings(cluster="c", lock="zookeeper", request_timeout=2.0, ha_dir=tmp_path / "ha", address=address)
    with pytest.raises(UnderstudyError) as caught:
        await registry.connect("zookeeper", told)
    assert not (tmp_path / "ha").exists()
    return caught.value


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "--ha-address: --ha zookeeper needs a place. Write HOST:PORT,"),
        ("?ca=x", "--ha-address: '' is no host:port"),
        ("127.0.0.1:no", "--ha-address: '127.0.0.1:no' is no host:port"),
        ("a:2181,,b:2181", "--ha-address: '' is no host:port"),
        ("a:2181/x//y", "--ha-address: /x//y is no path"),
        ("a:2181?password=hunter2", "--ha-address: password=… is no option of it. There are digest,"),
        ("a:2181?digest=me:hunter2", "--ha-address: digest=… cannot be read: No such file"),
        ("me:hunter2@a:2181", "--ha-address: '…@a:2181' is no host:port"),
        ("a:2181?digest=/nowhere/x", "--ha-address: digest=/nowhere/x cannot be read: No such file"),
        ("a:2181?certificate=/x", "--ha-address: a certificate without ca"),
        ("a:2181?ca=/nowhere", "--ha-address: ca=/nowhere: there is no such file"),
        ("a:2181?jute.maxbuffer=1", "--ha-address: jute.maxbuffer=1 is no number"),
        ("no.such.host.invalid:2181", "--ha-address: none of no.such.host.invalid is the name of a machine"),
    ],
)
def test_an_address_that_is_wrong_is_named(
    tmp_path: Path, address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.services.zookeeper._FIRST", 0.5)
    error = asyncio.run(refused(address, tmp_path))
    assert isinstance(error, SettingsError)
    assert said in str(error)
    assert "hunter2" not in str(error)


def test_a_path_that_is_missing_is_named_with_how_to_make_it(backend: ZooKeeper, tmp_path: Path) -> None:
    error = asyncio.run(refused(f"{backend.ensemble.hosts}/tests/missing", tmp_path))
    assert isinstance(error, SettingsError)
    assert "there is no /tests/missing in ZooKeeper. Make it once" in str(error)
    assert backend.operator.exists("/tests/missing") is None


def test_wrong_credentials_are_told_at_the_start(backend: ZooKeeper, tmp_path: Path) -> None:
    error = asyncio.run(refused(backend.address(options=f"?sasl={credentials(tmp_path, 'wrong')}"), tmp_path))
    assert isinstance(error, AccessDenied)
    assert "--ha-address: ZooKeeper refuses us" in str(error)


def test_a_refusal_is_known_although_the_session_has_closed_since() -> None:
    """kazoo closes it at once, and our loop may have its turn only then."""

    async def run() -> None:
        session = _Session(KazooClient(hosts="127.0.0.1:1"), asyncio.get_running_loop())
        for state in (KeeperState.CONNECTED, KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            session.client._session_callback(state)
        with pytest.raises(AuthFailedError):
            async with asyncio.timeout(10):
                await session.connected()
        session.end()

    asyncio.run(run())


def test_clusters_are_found_by_their_replicas(backend: ZooKeeper, tmp_path: Path) -> None:
    told = ServicesSettings(
        cluster="", lock="zookeeper", request_timeout=5.0, ha_dir=tmp_path, address=backend.address()
    )

    async def run() -> None:
        for name in ("flights-replicas", "flights-lock", "trains-replicas"):
            written(await backend.client().create(name, Content({"a": "1"})))
        assert await registry.clusters("zookeeper", told) == ["flights", "trains"]

    asyncio.run(run())


def test_without_most_of_its_servers_a_start_ends_with_one_error(
    servers: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.services.zookeeper._FIRST", 3.0)
    for each in servers.servers[:2]:
        each.kill()
    try:
        error = asyncio.run(refused(servers.hosts, tmp_path))
        assert isinstance(error, ServerUnreachable)
        assert "no server answers that has most of the others" in str(error)
    finally:
        servers.repair()
