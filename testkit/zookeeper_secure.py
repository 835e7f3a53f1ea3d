"""A ZooKeeper server with a port for TLS and one without, and an authority that signs certificates for it and for its clients."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.ports import ports
from testkit.s3 import Missing, NotStarted
from testkit.zookeeper import Server, configure, jars


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Of ``directory``, with what it has signed. Keys are of an elliptic curve, which are made in no time."""

    directory: Path

    @classmethod
    def made(cls, directory: Path) -> Authority:
        """Raises ``Missing``."""
        if shutil.which("openssl") is None:
            raise Missing("openssl is not installed")
        directory.mkdir(parents=True)
        made = cls(directory)
        openssl("req", "-x509", *_named("tests", directory / "ca.key"), "-days", "2", "-out", str(made.ca))
        return made

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    def issue(self, name: str, days: int = 2) -> Certificate:
        """For the host ``name``. ``days`` below zero: it is over."""
        base = self.directory / name
        made, request = Certificate(base.with_suffix(".pem"), base.with_suffix(".key")), base.with_suffix(".csr")
        openssl("req", *_named(name, made.key), "-addext", f"subjectAltName=DNS:{name}", "-out", str(request))
        signed = ("-CA", str(self.ca), "-CAkey", str(self.directory / "ca.key"), "-copy_extensions", "copy")
        openssl("x509", "-req", "-in", str(request), *signed, "-days", str(days), "-out", str(made.certificate))
        return made


def _named(name: str, key: Path) -> tuple[str, ...]:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    return ("-new", "-subj", f"/CN={name}", *curve, "-keyout", str(key))


def openssl(*words: str) -> None:
    """Raises ``NotStarted`` for one that cannot do it."""
    done = subprocess.run(["openssl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotStarted(f"openssl {words[0]} failed: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class SecureServer:
    """One that is no ensemble. ``plain``, ``tls``: its ports, the second for the host that its certificate names."""

    server: Server
    plain: str
    tls: str
    port: int


@contextmanager
def secure_server(directory: Path, java: str, authority: Authority, *, client: str) -> Iterator[SecureServer]:
    """``client``: ``need``, where it demands certificates of its clients, or ``none``. Raises ``Missing`` and ``NotStarted``."""
    jars()
    own = authority.issue("localhost")
    home = directory / "server"
    with ports(2) as (plain, tls):
        configure(
            home,
            1,
            f"clientPort={plain}\nclientPortAddress=127.0.0.1\nsecureClientPort={tls}\nsecureClientPortAddress=127.0.0.1\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={home}/own.pem\nssl.keyStore.type=PEM\nssl.clientAuth={client}\n"
            f"ssl.trustStore.location={authority.ca}\nssl.trustStore.type=PEM\n",
            home=str(home),
            user="",
            password="",
        )
        (home / "own.pem").write_text(own.key.read_text() + own.certificate.read_text())
        server = Server(1, home, plain, java)
        with server.alone():
            yield SecureServer(server, f"localhost:{plain}", f"localhost:{tls}", tls)
