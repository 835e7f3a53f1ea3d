"""Hosts and ports of IPv4 and IPv6."""

from __future__ import annotations

import socket

import pytest

from understudy.addresses import bracketed, joined, listener, split
from understudy.submit import with_bracketed_hosts


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("[::]:8080", "::", 8080),
        ("[fd00::7]:0", "fd00::7", 0),
        (":9090", "", 9090),
        ("localhost:1", "localhost", 1),
    ],
)
def test_a_host_and_its_port_are_told_apart(text: str, host: str, port: int) -> None:
    assert split(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["8080", "::1:8080", "[::1:8080", "[job]:80", "host:", "host:70000", "host:²", "host:80\n"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        split(text)


def test_only_an_ipv6_address_gets_brackets() -> None:
    assert [joined(host, 8080) for host in ("10.0.0.7", "fd00::7", "flights-0")] == [
        "10.0.0.7:8080",
        "[fd00::7]:8080",
        "flights-0:8080",
    ]
    assert bracketed("[fd00::7]") == "[fd00::7]"


@pytest.mark.parametrize("host", ["", "::", "*"])
def test_every_address_is_those_of_ipv4_too(host: str) -> None:
    with listener(host, 0) as listening:
        port = listening.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        if socket.has_dualstack_ipv6():
            socket.create_connection(("::1", port), timeout=5).close()


def test_a_drivers_ipv6_address_reaches_spark_in_brackets() -> None:
    given = [
        "--conf",
        "spark.driver.host=fd00::7",
        "--conf=spark.driver.bindAddress=fd00::7",
        "--conf",
        "spark.x=fd00::7",
    ]
    assert with_bracketed_hosts(given) == [
        "--conf",
        "spark.driver.host=[fd00::7]",
        "--conf=spark.driver.bindAddress=[fd00::7]",
        "--conf",
        "spark.x=fd00::7",
    ]
    assert with_bracketed_hosts(["spark.driver.host=10.0.0.7"]) == ["spark.driver.host=10.0.0.7"]
