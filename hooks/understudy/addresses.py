"""Hosts with ports, as people and programs write them. An IPv6 address stands in brackets: its colons would look like a port's."""

from __future__ import annotations

import ipaddress
import socket

#: Spellings of "every address of this machine".
_EVERYWHERE = ("", "::", "*")


def bracketed(host: str) -> str:
    """Write ``host`` as a URL needs it, or a port after it: an IPv6 address in brackets, any other text unchanged."""
    try:
        return f"[{ipaddress.IPv6Address(host)}]"
    except ValueError:
        return host


def joined(host: str, port: int) -> str:
    return f"{bracketed(host)}:{port}"


def split(text: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[address]:port`` into host and port. The host may be empty. Raises ``ValueError``."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(text)
    if host.startswith("[") and host.endswith("]"):
        return str(ipaddress.IPv6Address(host[1:-1])), int(port)
    if ":" in host:  # an address without brackets: its end is ambiguous
        raise ValueError(text)
    return host, int(port)


def listener(host: str, port: int) -> socket.socket:
    """Bind a TCP socket. An empty host, ``*`` or ``::`` is every address, of IPv4 and of IPv6 where this machine has it.

    Raises ``OSError``. asyncio's servers would bind ``::`` to IPv6 alone, and nothing could connect over IPv4.
    """
    if host in _EVERYWHERE:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server((host, port), family=family)
