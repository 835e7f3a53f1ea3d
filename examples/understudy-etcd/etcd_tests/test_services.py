"""``--ha etcd``: addresses, credentials, TLS, and what is said of those that are wrong."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from etcd_tests.backend import Etcd
from etcd_tests.server import Cluster, Member, encoded, running
from testkit.ports import ports
from tests.contract.backends import PATIENT
from tests.contract.test_documents import NAME, written
from understudy.errors import UnderstudyError
from understudy.services import registry
from understudy.services.plugin import AccessDenied, Content, ServerUnreachable, ServicesSettings, SettingsError
from understudy_etcd.address import parse
from understudy_etcd.client import EtcdClient
from understudy_etcd.documents import EtcdDocumentStore
from understudy_etcd.services import PLUGIN


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry finds the package; ``test_package.py`` has it really installed."""
    info = tmp_path / "site" / "understudy_etcd-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: understudy-etcd\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[understudy.ha]\netcd = understudy_etcd:PLUGIN\n")
    monkeypatch.syspath_prepend(str(info.parent))


def told(tmp_path: Path, address: str, timeout: float = 30.0) -> ServicesSettings:
    return ServicesSettings(cluster="c", lock="etcd", request_timeout=timeout, ha_dir=tmp_path / "ha", address=address)


async def refused(tmp_path: Path, address: str, timeout: float = 30.0) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        await registry.connect("etcd", told(tmp_path, address, timeout))
    assert not (tmp_path / "ha").exists()
    return caught.value


def test_the_registry_finds_it_by_its_name() -> None:
    assert registry.load("etcd") is PLUGIN
    assert registry.choose("etcd", "") == registry.Choice("etcd", "etcd")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "--ha-address: --ha etcd needs a place. Write HOST:PORT,"),
        ("127.0.0.1:2379", "--ha-address: '' is no prefix of keys. Write HOST:PORT,"),
        ("a:2379/x//y", "--ha-address: 'x//y' is no prefix"),
        ("a:2379/x y", "--ha-address: 'x y' is no prefix"),
        ("/x", "--ha-address: '' is no host:port"),
        ("127.0.0.1:no/x", "--ha-address: '127.0.0.1:no' is no host:port"),
        ("a:2379,,b:2379/x", "--ha-address: '' is no host:port"),
        ("http://a:2379/x", "--ha-address: 'http://a:2379/x' is a URL. Write HOST:PORT,"),
        ("a:2379/x?password=hunter2", "--ha-address: password=… is no option of it. There are user,"),
        ("a:2379/x?user=me:hunter2", "--ha-address: user=… cannot be read: No such file"),
        ("me:hunter2@a:2379/x", "--ha-address: '…@a:2379' is no host:port"),
        ("http://me:hunter2@a:2379/x", "--ha-address: '…@a:2379/x' is a URL. Write HOST:PORT,"),
        ("a:2379/x?user=", "--ha-address: user=(nothing) is no option"),
        ("a:2379/x?user", "--ha-address: what follows ? is not OPTION=VALUE"),
        ("a:2379/x?user=/nowhere/x", "--ha-address: user=/nowhere/x cannot be read: No such file"),
        ("a:2379/x?certificate=/x", "--ha-address: a certificate without ca"),
        ("a:2379/x?ca=/x&key=/x", "--ha-address: a certificate and its key belong together"),
        ("a:2379/x?ca=/nowhere", "--ha-address: ca, certificate or key cannot be used: "),
        ("no.such.host.invalid:2379/x", "--ha-address: none of no.such.host.invalid is the name of a machine"),
    ],
)
def test_an_address_that_is_wrong_is_named(tmp_path: Path, address: str, said: str) -> None:
    error = asyncio.run(refused(tmp_path, address))
    assert isinstance(error, SettingsError)
    assert said in str(error)
    assert "hunter2" not in str(error)


