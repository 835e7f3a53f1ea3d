"""Hosts with ports, as people and programs write them. An IPv6 address goes in brackets, or its colons look like a port's."""

from __future__ import annotations

import ipaddress
import socket

#: What stands for every address of this machine.
_EVERYWHERE = ("", "::", "*")


def bracketed(host: str) -> str:
    """``host`` as it goes into a URL, or before a port: an IPv6 address in brackets, everything else as it is."""
    try:
        return f"[{ipaddress.IPv6Address(host)}]"
    except ValueError:
        return host


def joined(host: str, port: int) -> str:
    return f"{bracketed(host)}:{port}"


def split(text: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[address]:port``; the host may be empty. Raises ``ValueError``."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(text)
    if host.startswith("[") and host.endswith("]"):
        return str(ipaddress.IPv6Address(host[1:-1])), int(port)
    if ":" in host:  # an address without brackets: where does it end?
        raise ValueError(text)
    return host, int(port)


def listener(host: str, port: int) -> socket.socket:
    """A bound TCP socket. An empty host, ``*`` or ``::`` is every address, of IPv4 and of IPv6 where this machine has it.

    Raises ``OSError``. asyncio's own servers would take ``::`` for IPv6 alone, and a cluster of IPv4 would reach nothing.
    """
    if host in _EVERYWHERE:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((host, port), family=family)
