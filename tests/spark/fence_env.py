"""Drivers for tests of the JVM fence: a bare JVM, or a whole Spark, in a session of its own behind a gate we write.

The JVM's parent is a small Python that leads the session, as the driver's Python does in production: the halting thread
kills that one and its session, never the test run. Gate pages are written by ``tests.doubles.pages``.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis  # noqa: F401 - its pytest plugin would import it at the end, in the middle of py4j's finalizers
import pyspark
from py4j import java_gateway, protocol
from py4j.finalizer import ThreadSafeFinalizer
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

from testkit.tails import whole_lines
from tests.doubles.pages import GatePage
from understudy.environment import find_fence, spark_version

REPOSITORY = Path(__file__).parents[2]
MODULE = REPOSITORY / "hooks" / "jvm"
LOST = "dev.understudy.fence.LeadershipLostException"
EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"

_PARENT = """
import subprocess, sys
sys.exit(subprocess.Popen(sys.argv[2:], start_new_session=sys.argv[1] == "apart").wait())
"""

#: What Spark asks of Java 17, as its own launcher passes it.
_OPENS = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action"),
    "sun.util.calendar",
)
SPARK_OPTIONS = ("-Xmx700m", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENS))


def fence_jar() -> Path:
    """The jar under test: ``UNDERSTUDY_FENCE_JAR``, else the one that ``make jar`` built for this Spark."""
    named = os.environ.get("UNDERSTUDY_FENCE_JAR")
    return Path(named) if named else find_fence(spark_version())


@dataclass
class Driver:
    """A JVM with the fence attached to a gate. ``jvm`` is py4j's view of it."""

    root: Path
    gate: GatePage
    holder: str
    log_path: Path
    process: subprocess.Popen[str]
    gateway: JavaGateway
    pid: int
    conf: Any = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def jvm(self) -> Any:
        return self.gateway.jvm

    @property
    def fence(self) -> Any:
        return self.jvm.dev.understudy.fence.Fence

    def quiesce(self, within_ms: int) -> bool:
        """As ``FenceClient.quiesce``."""
        self.fence.hold()
        return bool(self.fence.awaitQuiet(within_ms))

    def attach(self, cluster: str = "c", job: str = "j", lock: str = "file", timeout_ms: int = 2000) -> None:
        self.fence.attach(str(self.gate.path), self.holder, cluster, job, lock, "{}", str(self.log_path), timeout_ms)

    def state(self) -> dict[str, Any]:
        return dict(json.loads(self.fence.state()))

    def claim(self, root: str | Path) -> dict[str, Any]:
        return dict(json.loads(self.fence.claim(str(root), self.conf)))

    def path(self, path: str | Path) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(str(path))

    def manager(self, root: str | Path) -> Any:
        return self.jvm.dev.understudy.fence.FencedCheckpointFileManager(self.path(root), self.conf)

    def open(self, path: str | Path, *, overwrite: bool = False) -> Any:
        return self.manager(str(path).rsplit("/", 1)[0]).createAtomic(self.path(path), overwrite)

    def write(self, path: str | Path, data: bytes = b"v1\n{}", *, overwrite: bool = False) -> None:
        out = self.open(path, overwrite=overwrite)
        out.write(bytearray(data))
        out.close()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        while Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.001)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log(self) -> list[dict[str, Any]]:
        if not self.log_path.exists():
            return []
        return [json.loads(line) for line in whole_lines(self.log_path.read_text())]

    def logged(self, **fields: Any) -> list[dict[str, Any]]:
        return [line for line in self.log() if all(line[name] == value for name, value in fields.items())]

    def stop(self) -> None:
        """Kills the session: the parent, the JVM, and what they started."""
        gc.collect()  # py4j's finalizers run while there is a JVM to tell, not whenever the collector feels like it
        client = self.gateway._gateway_client
        self.gateway.close()
        ours = f"{client.address}{client.port}"
        for key in [each for each in ThreadSafeFinalizer.finalizers if each.startswith(ours)]:
            ThreadSafeFinalizer.remove_finalizer(key)  # of what is still referred to, as by this very object
        for pid in (self.pid, self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def refusal(error: Py4JJavaError) -> str:
    """The class name of the innermost Java exception that says why."""
    exception = error.java_exception
    while exception.getCause() is not None and exception.getClass().getName() not in (LOST, EXISTS):
        exception = exception.getCause()
    return str(exception.getClass().getName())


#: What a bare JVM loads from, in front: Java opens every jar of the class path up to the one that has a class.
_FIRST = (
    "py4j-*",
    "jackson-*-2*",
    "hadoop-client-*",
    "spark-sql_*",
    "spark-core_*",
    "scala-library-*",
    "slf4j-*",
    "log4j-*",
)


def class_path(*extra: str | Path) -> str:
    jars = Path(pyspark.__file__).parent / "jars"
    first = [str(each) for name in _FIRST for each in sorted(jars.glob(f"{name}.jar"))]
    return os.pathsep.join([str(fence_jar()), *map(str, extra), *first, f"{jars}/*"])


@contextmanager
def errors_as_they_come() -> Iterator[None]:
    """A session in this very process has PySpark translate the errors of all gateways, and ask its own JVM about them."""
    translated = java_gateway.get_return_value
    java_gateway.get_return_value = protocol.get_return_value
    try:
        yield
    finally:
        java_gateway.get_return_value = translated


@contextmanager
def driver(
    root: Path,
    *,
    attach: bool = True,
    classes: str | None = None,
    options: tuple[str, ...] = (),
    holder: str | None = None,
    apart: bool = False,
    **attach_to: Any,
) -> Iterator[Driver]:
    """A bare JVM: about a second to start. Its gate stands on standby until a test writes it.

    ``apart`` gives the JVM a session of its own, so that its parent is not the driver it belongs to.
    """
    root.mkdir(parents=True, exist_ok=True)
    holder = holder or str(uuid.uuid4())
    gate = GatePage(root / f"gate-{holder}")
    (root / "tmp").mkdir(exist_ok=True)
    command = [
        "java",
        f"-Djava.io.tmpdir={root}/tmp",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        *options,
    ]
    command += ["-cp", classes or class_path(), "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
    with (root / f"stderr-{holder}").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _PARENT, "apart" if apart else "together", *command],
            stdin=subprocess.PIPE,  # never written: it ends with the test run, and the JVM with it
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    port, secret = int(process.stdout.readline()), process.stdout.readline().strip()
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True))
    pid = int(gateway.jvm.java.lang.ProcessHandle.current().pid())
    made = Driver(root, gate, holder, root / "log" / f"fence-{holder}.jsonl", process, gateway, pid)
    try:
        made.conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in FENCE.items():
            made.conf.set(name, value)  # without it nothing can be claimed
        if attach:
            made.attach(**attach_to)
        with errors_as_they_come():
            yield made
    finally:
        made.stop()


