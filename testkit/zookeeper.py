"""ZooKeeper for tests: an ensemble of three servers in one directory, and a proxy that fails requests as a bad network does."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from testkit.faults import Fault
from testkit.places import REPOSITORY
from testkit.ports import ports
from testkit.s3 import Missing, NotStarted

#: Made by ``tools/setup.sh zookeeper``, which ``make test`` calls first.
LIB = REPOSITORY / "build" / "zookeeper" / "lib"

#: Milliseconds. A session lasts for 2 to 20 of them.
_TICK = 500
#: Of ZooKeeper's protocol: a connection's first request has no type.
_WRITES = frozenset({5, 15})  # setData, create2


@dataclass
class Server:
    """One of an ensemble. ``java``: the program that runs it; ``options``: of that, besides the usual ones."""

    number: int
    directory: Path
    client_port: int
    java: str
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [self.java, *self.options, *arguments(f"{LIB}/*", str(self.directory))]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

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

    def repair(self) -> None:
        if self.process is None or self.process.poll() is not None:
            self.start()
        else:
            self.thaw()

    def log(self) -> str:
        return (self.directory / "log").read_text()

    def state(self) -> str:
        """``leader``, ``follower``, or empty while it serves nothing."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.client_port), 1) as asked:
            asked.settimeout(2)
            asked.sendall(b"srvr")
            told = b""
            while part := asked.recv(4096):
                told += part
            return told.partition(b"Mode: ")[2].partition(b"\n")[0].decode()
        return ""

    @contextmanager
    def alone(self, within: float = 60) -> Iterator[None]:
        """It serves, and is no ensemble. Raises ``NotStarted``."""
        self.start()
        try:
            end = time.monotonic() + within
            while self.state() != "standalone":
                if time.monotonic() > end:
                    raise NotStarted(f"ZooKeeper did not start: {self.log()[-2000:]}")
                time.sleep(0.1)
            yield
        finally:
            self.kill()


@dataclass
class Ensemble:
    servers: list[Server] = field(default_factory=list)

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{each.client_port}" for each in self.servers)

    @property
    def leader(self) -> Server:
        return next(each for each in self.servers if each.state() == "leader")

    def whole(self, within: float = 60) -> None:
        """Wait until every server serves."""
        end = time.monotonic() + within
        while not all(each.state() in {"leader", "follower"} for each in self.servers):
            if time.monotonic() > end:
                logs = "\n".join(each.log()[-2000:] for each in self.servers)
                raise NotStarted(f"ZooKeeper did not start: {logs}")
            time.sleep(0.1)

    def repair(self) -> None:
        """Every server runs and serves again."""
        for each in self.servers:
            each.repair()
        self.whole()


def jars() -> Path:
    if not list(LIB.glob("zookeeper-3*.jar")):
        raise Missing("ZooKeeper's jars are not there: run tools/setup.sh zookeeper")
    return LIB


def arguments(classes: str, home: str) -> list[str]:
    """Java's, for a server with the files of ``configure`` in ``home``."""
    return [
        *("-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes),
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        f"-Djava.security.auth.login.config={home}/jaas.conf",
        *("org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{home}/zoo.cfg"),
    ]


def configure(directory: Path, number: int, settings: str, *, home: str, user: str, password: str) -> None:
    """Write the files of one server into ``directory``, which the server itself knows as ``home``."""
    directory.mkdir(parents=True)
    (directory / "zoo.cfg").write_text(
        f"tickTime={_TICK}\ninitLimit=20\nsyncLimit=4\ndataDir={home}\n"
        f"maxClientCnxns=0\n4lw.commands.whitelist=srvr\nforceSync=no\n{settings}"
    )
    (directory / "jaas.conf").write_text(
        f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_{user or "none"}="{password or "-"}"; }};\n'
    )
    (directory / "myid").write_text(f"{number}\n")


