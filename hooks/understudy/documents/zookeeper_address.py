"""Where an ensemble of ZooKeeper is, and how it is spoken to: ``HOST:PORT,HOST:PORT/CHROOT?OPTION=VALUE&…``.

| option | meaning |
| --- | --- |
| ``digest`` | a file that holds ``USER:PASSWORD``, for ZooKeeper's scheme ``digest``; documents belong to that user alone |
| ``sasl`` | a file that holds ``USER:PASSWORD``, for SASL's DIGEST-MD5 |
| ``kerberos`` | the service name of the servers, for SASL's GSSAPI with the ticket cache of this process |
| ``ca`` | a file with the certificates that TLS trusts, and no others; turns TLS on, and the servers' names are checked |
| ``certificate``, ``key`` | files with our own and its key, where the servers ask for one |
| ``jute.maxbuffer`` | the servers' and ours, in bytes, where it is smaller than ZooKeeper's 1048575 |

Passwords are in files, because everyone on a machine reads the arguments of a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import parse_qsl

from understudy.addresses import joined
from understudy.addresses import split as split_address
from understudy.errors import SettingsError

#: ZooKeeper's own jute.maxbuffer, in bytes; and what a request has around a document.
_BUFFER, _AROUND = 1_048_575, 1_024
_OPTIONS = ("digest", "sasl", "kerberos", "ca", "certificate", "key", "jute.maxbuffer")
#: Options that name a file.
FILES = ("digest", "sasl", "ca", "certificate", "key")
_FORM = "Write host:2181,host:2181,host:2181/path; docs/high-availability.md has the options"


@dataclass(frozen=True, slots=True, repr=False)
class ZooKeeperAddress:
    """``hosts``: one ``HOST:PORT`` for each server. ``chroot``: begins with a slash, or is empty. ``largest``: bytes that a document may have.

    ``digest`` and ``sasl`` hold ``USER:PASSWORD``; the value has no ``repr`` that would show it.
    """

    hosts: tuple[str, ...]
    chroot: str = ""
    digest: str = ""
    sasl: str = ""
    kerberos: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    largest: int = _BUFFER - _AROUND

    def __str__(self) -> str:
        """The servers and the path, without options."""
        return ",".join(self.hosts) + self.chroot


@dataclass(frozen=True, slots=True)
class Place:
    """What an address says before any file of it is read: ``options`` name the files. Fields as those of ``ZooKeeperAddress``."""

    hosts: tuple[str, ...]
    chroot: str
    largest: int
    options: Mapping[str, str]


def parse(text: str) -> ZooKeeperAddress:
    """Reads the files that ``text`` names. Raises ``SettingsError``, which shows no password."""
    place = place_of(text)
    given = place.options
    return ZooKeeperAddress(
        place.hosts,
        place.chroot,
        digest=_secret(given.get("digest", ""), "digest"),
        sasl=_secret(given.get("sasl", ""), "sasl"),
        kerberos=given.get("kerberos", ""),
        largest=place.largest,
        **{each: _file(given.get(each, ""), each) for each in ("ca", "certificate", "key")},
    )


def place_of(text: str) -> Place:
    """Reads no file. Raises ``SettingsError``."""
    place, _, options = text.partition("?")
    servers, slash, path = place.partition("/")
    chroot = f"/{path.strip('/')}" if slash and path.strip("/") else ""
    if "//" in chroot or {".", ".."} & set(chroot.split("/")):
        _refuse(f"{chroot} is no path of ZooKeeper's", _FORM)
    given = _options(options)
    if sum(each in given for each in ("digest", "sasl", "kerberos")) > 1:
        _refuse("it has several of digest, sasl and kerberos", "Give one")
    if "ca" not in given and {"certificate", "key"} & given.keys():
        _refuse("a certificate without ca", "Give ca=FILE, with which TLS is on")
    if ("certificate" in given) != ("key" in given):
        _refuse("it has one of certificate and key", "Give both, or neither; one file may hold both")
    hosts = tuple(_server(each.strip()) for each in servers.split(","))
    return Place(hosts, chroot, _largest(given.get("jute.maxbuffer", str(_BUFFER))), given)


def _options(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, strict_parsing=bool(text), keep_blank_values=True)
    except ValueError:
        _refuse("what follows ? is not OPTION=VALUE&OPTION=VALUE", _FORM)
    for name, value in pairs:
        if name not in _OPTIONS or not value:
            _refuse(f"{name}={'…' if value else '(nothing)'} is no option of it", f"There are {', '.join(_OPTIONS)}")
    return dict(pairs)


def _server(text: str) -> str:
    try:
        host, port = split_address(text if ":" in text else f"{text}:2181")
    except ValueError:
        host, port = "", 0
    if not host or not port:
        _refuse(f"{_host(text)!r} is no host:port", _FORM)
    return joined(host, port)


def _secret(path: str, option: str) -> str:
    if not path:
        return ""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        _refuse(
            f"{option}={_path(path)} cannot be read: {getattr(error, 'strerror', None) or 'no text'}",
            "Name a file that can",
        )
    user, colon, password = text.partition(":")
    if not (user and colon and password) or "\n" in text:
        _refuse(f"{option}={path} does not hold USER:PASSWORD", "Write one line into it")
    return text


def _file(path: str, option: str) -> str:
    if path and not Path(path).is_file():
        _refuse(f"{option}={path}: there is no such file", "Name the file of a certificate or key, in PEM")
    return path


def _largest(text: str) -> int:
    if not text.isdecimal() or int(text) <= 2 * _AROUND:
        _refuse(f"jute.maxbuffer={text} is no number of bytes above {2 * _AROUND}", "Write it as the servers have it")
    return int(text) - _AROUND


def _host(text: str) -> str:
    """As it may be shown: without what stands before an @, which some write credentials into."""
    _, at, host = text.rpartition("@")
    return f"…@{host}" if at else text


def _path(text: str) -> str:
    """As it may be shown: USER:PASSWORD in the place of the file that holds them is not."""
    return "…" if ":" in text else text


def _refuse(what: str, remedy: str) -> NoReturn:
    raise SettingsError(what, where="--ha-address", remedy=remedy)
