"""TLS to a real ZooKeeper server: what connects, and what ends a start with one error.

One server demands certificates of its clients, on its port for TLS, and has a port without TLS; another one demands none.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from testkit.s3 import Missing
from testkit.zookeeper_secure import Authority, Certificate, SecureServer, openssl, secure_server
from tests.contract.candidates import FAST, Candidate, contend
from understudy.documents.model import Content, Written
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.documents.zookeeper_address import parse
from understudy.documents.zookeeper_connection import UnansweredError, ZooKeeperConnection
from understudy.documents.zookeeper_tls import find_fault
from understudy.election.state import Role
from understudy.environment import find_java
from understudy.errors import AccessDenied, ServerUnreachable, SettingsError, UnderstudyError
from understudy.services import registry
from understudy.services.plugin import ServicesSettings

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bench:
    """``own``: of a client that the server trusts. ``strange``: signed by another authority. ``locked``: a key with a password."""

    demanding: SecureServer
    authority: Authority
    own: Certificate
    over: Certificate
    other: Authority
    strange: Certificate
    locked: Path
    operator: Any

    def path(self) -> str:
        made = f"/tests/{next(_numbers)}"
        self.operator.ensure_path(made)
        return made

    def options(self, ca: Path | None = None, own: Certificate | None = None) -> str:
        mine = own or self.own
        return f"?ca={ca or self.authority.ca}&certificate={mine.certificate}&key={mine.key}"


@pytest.fixture(scope="module")
def java() -> str:
    return str(find_java().home / "bin" / "java")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, java: str) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("tls")
    with ExitStack() as stack:
        try:
            authority, other = Authority.made(directory / "ours"), Authority.made(directory / "theirs")
            own, locked = authority.issue("flights"), directory / "locked.key"
            lock = ("-topk8", "-v2", "aes-256-cbc", "-passout", "pass:a-secret", "-in", str(own.key))
            openssl("pkcs8", *lock, "-out", str(locked))
            server = stack.enter_context(secure_server(directory / "demanding", java, authority, client="need"))
        except Missing as missing:
            pytest.skip(str(missing))
        operator = KazooClient(hosts=server.plain)
        operator.start(60)
        yield Bench(
            server, authority, own, authority.issue("over", -1), other, other.issue("flights"), locked, operator
        )
        operator.stop()
        operator.close()


def told(address: str, directory: Path) -> ServicesSettings:
    ha_dir = directory / "ha"
    return ServicesSettings(cluster="c", lock="zookeeper", request_timeout=2.0, ha_dir=ha_dir, address=address)


async def round_of(address: str) -> None:
    """A document, and two electors whose leader hands over."""
    stores = [ZooKeeperDocumentStore(ZooKeeperConnection(parse(address), FAST.request)) for _ in range(2)]
    outcome = await stores[0].create("flights-job", Content({"a": "1"}))
    assert isinstance(outcome, Written)
    assert await stores[1].read("flights-job") == outcome.document
    everyone: list[Candidate] = []
    leader = contend(stores[0], "zookeeper", "a", everyone, [], FAST)
    await leader.until(Role.LEADING)
    follower = contend(stores[1], "zookeeper", "b", everyone, [], FAST)
    await asyncio.sleep(2 * FAST.retry)
    leader.candidate.open_until = 0.0
    leader.elector.stop()
    assert await leader.elector.release("b")
    await follower.until(Role.LEADING)
    await asyncio.gather(leader.end(), follower.end())
    assert [each.epochs for each in everyone] == [[1], [2]]
    await asyncio.gather(*(each._connection.close() for each in stores))


def test_documents_and_an_election_pass_with_a_certificate_that_the_server_demands(
    bench: Bench, tmp_path: Path
) -> None:
    address = f"{bench.demanding.tls}{bench.path()}{bench.options()}"

    async def run() -> None:
        services = await registry.connect("zookeeper", told(address, tmp_path))
        await services.close()
        await round_of(address)

    asyncio.run(run())


def test_a_ca_is_all_that_a_server_needs_which_demands_no_certificate(bench: Bench, tmp_path: Path, java: str) -> None:
    with secure_server(tmp_path, java, bench.authority, client="none") as server:

        async def run() -> None:
            services = await registry.connect("zookeeper", told(f"{server.tls}?ca={bench.authority.ca}", tmp_path))
            assert await services.documents.read("flights-job") is None
            await services.close()

        asyncio.run(run())


def test_many_requests_at_once_are_all_answered(bench: Bench) -> None:
    """Several answers may come in one record of TLS, of which no ``select`` tells."""

    async def run() -> None:
        connection = ZooKeeperConnection(parse(f"{bench.demanding.tls}{bench.path()}{bench.options()}"), 5.0)
        for _ in range(10):
            answers = await connection.ask(lambda client: [client.exists_async("/") for _ in range(200)])
            assert len(answers) == 200
        await connection.close()

    asyncio.run(run())


def test_a_file_that_is_put_back_counts_from_the_next_connection_on(bench: Bench, tmp_path: Path) -> None:
    """Files are replaced while jobs run."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(bench.other.ca.read_bytes())
    connection = ZooKeeperConnection(parse(f"{bench.demanding.tls}{bench.path()}{bench.options(ca)}"), 1.0)

    async def run() -> None:
        for wrong in (ca.unlink, lambda: ca.write_bytes(bench.other.ca.read_bytes())):
            wrong()
            with pytest.raises(UnansweredError):
                await connection.ask(lambda client: [client.exists_async("/")])
        ca.write_bytes(bench.authority.ca.read_bytes())
        assert await connection.ask(lambda client: [client.exists_async("/")], 30.0)
        await connection.close()

    asyncio.run(run())


