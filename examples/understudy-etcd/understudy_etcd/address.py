"""Where etcd is, and how it is spoken to: ``HOST:PORT,HOST:PORT/PREFIX?OPTION=VALUE&…``.

| option | meaning |
| --- | --- |
| ``user`` | a file that holds ``USER:PASSWORD``, where authentication is on |
| ``ca`` | a file with the certificates that TLS trusts; turns TLS on, and the members' names are checked |
| ``certificate``, ``key`` | files with our own, where the members ask for one |

Passwords are in files, because everyone on a machine reads the arguments of a process.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import parse_qsl

from understudy.services.plugin import SettingsError, join_host_port, split_host_port

FORM = "HOST:PORT,HOST:PORT,HOST:PORT/PREFIX"

_OPTIONS = ("user", "ca", "certificate", "key")
_PREFIX = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*")


@dataclass(frozen=True, slots=True, repr=False)
class EtcdAddress:
    """``members``: one ``HOST:PORT`` each. ``prefix``: before each document's name, with a slash at both ends.

    ``password`` is in no ``repr``. ``tls`` is ``None`` where it is off.
    """

    members: tuple[str, ...]
    prefix: str
    user: str = ""
    password: str = ""
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        """The members and the prefix, without options."""
        return ",".join(self.members) + self.prefix.rstrip("/")

    def url(self, member: str) -> str:
        return f"{'http' if self.tls is None else 'https'}://{member}"


def parse(text: str) -> EtcdAddress:
    """Reads the files that ``text`` names. Raises ``SettingsError``, which shows no password."""
    place, _, options = text.partition("?")
    members, _, prefix = place.partition("/")
    prefix = prefix.strip("/")
    if "://" in place:
        _refuse(f"{_host(place)!r} is a URL", f"Write {FORM}; with ca=FILE after a ? it is spoken to over TLS")
    if not _PREFIX.fullmatch(prefix):
        _refuse(f"{prefix!r} is no prefix of keys", f"Write {FORM}, the same for all replicas")
    given = _options(options)
    user, _, password = _user(given.get("user", "")).partition(":")
    return EtcdAddress(
        tuple(_member(each.strip()) for each in members.split(",")), f"/{prefix}/", user, password, _tls(given)
    )


def _options(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, strict_parsing=bool(text), keep_blank_values=True)
    except ValueError:
        _refuse("what follows ? is not OPTION=VALUE&OPTION=VALUE", f"Write {FORM}?ca=FILE")
    for name, value in pairs:
        if name not in _OPTIONS or not value:
            _refuse(f"{name}={'…' if value else '(nothing)'} is no option of it", f"There are {', '.join(_OPTIONS)}")
    return dict(pairs)


def _member(text: str) -> str:
    try:
        host, port = split_host_port(text if ":" in text else f"{text}:2379")
    except ValueError:
        host, port = "", 0
    if not host or not port:
        _refuse(f"{_host(text)!r} is no host:port", f"Write {FORM}")
    return join_host_port(host, port)


def _user(path: str) -> str:
    if not path:
        return ""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        _refuse(f"user={_path(path)} cannot be read: {reason}", "Name a file that can")
    user, colon, password = text.partition(":")
    if not (user and colon and password) or "\n" in text:
        _refuse(f"user={path} does not hold USER:PASSWORD", "Write one line into it")
    return text


def _tls(given: dict[str, str]) -> ssl.SSLContext | None:
    if "ca" not in given:
        if {"certificate", "key"} & given.keys():
            _refuse("a certificate without ca", "Give ca=FILE, with which TLS is on")
        return None
    if ("certificate" in given) != ("key" in given):
        _refuse("a certificate and its key belong together", "Give certificate=FILE and key=FILE")
    try:
        context = ssl.create_default_context(cafile=given["ca"])
        if "certificate" in given:
            context.load_cert_chain(given["certificate"], given["key"])
    except OSError as error:  # ssl.SSLError is one
        _refuse(f"ca, certificate or key cannot be used: {error}", "Name files that hold them, in PEM")
    return context


def _host(text: str) -> str:
    """As it may be shown: without what stands before an @, which some write credentials into."""
    _, at, host = text.rpartition("@")
    return f"…@{host}" if at else text


def _path(text: str) -> str:
    """As it may be shown: USER:PASSWORD in the place of the file that holds them is not."""
    return "…" if ":" in text else text


def _refuse(what: str, remedy: str) -> NoReturn:
    raise SettingsError(what, where="--ha-address", remedy=remedy)
