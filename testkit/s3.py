"""An S3 server for tests: versitygw, built once from its Go module into a cache outside the repository.

``S3Proxy`` stands before it and can fail, swallow or delay requests, and counts them: what a bad network does.
"""

from __future__ import annotations

import random
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testkit.places import REPOSITORY
from testkit.ports import ports

KEY, SECRET, BUCKET = "understudy", "understudy-secret", "bucket"


#: Both are made by ``tools/setup.sh s3``, which ``make test`` calls first.
BINARY = REPOSITORY / "build" / "bin" / "versitygw"
JARS = REPOSITORY / "hooks" / "jvm" / "target" / "s3a"


class Missing(Exception):
    """What a test needs is not installed: it is skipped. One line that says what to do."""


class NotStarted(Exception):
    """What a test needs is installed and does not serve, which is a fault and no reason to skip anything."""


def versitygw() -> Path:
    if not BINARY.exists():
        raise Missing("versitygw is not built: run tools/setup.sh s3")
    return BINARY


def s3a_jars() -> Path:
    """The directory with what ``s3a://`` needs beside Spark."""
    if not list(JARS.glob("hadoop-aws-*.jar")):
        raise Missing("the jars of s3a:// are not there: run tools/setup.sh s3")
    return JARS


def arguments(address: str, data: str) -> list[str]:
    """versitygw's, for the buckets that are directories in ``data``."""
    return ["--port", address, "--access", KEY, "--secret", SECRET, "posix", data]


@contextmanager
def server(directory: Path, host: str = "127.0.0.1") -> Iterator[int]:
    """A running server with one empty bucket, on ``host`` (empty: on every address); yields its port."""
    with ports(1) as (port,), _serving(directory, host, port):
        yield port