async def refused(address: str, directory: Path) -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        await registry.connect("zookeeper", told(address, directory))
    assert not (directory / "ha").exists()
    return caught.value


@pytest.fixture(name="impatient")
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.services.zookeeper._FIRST", 1.0)


CASES: list[tuple[str, type[UnderstudyError], str, str]] = [
    ("another authority's ca", SettingsError, "does not vouch for the certificate of localhost:", "Name the file with"),
    ("another name", SettingsError, "is for another name (IP address mismatch", "Write the servers' names"),
    (
        "no certificate",
        SettingsError,
        "asks for a certificate of ours (bad certificate)",
        "Add certificate=FILE and key",
    ),
    ("another authority's certificate", AccessDenied, " refuses certificate=", "Name one that is valid"),
    ("a certificate that is over", AccessDenied, " refuses certificate=", "Name one that is valid"),
    ("no TLS where the server has it", SettingsError, "speaks TLS, and the address has no ca", "Add ca=FILE"),
    ("TLS where the server has none", SettingsError, "does not speak TLS", "Name the servers' secureClientPort"),
]


def address_of(case: str, bench: Bench) -> str:
    server, path = bench.demanding, bench.path()
    return {
        "another authority's ca": f"{server.tls}{path}{bench.options(bench.other.ca)}",
        "another name": f"127.0.0.1:{server.port}{path}{bench.options()}",
        "no certificate": f"{server.tls}{path}?ca={bench.authority.ca}",
        "another authority's certificate": f"{server.tls}{path}{bench.options(own=bench.strange)}",
        "a certificate that is over": f"{server.tls}{path}{bench.options(own=bench.over)}",
        "no TLS where the server has it": f"{server.tls}{path}",
        "TLS where the server has none": f"{server.plain}{path}{bench.options()}",
    }[case]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("case", "kind", "said", "remedy"), CASES, ids=[each[0] for each in CASES])
def test_what_does_not_fit_is_one_error_that_names_the_option_and_the_remedy(
    bench: Bench, tmp_path: Path, case: str, kind: type[UnderstudyError], said: str, remedy: str
) -> None:
    address = address_of(case, bench)
    error = asyncio.run(refused(address, tmp_path))
    assert type(error) is kind
    assert error.where == "--ha-address"
    assert said in str(error)
    assert remedy in error.remedy
    path = address.partition("?")[0][address.index("/") :]
    assert bench.operator.get_children(path) == []


def test_what_this_machine_trusts_is_not_trusted_besides(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(bench.authority.ca))
    address = parse(f"{bench.demanding.tls}{bench.path()}{bench.options(bench.other.ca)}")

    async def run() -> None:
        assert "does not vouch" in str(await find_fault(address))
        connection = ZooKeeperConnection(address, 1.0)
        with pytest.raises(UnansweredError):
            await connection.ask(lambda client: [client.exists_async("/")])
        await connection.close()

    asyncio.run(run())