#: What makes a session fenced; a driver of ours puts it in by itself.
FENCE = {
    "spark.sql.streaming.checkpointFileManagerClass": "dev.understudy.fence.FencedCheckpointFileManager",
    "spark.sql.sources.commitProtocolClass": "dev.understudy.fence.FencedCommitProtocol",
    "spark.sql.streaming.commitProtocolClass": "dev.understudy.fence.FencedManifestProtocol",
}

STOCK = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    ),
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}


def spark(one: Driver, settings: dict[str, str]) -> Any:
    """A session in the driver's JVM, through py4j alone. The first call makes the context."""
    builder = one.jvm.org.apache.spark.sql.classic.SparkSession.builder().master("local[1]")
    common = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(one.root / "warehouse"),
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in common.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate().newSession()
    for name, value in settings.items():
        session.conf().set(name, value)
    if FENCE.items() <= settings.items():
        assert one.jvm.dev.understudy.fence.FenceSettings.enforce(session) == "", "the fence is not in force"
    return session


class Job:
    """A batch's commit protocol taken through its steps by hand, so that a takeover can fall between any two."""

    def __init__(self, one: Driver, path: Path) -> None:
        self.one, jvm = one, one.jvm
        mapreduce = jvm.org.apache.hadoop.mapreduce
        job = mapreduce.Job.getInstance(one.conf)
        job.setOutputFormatClass(jvm.java.lang.Class.forName("org.apache.hadoop.mapreduce.lib.output.TextOutputFormat"))
        mapreduce.lib.output.FileOutputFormat.setOutputPath(job, one.path(path))
        self.context = mapreduce.task.JobContextImpl(job.getConfiguration(), mapreduce.JobID("job", 0))
        self.protocol = jvm.dev.understudy.fence.FencedCommitProtocol("job", str(path), False)

    def commit(self) -> None:
        """A whole job that writes nothing."""
        self.protocol.setupJob(self.context)
        jvm = self.one.jvm
        empty = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
        self.protocol.commitJob(self.context, empty)


#: Where each job keeps its claim of a directory that its batches write to: by cluster and job.
OUTPUTS = Path("_understudy") / "outputs"


def claim_files(root: Path, below: Path = Path("_understudy")) -> dict[int, dict[str, Any]]:
    """Every claim in a local root, by number."""
    found = (root / below).glob("claim@*")
    return {int(each.name.partition("@")[2]): json.loads(each.read_text()) for each in found}


def seize(
    root: Path,
    number: int,
    holder: str = "another",
    *,
    cluster: str = "c",
    job: str = "j",
    below: Path = Path("_understudy"),
) -> None:
    """What another replica's JVM does when it claims a local root."""
    directory = root / below
    directory.mkdir(parents=True, exist_ok=True)
    following = max(claim_files(root, below), default=0) + 1
    claim = {"version": 1, "token": number, "holder": holder, "cluster": cluster, "job": job, "lock": "file"}
    temporary = directory / f".claim-{uuid.uuid4()}.tmp"
    temporary.write_text(json.dumps(claim))
    os.link(temporary, directory / f"claim@{following}")
    temporary.unlink()
