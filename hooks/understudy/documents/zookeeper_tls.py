"""TLS to an ensemble of ZooKeeper: connections, the files that they need, and why no server is reached.

kazoo's own connections leave the socket of a handshake that failed to the garbage collector, trust what the machine trusts besides
``ca``, and leave a certificate without its key out. kazoo tells of a refusal as of any connection that breaks, and tries again for
ever. So once a first request has not been answered, each server is looked at without kazoo: what it says to a word, and what its TLS says.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NoReturn

from understudy.addresses import split
from understudy.documents.zookeeper_address import ZooKeeperAddress
from understudy.errors import AccessDenied, SettingsError, UnderstudyError

#: Seconds that a server has for each step of a look; and in which it tells that it refuses a certificate, which in TLS 1.3 follows the handshake.
_STEP, _VERDICT = 3.0, 0.5
#: Servers answer it on each of their ports for clients, if only that it is not allowed.
_WORD = b"srvr"
#: OpenSSL's: a certificate is for another name or another address; is not valid yet, or no longer.
_NAMES, _TIMES = (62, 64), (9, 10)
#: What is in the reason of an alert that is about a certificate.
_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


@dataclass(frozen=True, slots=True)
class Sound:
    """A server answers as the address says."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A server is not reached, or hangs up without a reason that is known here."""


@dataclass(frozen=True, slots=True)
class Faulty:
    """A server and the address do not go together."""

    error: UnderstudyError


def context_of(address: ZooKeeperAddress) -> ssl.SSLContext | None:
    """What a connection is made with; ``None`` without TLS. It trusts ``ca`` alone.

    Raises ``SettingsError`` for a file that is not what its option says.
    """
    return _context(address) if address.ca else None


def _context(address: ZooKeeperAddress) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks certificates and names
    try:
        context.load_verify_locations(address.ca)
    except OSError as error:  # OpenSSL's are, too
        _refuse(f"ca={address.ca} {_flaw(error, 'holds no certificate')}", "Name a file of certificates in PEM")
    if address.certificate:
        _load(context, address)
    return context


def _load(context: ssl.SSLContext, address: ZooKeeperAddress) -> None:
    named = f"certificate={address.certificate} and key={address.key}"
    try:
        context.load_cert_chain(address.certificate, address.key, _no_password)
    except _EncryptedError:
        _refuse(f"key={address.key} is encrypted", "Name a file with the plain key, which this user alone may read")
    except OSError as error:
        _refuse(f"{named} {_flaw(error, 'are no certificate and its key')}", "Name two files in PEM that go together")


class _EncryptedError(Exception):
    pass


def _no_password() -> NoReturn:
    """OpenSSL would ask a terminal for it."""
    raise _EncryptedError


def _flaw(error: OSError, otherwise: str) -> str:
    return otherwise if isinstance(error, ssl.SSLError) else f"cannot be read: {error.strerror}"


def connect(address: ZooKeeperAddress, place: tuple[str, int], name: str, timeout: float) -> ssl.SSLSocket:
    """Reads the files again, so one that was replaced counts from the next connection on. ``name``: the server's; ``timeout``: seconds of each step.

    Raises ``OSError``, also for files: they may be there again when kazoo tries again, and any other error would end it.
    """
    try:
        context = _context(address)
    except SettingsError as error:
        raise OSError(str(error)) from error
    with socket.create_connection(place, timeout) as plain:  # emptied by what wraps it, or else closed
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname=name)


async def find_fault(address: ZooKeeperAddress) -> UnderstudyError | None:
    """What is wrong about TLS. ``None`` where a server is sound, and where none says what is wrong. Takes up to five steps of ``_STEP``."""
    context = context_of(address)
    looks = await asyncio.gather(*(asyncio.to_thread(_look, address, context, each) for each in address.hosts))
    if any(isinstance(each, Sound) for each in looks):
        return None
    return next((each.error for each in looks if isinstance(each, Faulty)), None)