def test_where_one_server_is_sound_no_fault_of_another_is_told(bench: Bench) -> None:
    """The request has had no answer for another reason, such as that most servers are away."""
    fit, unfit = bench.demanding.tls, bench.demanding.plain

    async def run() -> None:
        assert await find_fault(parse(f"{unfit},{fit}/x{bench.options()}")) is None
        assert await find_fault(parse(f"{fit},{unfit}/x")) is None
        assert str(await find_fault(parse(f"localhost:1,{fit}/x"))).startswith(f"--ha-address: {fit} speaks TLS")

    asyncio.run(run())


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_not_there_is_not_blamed_on_tls(bench: Bench, tmp_path: Path) -> None:
    error = asyncio.run(refused(f"localhost:1{bench.path()}{bench.options()}", tmp_path))
    assert isinstance(error, ServerUnreachable)


FILES = [
    ("?ca={key}", "holds no certificate", "ca="),
    ("?ca={ca}&certificate={ca}&key={key}", "are no certificate and its key", "certificate="),
    ("?ca={ca}&certificate={certificate}&key={certificate}", "are no certificate and its key", "and key="),
    ("?ca={ca}&certificate={certificate}&key={locked}", "is encrypted", "key="),
    ("?ca={ca}&certificate={certificate}", "one of certificate and key", ""),
    ("?ca={ca}&key={key}", "one of certificate and key", ""),
]


@pytest.mark.parametrize(("options", "said", "named"), FILES, ids=[each[0] for each in FILES])
def test_files_that_are_not_what_they_are_called_are_refused_before_anything_is_asked(
    bench: Bench, tmp_path: Path, options: str, said: str, named: str
) -> None:
    own = bench.own
    files = options.format(ca=bench.authority.ca, certificate=own.certificate, key=own.key, locked=bench.locked)
    error = asyncio.run(refused(f"no.such.host.invalid:2281/x{files}", tmp_path))
    assert isinstance(error, SettingsError)
    assert said in str(error)
    assert named in str(error)
    assert "a-secret" not in str(error)
    assert "PRIVATE" not in str(error)


def test_a_server_whose_certificate_is_over_is_named_with_its_clock(bench: Bench) -> None:
    with answering(lambda context: None, bench.authority.issue("localhost", -1)) as port:
        error = asyncio.run(find_fault(parse(f"localhost:{port}?ca={bench.authority.ca}")))
    assert isinstance(error, SettingsError)
    assert "certificate has expired" in str(error)
    assert "look at the clocks" in error.remedy


def test_a_server_that_has_no_cipher_in_common_is_told_as_it_says(bench: Bench) -> None:
    def strict(context: ssl.SSLContext) -> None:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-RSA-AES256-GCM-SHA384")  # of which our curve has no key

    with answering(strict, bench.authority.issue("localhost")) as port:
        error = asyncio.run(find_fault(parse(f"localhost:{port}?ca={bench.authority.ca}")))
    assert isinstance(error, SettingsError)
    assert "fails: handshake failure" in str(error)


@contextmanager
def answering(change: Callable[[ssl.SSLContext], None], own: Certificate) -> Iterator[int]:
    """The port of a server that shakes hands once, and hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    change(context)

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as client, suppress(OSError), context.wrap_socket(client, server_side=True):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join()


def test_a_server_that_hangs_up_after_the_handshake_is_taken_to_want_a_certificate(bench: Bench) -> None:
    with answering(lambda context: None, bench.authority.issue("localhost")) as port:
        error = asyncio.run(find_fault(parse(f"localhost:{port}?ca={bench.authority.ca}")))
    assert "asks for a certificate of ours (it hangs up)" in str(error)


@pytest.mark.usefixtures("impatient")
def test_a_list_of_clusters_ends_with_the_same_error(bench: Bench, tmp_path: Path) -> None:
    address = f"{bench.demanding.tls}{bench.path()}?ca={bench.authority.ca}"
    with pytest.raises(SettingsError, match="asks for a certificate of ours"):
        asyncio.run(registry.clusters("zookeeper", told(address, tmp_path)))


def test_a_command_ends_with_one_line_and_its_exit_code(bench: Bench, tmp_path: Path) -> None:
    """With the product's own time limits, and warnings as errors: nothing is left open."""
    address = f"{bench.demanding.tls}{bench.path()}?ca={bench.authority.ca}"
    command = ("status", "--cluster-id", "flights", "--ha", "zookeeper", "--ha-address", address)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "understudy.cli.main", *command, "--ha-dir", str(tmp_path / "ha")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"understudy: --ha-address: {bench.demanding.tls} asks for a certificate of ours")
    assert not (tmp_path / "ha").exists()