@contextmanager
def ensemble(
    directory: Path, java: str, *, user: str = "", password: str = "", address: str = "127.0.0.1"
) -> Iterator[Ensemble]:
    """Three servers that serve. ``user`` may authenticate by SASL; clients are served at ``address``."""
    jars()
    with (
        ports(9) as given,
        _running(directory, java, [given[:3], given[3:6], given[6:]], user, password, address) as made,
    ):
        yield made


@contextmanager
def _running(
    directory: Path, java: str, given: Sequence[tuple[int, ...]], user: str, password: str, address: str
) -> Iterator[Ensemble]:
    """``given``: of each server the ports for clients, for its peers, and for their votes."""
    made = Ensemble()
    for number, (client, _, _) in enumerate(given, 1):
        home = directory / f"server-{number}"
        peers = "".join(f"server.{n}=127.0.0.1:{peer}:{vote}\n" for n, (_, peer, vote) in enumerate(given, 1))
        settings = f"clientPort={client}\nclientPortAddress={address}\n{peers}"
        configure(home, number, settings, home=str(home), user=user, password=password)
        made.servers.append(Server(number, home, client, java))
    try:
        for each in made.servers:
            each.start()
        made.whole()
        yield made
    finally:
        for each in made.servers:
            if each.process is not None and each.process.poll() is None:
                each.kill()


@dataclass
class ZooKeeperProxy:
    """Passes connections to one server. ``faults`` befall writes, in order, and each ends its connection; after ``Fault.DELAYED`` the proxy takes
    no other one, since a session that comes back would take the delayed request away.
    """

    upstream: int
    faults: list[Fault | None] = field(default_factory=list)
    port: int = 0
    held: list[tuple[socket.socket, bytes]] = field(default_factory=list)
    _deaf: bool = False
    _listener: socket.socket | None = None
    _open: list[socket.socket] = field(default_factory=list)
    _landed: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._run(self._accept)

    def land(self) -> None:
        """Every delayed request arrives, and is answered to none."""
        for server, frame in self.held:
            self._landed.clear()
            server.sendall(frame)
            self._landed.wait(10)
            _end(server)
        self.held.clear()

    def cut(self) -> None:
        """The network is gone: nothing that is sent arrives, and nothing says so."""
        self._deaf = True

    def restore(self) -> None:
        self._deaf = False
        self._drop()

    def close(self) -> None:
        self.land()
        assert self._listener is not None
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends an accept under way, which closing alone does not
        self._listener.close()
        self._deaf = False
        while self._threads:
            self._drop()
            self._threads.pop().join()

    def _run(self, what: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _drop(self) -> None:
        for each in self._open:
            _end(each)
        self._open.clear()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            if not self._deaf:
                self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.upstream), 5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        silent = threading.Event()
        self._open.append(server)
        self._run(self._answers, server, client, silent)
        first = True
        with suppress(OSError):
            while frame := _frame(client):
                write = not first and len(frame) >= 12 and struct.unpack(">i", frame[8:12])[0] in _WRITES
                first = False
                if self._deaf:
                    continue
                fault = self.faults.pop(0) if write and self.faults else None
                if fault is None:
                    server.sendall(frame)
                    continue
                if fault is Fault.DELAYED:
                    self._deaf = True
                    self._open.remove(server)
                    self.held.append((server, frame))
                    silent.set()
                elif fault is Fault.LOST_ANSWER:
                    silent.set()
                    self._landed.clear()
                    server.sendall(frame)
                    self._landed.wait(10)
                    _end(server)
                else:
                    _end(server)
                break
        _end(client)

    def _answers(self, server: socket.socket, client: socket.socket, silent: threading.Event) -> None:
        with suppress(OSError):
            while frame := _frame(server):
                if silent.is_set():
                    self._landed.set()
                    continue
                if not self._deaf:
                    client.sendall(frame)
        if not self._deaf:
            _end(client)


def _end(sock: socket.socket) -> None:
    """Also wakes a thread that reads from it, which closing alone does not."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _frame(sock: socket.socket) -> bytes:
    """The next one, with its length; empty at the end."""
    head = _exactly(sock, 4)
    if not head:
        return b""
    return head + _exactly(sock, struct.unpack(">i", head)[0])


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data
