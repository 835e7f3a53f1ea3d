"""Kerberos at a real ZooKeeper server, with tickets of a real KDC. Not in ``make test``: it needs programs and a package that nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from testkit.kerberos import REALM, Kdc, kdc, kerberized
from testkit.s3 import Missing
from understudy.documents.model import Content, Written
from understudy.documents.zookeeper import ZooKeeperDocumentStore
from understudy.documents.zookeeper_address import parse
from understudy.documents.zookeeper_connection import ZooKeeperConnection
from understudy.environment import find_java
from understudy.errors import AccessDenied, EnvironmentProblem
from understudy.services import registry
from understudy.services.plugin import ServicesSettings

SERVICE = "zookeeper"


@dataclass(frozen=True, slots=True)
class Bench:
    kdc: Kdc
    server: str


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if find_spec("kerberos") is None:
        pytest.skip("Python has no Kerberos: pip install pykerberos, with libkrb5-dev")
    directory = tmp_path_factory.mktemp("kerberos")
    with ExitStack() as stack:
        try:
            made = stack.enter_context(kdc(directory / "kdc"))
            java = str(find_java().home / "bin" / "java")
            server = stack.enter_context(kerberized(directory / "zookeeper", java, made, SERVICE))
        except Missing as missing:
            pytest.skip(str(missing))
        yield Bench(made, server)


def told(address: str, directory: Path) -> ServicesSettings:
    """Patient: a server's first ticket loads half of Java's security, and a session that has run out meanwhile looks like a refusal."""
    return ServicesSettings(cluster="c", lock="zookeeper", request_timeout=30.0, ha_dir=directory, address=address)


def use(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.long
def test_documents_belong_to_the_user_of_the_ticket(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        services = await registry.connect("zookeeper", told(f"{bench.server}?kerberos={SERVICE}", tmp_path))
        outcome = await services.documents.create("flights-job", Content({"a": "1"}))
        assert isinstance(outcome, Written)
        assert await services.documents.read("flights-job") == outcome.document
        await services.close()
        own, other = (
            ZooKeeperConnection(parse(each), 30.0) for each in (f"{bench.server}?kerberos={SERVICE}", bench.server)
        )
        ((owners, _),) = await own.ask(lambda client: [client.get_acls_async("/flights-job")])
        assert [(each.id.scheme, each.id.id) for each in owners] == [("sasl", f"flights@{REALM}")]
        with pytest.raises(AccessDenied):
            await ZooKeeperDocumentStore(other).read("flights-job")
        await asyncio.gather(own.close(), other.close())

    use(monkeypatch, bench.kdc.ticket("flights"))
    asyncio.run(run())


@pytest.mark.long
@pytest.mark.parametrize(("has_ticket", "service"), [(False, SERVICE), (True, "another")])
def test_without_a_ticket_for_the_service_a_start_ends_with_one_error(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_ticket: bool, service: str
) -> None:
    use(monkeypatch, bench.kdc.ticket("trains") if has_ticket else bench.kdc.environment)
    with pytest.raises(AccessDenied, match=f"--ha-address: Kerberos does not let us in, at {service}/HOST") as refused:
        asyncio.run(registry.connect("zookeeper", told(f"{bench.server}?kerberos={service}", tmp_path / "ha")))
    assert "kinit" in refused.value.remedy
    assert not (tmp_path / "ha").exists()


@pytest.mark.skipif(find_spec("kerberos") is not None, reason="it is installed")
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path: Path) -> None:
    address = f"no.such.host.invalid:2181?kerberos={SERVICE}"
    with pytest.raises(EnvironmentProblem, match="--ha-address: the package kerberos is not installed") as refused:
        asyncio.run(registry.connect("zookeeper", told(address, tmp_path / "ha")))
    assert "understudy-spark[kerberos]" in refused.value.remedy
    assert not (tmp_path / "ha").exists()
