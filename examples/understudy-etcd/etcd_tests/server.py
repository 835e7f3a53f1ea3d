"""etcd for tests: three members in one directory, and what an operator does to them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testkit.places import REPOSITORY
from testkit.ports import ports
from testkit.s3 import Missing, NotStarted

#: Made by ``tools/setup.sh etcd``, which ``make test`` calls first, where the machine has none of its own.
BINARY = REPOSITORY / "build" / "etcd" / "usr" / "bin" / "etcd"


def etcd() -> str:
    found = shutil.which("etcd") or (str(BINARY) if BINARY.exists() else None)
    if found is None:
        raise Missing("there is no etcd: run tools/setup.sh etcd")
    return found


def _environment() -> dict[str, str]:
    # Debian 12's starts on this architecture only if told so
    return {**os.environ, **({"ETCD_UNSUPPORTED_ARCH": "arm64"} if platform.machine() == "aarch64" else {})}


@dataclass
class Member:
    name: str
    directory: Path
    client_port: int
    peer_port: int
    options: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.address}"

    @property
    def peer(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def start(self, peers: str) -> None:
        told = {
            "name": self.name,
            "data-dir": str(self.directory / self.name),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": self.peer,
            "initial-advertise-peer-urls": self.peer,
            "initial-cluster": peers,
            "logger": "zap",
            "log-level": "warn",
        }
        words = [word for name, value in told.items() for word in (f"--{name}", value)]
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen([etcd(), *words, *self.options], stdout=log, stderr=log, env=_environment())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def ask(self, path: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
        """As another program does. Raises ``OSError``."""
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=10, context=self.tls) as answer:
            return dict(json.load(answer))

    def serves(self) -> bool:
        """Whether it answers for most of the members."""
        try:
            return bool(self.ask("/v3/kv/range", {"key": encoded("/")}))
        except OSError:
            return False


@dataclass
class Cluster:
    members: list[Member] = field(default_factory=list)

    @property
    def hosts(self) -> str:
        return ",".join(each.address for each in self.members)

    @property
    def peers(self) -> str:
        return ",".join(f"{each.name}={each.peer}" for each in self.members)

    @property
    def leader(self) -> Member:
        said = [(each, each.ask("/v3/maintenance/status", {})) for each in self.members]
        return next(each for each, status in said if status["leader"] == status["header"]["member_id"])

    def whole(self, within: float = 60) -> None:
        """Wait until every member serves."""
        end = time.monotonic() + within
        while not all(each.serves() for each in self.members):
            if time.monotonic() > end:
                logs = [(each.directory / f"{each.name}.log").read_text()[-2000:] for each in self.members]
                raise NotStarted(f"etcd did not start: {logs}")
            time.sleep(0.05)

    def repair(self) -> None:
        """Every member runs and serves again."""
        for each in self.members:
            if each.process is None or each.process.poll() is not None:
                each.start(self.peers)
            else:
                each.thaw()
        self.whole()

    def stop(self) -> None:
        for each in self.members:
            if each.process is not None and each.process.poll() is None:
                each.kill()


@contextmanager
def running(directory: Path, members: int = 3, *options: str, tls: ssl.SSLContext | None = None) -> Iterator[Cluster]:
    """Members that serve. ``options`` are etcd's; ``tls`` goes with those that turn it on. Skips where there is no etcd to start."""
    directory.mkdir(parents=True, exist_ok=True)
    with ports(2 * members) as given:
        pairs = zip(given[::2], given[1::2], strict=True)
        made = Cluster([Member(f"m{n}", directory, *pair, options, tls) for n, pair in enumerate(pairs, 1)])
        yield from _served(made)


def _served(made: Cluster) -> Iterator[Cluster]:
    try:
        for each in made.members:
            each.start(made.peers)
        made.whole()
        yield made
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()


def encoded(text: str | bytes) -> str:
    return b64encode(text.encode() if isinstance(text, str) else text).decode()


def value_of(member: Member, key: str) -> bytes:
    (found,) = member.ask("/v3/kv/range", {"key": encoded(key)})["kvs"]
    return b64decode(found.get("value", ""))
