"""Launching the JVM so that it dies with its driver, holds the replica's proof of life, and carries the fence."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import java_gateway
from pyspark.core import context

from understudy.clock import Instant, instant
from understudy.errors import EnvironmentProblem
from understudy.messages import DriverSpec
from understudy.processes import die_with_parent

#: What makes a session fenced. A class of the user's own in one of these places would take the fence out.
FENCE = {
    "spark.sql.streaming.checkpointFileManagerClass": "dev.understudy.fence.FencedCheckpointFileManager",
    "spark.sql.sources.commitProtocolClass": "dev.understudy.fence.FencedCommitProtocol",
    "spark.sql.streaming.commitProtocolClass": "dev.understudy.fence.FencedManifestProtocol",
}

#: Clocks of the JVM and ours may differ by this many nanoseconds before the gate's deadlines mean nothing.
_CLOCK_TOLERANCE = 100_000_000


def submit_arguments(spec: DriverSpec) -> str:
    """``PYSPARK_SUBMIT_ARGS``: what the user may change, the user's own spark-submit options, then what has to be.

    spark-submit lets the last ``--conf`` win, and the fence must win; a user's own value for one of these is refused rather
    than overridden in silence (``refuse_foreign_fence``).
    """
    ours = {**FENCE, "spark.python.daemon.module": "understudy.driver.worker_daemon", **spec.settings}
    return shlex.join([*_confs(spec.defaults), *spec.submit, *_confs(ours), "pyspark-shell"])


def _confs(settings: Mapping[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


def refuse_foreign_fence(settings: Mapping[str, str | None], where: str) -> None:
    """Raise where ``settings`` names a class of the user's own for what the fence has to be. ``None``: not set."""
    for key, ours in FENCE.items():
        value = settings.get(key)
        if value is not None and value != ours:
            raise EnvironmentProblem(
                f"{key} is {value}", where=where, remedy=f"Remove it: without {ours} a stale leader could write"
            )


def refuse_connect(where: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        "a Spark Connect session has its driver elsewhere, and there is nothing here to fail over",
        where=where,
        remedy="Let the script make a classic session",
    )


def prepare(spec: DriverSpec, alive: int, attached: Callable[[Any], None]) -> None:
    """Make every JVM that PySpark starts in this process a fenced member of the replica.

    ``attached`` is called with the gateway after the gate is mapped there, before the script gets its session.
    The jar goes onto the class path through ``SPARK_DIST_CLASSPATH``, which no setting of the user's can displace.
    """
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if os.environ.get(variable):
            raise refuse_connect(variable)
    if os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        raise refuse_connect("SPARK_API_MODE")
    class_path = os.environ.get("SPARK_DIST_CLASSPATH")
    os.environ["SPARK_DIST_CLASSPATH"] = f"{class_path}:{spec.fence_jar}" if class_path else spec.fence_jar
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(spec)
    _check_worker_python(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))

    def last_breath() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent()

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        """PySpark's launcher closes descriptors and lets the JVM outlive us; neither is allowed here."""

        def __init__(self, command: Any, **options: Any) -> None:
            options["preexec_fn"] = last_breath
            super().__init__(command, pass_fds=(alive,), **options)

    gateways: Any = java_gateway
    gateways.Popen = Popen
    stock = gateways.launch_gateway

    def launch(conf: Any = None, popen_kwargs: Any = None) -> Any:
        gateway = stock(conf, popen_kwargs)
        fence = gateway.jvm.dev.understudy.fence.Fence
        fence.attach(
            spec.gate,
            spec.holder,
            spec.cluster,
            spec.job,
            spec.lock_kind,
            spec.fence_log,
            int(spec.write_timeout * 1000),
        )
        compare_clocks(lambda: Instant(*fence.clocks()))
        attached(gateway)
        return gateway

    contexts: Any = context
    contexts.launch_gateway = launch
    initialize = contexts.SparkContext._initialize_context  # noqa: SLF001

    def initialize_context(self: Any, conf: Any) -> Any:
        made = initialize(self, conf)
        if not made.sc().isLocal() and not made.master().startswith("k8s://"):  # there the image has it
            made.addJar(spec.fence_jar)  # tasks write state and sinks through it
        return made

    contexts.SparkContext._initialize_context = initialize_context  # noqa: SLF001


def _check_worker_python(executable: str) -> None:
    """Python workers hold the replica's proof of life, so their interpreter has to find this package. Raises otherwise."""
    if executable == sys.executable:
        return
    probe = [executable, "-c", "import understudy.processes"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        raise EnvironmentProblem(
            f"{executable} cannot import understudy",
            where="PYSPARK_PYTHON",
            remedy="Install understudy there, or unset it",
        )


def compare_clocks(read_jvm: Callable[[], Instant]) -> None:
    """Refuse to start when the JVM's clocks are not ours: the gate's deadlines would mean another moment there.

    The JVM's reading has to lie between two of ours; on a busy machine the tightest of five brackets counts.
    """
    differences = []
    for _ in range(5):
        before, there, after = instant(), read_jvm(), instant()
        differences.append(
            max(
                before.boottime_ns - there.boottime_ns,
                there.boottime_ns - after.boottime_ns,
                before.monotonic_ns - there.monotonic_ns,
                there.monotonic_ns - after.monotonic_ns,
            )
        )
        if differences[-1] <= _CLOCK_TOLERANCE:
            return
    raise EnvironmentProblem(
        f"the JVM's clocks differ from ours by {min(differences) / 1e6:.0f} ms",
        where="gate",
        remedy="Run both in one time namespace",
    )
