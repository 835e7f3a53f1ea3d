"""Ports that tests keep for their servers."""

from __future__ import annotations

import socket

import pytest

from testkit.ports import ports


def test_a_kept_port_is_its_servers_alone_as_often_as_it_starts() -> None:
    with ports(20) as kept:
        assert len(set(kept)) == 20
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", kept[0]), 10)
            with socket.create_server(("127.0.0.1", kept[0])):  # which has SO_REUSEADDR by itself
                socket.create_connection(("127.0.0.1", kept[0]), 10).close()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", kept[0]))