def _look(address: ZooKeeperAddress, context: ssl.SSLContext | None, server: str) -> Sound | Silent | Faulty:
    if context is None:
        if _speaks_tls(server):  # first: TLS waits for more than a word, and for a while
            return Faulty(_encrypted(server))
        return Sound() if _answers(server) else Silent()
    try:
        return Sound() if _ask(server, context) else Faulty(_unwelcome(address, server, "it hangs up"))
    except ssl.SSLCertVerificationError as error:
        return Faulty(_distrusted(address, server, error))
    except ssl.SSLError as error:
        reason = error.reason or ""
        if any(each in reason for each in _CERTIFICATES):
            return Faulty(_unwelcome(address, server, _words(reason)))
        if "ALERT" in reason:
            return Faulty(
                _told(f"TLS with {server} fails: {_words(reason)}", "Allow on the servers what this machine has")
            )
    except OSError:
        pass
    return Faulty(_plain(server)) if _answers(server) else Silent()


def _ask(server: str, context: ssl.SSLContext | None) -> bytes:
    """What the server says to a word; empty if it hangs up. Raises ``OSError``."""
    host, port = split(server)
    with ExitStack() as stack:
        spoken = stack.enter_context(socket.create_connection((host, port), _STEP))
        if context is not None:
            spoken = stack.enter_context(context.wrap_socket(spoken, server_hostname=host))
            spoken.settimeout(_VERDICT)
            with suppress(TimeoutError):  # else the word may be on its way while the verdict comes, which would be lost
                return spoken.recv(1)
            spoken.settimeout(_STEP)
        spoken.sendall(_WORD)
        return spoken.recv(1)


def _answers(server: str) -> bool:
    with suppress(OSError):
        return bool(_ask(server, None))
    return False


def _speaks_tls(server: str) -> bool:
    """Also if it has a certificate that is not to be trusted, or wants one."""
    try:
        _ask(server, ssl.create_default_context())
    except ssl.SSLError as error:
        return isinstance(error, ssl.SSLCertVerificationError) or "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True


def _distrusted(address: ZooKeeperAddress, server: str, error: ssl.SSLCertVerificationError) -> SettingsError:
    if error.verify_code in _NAMES:
        return _told(
            f"the certificate of {server} is for another name ({error.verify_message.rstrip('.')})",
            "Write the servers' names as their certificates have them, or give them certificates for these names",
        )
    if error.verify_code in _TIMES:
        return _told(f"{server}: {error.verify_message}", "Renew it on the server; look at the clocks of both machines")
    return _told(
        f"ca={address.ca} does not vouch for the certificate of {server} ({error.verify_message})",
        "Name the file with the certificates of the authority that has signed the servers'",
    )


def _unwelcome(address: ZooKeeperAddress, server: str, reason: str) -> UnderstudyError:
    if not address.certificate:
        remedy = "Add certificate=FILE and key=FILE, signed by an authority that the servers trust"
        return _told(f"{server} asks for a certificate of ours ({reason})", remedy)
    return AccessDenied(
        f"{server} refuses certificate={address.certificate} ({reason})",
        where="--ha-address",
        remedy="Name one that is valid, signed by an authority that the servers trust",
    )


def _plain(server: str) -> SettingsError:
    return _told(f"{server} does not speak TLS", "Name the servers' secureClientPort, or leave out ca")


def _encrypted(server: str) -> SettingsError:
    remedy = "Add ca=FILE with the certificates to trust, or name the servers' clientPort"
    return _told(f"{server} speaks TLS, and the address has no ca", remedy)


def _words(reason: str) -> str:
    """``SSLV3_ALERT_BAD_CERTIFICATE`` is said as ``bad certificate``."""
    return reason.rpartition("ALERT_")[2].replace("_", " ").lower()


def _told(what: str, remedy: str) -> SettingsError:
    return SettingsError(what, where="--ha-address", remedy=remedy)


def _refuse(what: str, remedy: str) -> NoReturn:
    raise _told(what, remedy) from None