def test_a_file_that_holds_no_user_is_refused_and_its_text_not_shown(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("a-secret\n")
    error = asyncio.run(refused(tmp_path, f"a:2379/x?user={tmp_path / 'user'}"))
    assert "does not hold USER:PASSWORD" in str(error)
    assert "a-secret" not in str(error)


def test_a_password_is_shown_by_nothing(tmp_path: Path) -> None:
    (tmp_path / "user").write_text("flights:a-secret\n")
    address = parse(f"a:2379/x?user={tmp_path / 'user'}")
    assert (address.user, address.password) == ("flights", "a-secret")
    assert "a-secret" not in f"{address} {address!r}"


def test_where_nothing_listens_every_member_is_named(tmp_path: Path) -> None:
    with ports(2) as (first, second):
        error = asyncio.run(refused(tmp_path, f"127.0.0.1:{first},127.0.0.1:{second}/x"))
    assert isinstance(error, ServerUnreachable)
    assert f"Look at each of 127.0.0.1:{first}, 127.0.0.1:{second}" in str(error)


def test_without_most_members_a_start_ends_with_one_error(tmp_path: Path, cluster: Cluster) -> None:
    for each in cluster.members[1:]:
        each.kill()
    try:
        error = asyncio.run(refused(tmp_path, f"{cluster.hosts}/x", 1.0))
        assert isinstance(error, ServerUnreachable)
        assert "--ha-address: no member answers that has most of the others" in str(error)
    finally:
        cluster.repair()


@pytest.mark.parametrize("leads", [True, False])
def test_a_start_goes_past_a_member_that_is_frozen(tmp_path: Path, cluster: Cluster, *, leads: bool) -> None:
    """If that was etcd's leader the others are electing one."""
    frozen = next(each for each in cluster.members if (each is cluster.leader) == leads)
    hosts = ",".join(each.address for each in sorted(cluster.members, key=lambda each: each is not frozen))

    async def run() -> None:
        services = await registry.connect("etcd", told(tmp_path, f"{hosts}/x", 2.0))
        await services.close()

    frozen.freeze()
    try:
        asyncio.run(run())
    finally:
        cluster.repair()


@pytest.mark.parametrize(("elections", "waits"), [(2, True), (100, False)])
def test_a_start_waits_for_an_election_but_not_for_ever(tmp_path: Path, elections: int, *, waits: bool) -> None:
    said = [(503, '{"code": 14, "message": "etcdserver: leader changed"}')] * elections
    said.append((200, '{"header": {}, "count": "0"}'))

    async def run() -> UnderstudyError | None:
        async with await asyncio.start_server(partial(answer_in_turn, said), "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
            if not waits:
                return await refused(tmp_path, address)
            services = await registry.connect("etcd", told(tmp_path, address))
            await services.close()
            return None

    error = asyncio.run(run())
    assert error is None or "leader changed" in str(error)
    assert len(said) == (0 if waits else elections - 3)


async def answer_in_turn(
    said: list[tuple[int, str]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await reader.readuntil(b"\r\n\r\n")
    status, body = said.pop(0)
    writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (
            404,
            "no such page",
            SettingsError,
            "--ha-address: what answers there is no etcd of 3.4 or newer with its JSON",
        ),
        (503, "busy", ServerUnreachable, "an answer with status 503"),
        (200, "<html>", ServerUnreachable, "an answer with status 200"),
        (200, "{}", ServerUnreachable, "an answer with status 200"),
        (400, '{"code": [3]}', ServerUnreachable, "an answer with status 400"),
        (307, "", ServerUnreachable, "an answer with status 307"),
    ],
)
def test_another_server_is_not_taken_for_etcd(
    tmp_path: Path, backend: Etcd, status: int, body: str, kind: type, said: str
) -> None:
    """Nor followed to one: what it has done with the request by then is not known."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        writer.write(f"{head}Location: {backend.operator.url}/v3/kv/range\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async def run() -> UnderstudyError:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            return await refused(tmp_path, f"127.0.0.1:{server.sockets[0].getsockname()[1]}/x")

    error = asyncio.run(run())
    assert isinstance(error, kind)
    assert said in str(error)


def test_connecting_writes_nothing(tmp_path: Path, backend: Etcd) -> None:
    async def run() -> None:
        before = backend.operator.ask("/v3/kv/range", {"key": encoded("/")})["header"]["revision"]
        services = await registry.connect("etcd", told(tmp_path, backend.address()))
        assert services.place == f"in etcd {backend.address()}"
        assert services.claims is None
        assert services.requests["requests"] == 1
        await services.close()
        assert backend.operator.ask("/v3/kv/range", {"key": encoded("/")})["header"]["revision"] == before

    asyncio.run(run())


def test_clusters_are_found_by_their_replicas_below_the_prefix(tmp_path: Path, backend: Etcd) -> None:
    async def run() -> None:
        for name in ("flights-replicas", "flights-lock", "trains-replicas"):
            written(await backend.client().create(name, Content({"a": "1"})))
        backend.operator.ask("/v3/kv/put", {"key": encoded(f"{backend.prefix}0/ships-replicas")})
        assert await registry.clusters("etcd", told(tmp_path, backend.address())) == ["flights", "trains"]

    asyncio.run(run())


@contextmanager
def guard(directory: Path, *options: str) -> Iterator[Cluster]:
    """One member with authentication on. ``flights`` may use the keys below ``/ours/``."""
    with running(directory, 1, *options) as made:
        admin = made.members[0]
        for name in ("root", "flights"):
            admin.ask("/v3/auth/user/add", {"name": name, "password": f"{name}-secret"})
            admin.ask("/v3/auth/role/add", {"name": name})
            admin.ask("/v3/auth/user/grant", {"user": name, "role": name})
        ours = {"permType": "READWRITE", "key": encoded("/ours/"), "range_end": encoded("/ours0")}
        admin.ask("/v3/auth/role/grant", {"name": "flights", "perm": ours})
        admin.ask("/v3/auth/enable", {})
        yield made


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Cluster]:
    with guard(tmp_path / "guarded") as made:
        yield made


def user(tmp_path: Path, text: str) -> str:
    (tmp_path / "user").write_text(text)
    return f"?user={tmp_path / 'user'}"


@pytest.mark.parametrize(
    ("prefix", "who", "said"),
    [
        ("ours", "", "user name is empty"),
        ("ours", "flights:wrong", "authentication failed"),
        ("ours", "another:flights-secret", "authentication failed"),
        ("theirs", "flights:flights-secret", "permission denied"),
    ],
)
def test_wrong_credentials_are_told_at_the_start(
    tmp_path: Path, guarded: Cluster, prefix: str, who: str, said: str
) -> None:
    error = asyncio.run(refused(tmp_path, f"{guarded.hosts}/{prefix}{user(tmp_path, who) if who else ''}"))
    assert isinstance(error, AccessDenied)
    assert said in str(error)
    assert f"user=FILE whose role may read and write keys below /{prefix}/" in str(error)


def openssl(*words: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make keys with")
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def signing_keys(directory: Path) -> str:
    """What ``--auth-token`` says of them: such tokens are good for one state of users and roles."""
    openssl("genrsa", "-out", f"{directory}/private", "2048")
    openssl("rsa", "-in", f"{directory}/private", "-pubout", "-out", f"{directory}/public")
    return f"jwt,pub-key={directory}/public,priv-key={directory}/private,sign-method=RS256"


@pytest.mark.parametrize("kind", ["simple", "jwt"])
def test_a_token_that_is_no_longer_good_is_replaced_and_the_write_lands_once(tmp_path: Path, kind: str) -> None:
    """etcd forgets simple tokens of a user who is changed, and tells signed ones that users and roles have changed since."""

    async def run(member: Member) -> None:
        client = EtcdClient(parse(f"{member.address}/ours{user(tmp_path, 'flights:flights-secret')}"), 30.0)
        store = EtcdDocumentStore(client)
        first = written(await store.create(NAME, Content({"a": "1"})))
        root = member.ask("/v3/auth/authenticate", {"name": "root", "password": "root-secret"})["token"]
        member.ask("/v3/auth/user/changepw", {"name": "flights", "password": "flights-secret"}, root)
        second = written(await store.replace(first, Content({"a": "2"})))
        assert int(second.revision) == int(first.revision) + 1
        await client.close()

    with guard(tmp_path / "guarded", "--auth-token", signing_keys(tmp_path) if kind == "jwt" else "simple") as made:
        asyncio.run(run(made.members[0]))


def test_a_watch_that_is_refused_has_ended(tmp_path: Path, guarded: Cluster) -> None:
    """etcd says so in it, and leaves it open. The look that follows brings a token, and the next watch is a watch."""

    async def run() -> None:
        client = EtcdClient(parse(f"{guarded.hosts}/ours{user(tmp_path, 'flights:flights-secret')}"), 30.0)
        key = encoded(f"/ours/{NAME}")
        async with client.watch(key) as happened:
            assert not await happened(PATIENT)
        await EtcdDocumentStore(client).read(NAME)
        async with client.watch(key) as happened:
            assert await happened(PATIENT)
        await client.close()

    asyncio.run(run())


def test_credentials_for_an_etcd_without_users_are_refused(tmp_path: Path, cluster: Cluster) -> None:
    error = asyncio.run(refused(tmp_path, f"{cluster.hosts}/x{user(tmp_path, 'flights:a-secret')}"))
    assert "authentication is not enabled" in str(error)
    assert "a-secret" not in str(error)


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Cluster]:
    """One member that asks for a certificate. ``own.pem``, with ``own.key``, is everyone's and vouches for itself."""
    certificate, key = tmp_path / "own.pem", tmp_path / "own.key"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=etcd -keyout {key} -out {certificate}".split()
    openssl(*words, "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("--cert-file", str(certificate), "--key-file", str(key), "--trusted-ca-file", str(certificate))
    context = ssl.create_default_context(cafile=certificate)
    context.load_cert_chain(certificate, key)
    with running(tmp_path / "sealed", 1, *files, "--client-cert-auth", tls=context) as made:
        yield made


def test_tls_checks_the_member_and_shows_our_certificate(tmp_path: Path, sealed: Cluster) -> None:
    own = f"ca={tmp_path / 'own.pem'}&certificate={tmp_path / 'own.pem'}&key={tmp_path / 'own.key'}"

    async def run() -> None:
        services = await registry.connect("etcd", told(tmp_path, f"{sealed.hosts}/x?{own}"))
        document = written(await services.documents.create(NAME, Content({"a": "1"})))
        assert await services.documents.read(NAME) == document
        await services.close()

    asyncio.run(run())


@pytest.mark.parametrize("ca", ["", "another"])
def test_a_member_that_tls_does_not_vouch_for_is_not_spoken_to(tmp_path: Path, sealed: Cluster, ca: str) -> None:
    options = ""
    if ca:
        words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -keyout {tmp_path}/x.key -out {tmp_path}/x.pem"
        openssl(*words.split())
        options = f"?ca={tmp_path}/x.pem&certificate={tmp_path}/own.pem&key={tmp_path}/own.key"
    error = asyncio.run(refused(tmp_path, f"{sealed.hosts}/x{options}"))
    assert isinstance(error, ServerUnreachable)
    assert "is TLS on at both ends or at none?" in str(error)