@contextmanager
def _serving(directory: Path, host: str, port: int) -> Iterator[None]:
    data = directory / "s3"
    (data / BUCKET).mkdir(parents=True)
    command = [str(versitygw()), *arguments(f"{host}:{port}", str(data))]
    with (directory / "s3.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        await_port(port, lambda: "" if process.poll() is None else (directory / "s3.log").read_text() or "it ended")
        yield
    finally:
        process.terminate()
        process.wait()


def await_port(port: int, ended: Callable[[], str]) -> None:
    """Wait until versitygw answers; ``ended`` says why it never will. Raises ``NotStarted``."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1):
                return
        except urllib.error.HTTPError:
            return  # it refuses who does not sign, and so it serves; of a container, Docker's proxy accepts before that
        except OSError:
            if (why := ended()) or time.monotonic() > end:
                raise NotStarted(f"versitygw did not start: {why or 'it does not answer'}") from None
            time.sleep(0.05)


def settings(port: int, host: str = "127.0.0.1") -> dict[str, str]:
    """Hadoop's configuration for that server."""
    return {
        "fs.s3a.endpoint": f"http://{host}:{port}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.input.stream.type": "classic",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


def spark_settings(port: int, host: str = "127.0.0.1") -> dict[str, str]:
    """Spark's, with which its ``s3a://`` is that server."""
    return {f"spark.hadoop.{name}": value for name, value in settings(port, host).items()}


#: What to do with a request, by its first line: "pass", a status such as "503" (answered without asking the server), "late" and
#: a status (the server does it, and that is answered), "swallow" (the server does it, the answer is lost), "torn" (the server
#: gets half of the body, and then both connections break), "hang" (it gets nothing, and the connection stays), "keep" (the answer is
#: lost, and the server gets it when ``land`` is called).
Rule = Callable[[str], str]


def share(fault: str, part: float, verbs: str = "PUT GET HEAD DELETE POST", seed: int = 1) -> Rule:
    """A server that now and then has ``fault``: with that ``part`` of the requests with these ``verbs``."""
    dice = random.Random(seed)
    return lambda line: fault if line.split(" ")[0] in verbs.split() and dice.random() < part else "pass"


@dataclass
class S3Proxy:
    """Passes requests on, one connection each, as its rule says; ``seen`` holds their first lines.

    ``ignored`` is a header that makes a PUT conditional: requests with it are answered as by a server that passes over it.
    """

    upstream: int
    rule: Rule = lambda _: "pass"
    seen: list[str] = field(default_factory=list)
    ignored: str = ""
    port: int = 0
    kept: list[tuple[bytes, bytes]] = field(default_factory=list)
    _unknown: list[str] = field(default_factory=list)
    _away: threading.Event = field(default_factory=threading.Event)
    _gone: threading.Event = field(default_factory=threading.Event)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def puts(self, ending: str) -> list[str]:
        return [
            line for line in self.seen if line.startswith("PUT ") and line.split(" ")[1].split("?")[0].endswith(ending)
        ]

    def land(self) -> None:
        """The server gets what was kept, in the order sent."""
        while self.kept:
            self._upstream(*self.kept.pop(0))

    @contextmanager
    def running(self) -> Iterator[S3Proxy]:
        """Raises ``ValueError`` in the end where the rule has said what is not known here: a fault that never came proves nothing."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(listener.getsockname()[1])
        accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        accepting.start()
        try:
            yield self
        finally:
            self._stopped.set()
            accepting.join()
        if self._unknown:
            raise ValueError(f"no rule of S3Proxy: {self._unknown[0]!r}")

    @contextmanager
    def away(self) -> Iterator[None]:
        """Connections are refused meanwhile."""
        self._away.set()
        assert self._gone.wait(10)
        try:
            yield
        finally:
            self._away.clear()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopped.is_set():
            with listener:
                listener.settimeout(0.02)
                while not self._stopped.is_set() and not self._away.is_set():
                    try:
                        client, _ = listener.accept()
                    except TimeoutError:
                        continue
                    threading.Thread(target=self._serve, args=(client,), daemon=True).start()
            self._gone.set()
            while self._away.is_set():
                time.sleep(0.02)
            self._gone.clear()
            listener = socket.create_server(("127.0.0.1", self.port))
        listener.close()

    def _serve(self, client: socket.socket) -> None:
        with client:
            client.settimeout(30)
            try:
                head, body = _request(client)
                if not head:
                    return
                line = head.split(b"\r\n", 1)[0].decode()
                self.seen.append(line)
                if self.ignored and line.startswith("PUT ") and f"\r\n{self.ignored}:".encode() in head.lower():
                    client.sendall(_answer(200, b'ETag: "0"\r\n'))
                    return
                self._answer_as(self.rule(line), client, head, body)
            except OSError:
                return

    def _answer_as(self, rule: str, client: socket.socket, head: bytes, body: bytes) -> None:
        match rule.split():
            case ["late", status]:
                self._upstream(head, body)
                client.sendall(_answer(int(status)))
            case [status] if status.isdigit():
                client.sendall(_answer(int(status)))
            case ["keep"]:
                self.kept.append((head, body))
            case ["hang"]:
                self._stopped.wait(30)
            case ["swallow"]:
                self._upstream(head, body)
            case ["torn"]:
                with socket.create_connection(("127.0.0.1", self.upstream), 30) as server:
                    server.sendall(head + body[: len(body) // 2])
            case ["pass"]:
                client.sendall(self._upstream(head, body))
            case _:
                self._unknown.append(rule)

    def _upstream(self, head: bytes, body: bytes) -> bytes:
        # one request a connection: the answer ends when the server closes
        closing = head.replace(b"\r\nConnection: Keep-Alive", b"").replace(b"\r\nExpect: 100-continue", b"")
        closing = closing[:-4] + b"\r\nConnection: close\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.upstream), 30) as server:
            server.sendall(closing + body)
            answer = bytearray()  # which does not copy all of it for each part
            while part := server.recv(65536):
                answer += part
        return bytes(answer)


def _answer(status: int, fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Said\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n" % (status, fields)


def _request(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        if not part:
            return b"", b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"100-continue" in fields.get(b"expect", b""):
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = int(fields.get(b"content-length", b"0"))
    whole = bytearray(body)
    while len(whole) < length:
        part = client.recv(65536)
        if not part:
            break
        whole += part
    return head + b"\r\n\r\n", bytes(whole)
