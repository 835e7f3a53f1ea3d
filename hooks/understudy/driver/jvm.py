"""Launching the JVM so that it dies with its driver, holds the replica's proof of life, and carries the fence."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError

from understudy.clock import Instant, instant
from understudy.driver import workers
from understudy.driver.children import PORT_VARIABLE, as_without_jvm, names_a_jvm
from understudy.driver.fence_check import fence_class
from understudy.driver.java import java_class
from understudy.driver.spare_workers import SpareWorkers
from understudy.driver.startup_output import StartupOutput, is_permanent, reason_in
from understudy.errors import EnvironmentProblem, ScriptProblem
from understudy.launcher import from_lasting_thread
from understudy.processes import die_with_parent
from understudy.protocol.driver_spec import DriverSpec
from understudy.submit import SHELL, all_settings, merged, option, without

#: Clocks of the JVM and ours may differ by this many nanoseconds before the gate's deadlines mean nothing.
_CLOCK_TOLERANCE = 100_000_000


def submit_arguments(spec: DriverSpec, script: str) -> str:
    """``PYSPARK_SUBMIT_ARGS`` as PySpark starts the JVM: what the user may change, what the script has put there itself, the
    options of the command line, then what has to be. spark-submit lets the last one win.

    What the user's files set is left to them: as an option, a default would win over it.

    Raises ``ScriptProblem``, and ``SettingsError`` for a file of settings that cannot be read.

    The fence is not among them: it goes into the context's configuration (``FenceCheck.install``), where the settings of files
    and builders have come in as well.
    """
    try:
        given = merged(script, spec.submit)
    except ValueError as error:
        raise ScriptProblem(f"{error}: {script}", where="PYSPARK_SUBMIT_ARGS") from error
    if spec.settings:  # executors are pods, and their number is ours; an option would win over a setting
        given = without(given, "--num-executors")
    # and what spark-submit sets otherwise for a script than for a shell
    defaults = {**spec.defaults, "spark.ui.showConsoleProgress": "false"}
    if not option(given, "--name", ""):
        defaults["spark.app.name"] = Path(spec.script).name
    theirs = all_settings(given, os.environ)
    ours = {key: value for key, value in defaults.items() if key not in theirs}
    return shlex.join([*_confs(ours), *given, *_confs(spec.settings), SHELL])


def _confs(settings: Mapping[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


def refuse_connect(where: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        "a Spark Connect session has its driver elsewhere, and there is nothing here to fail over",
        where=where,
        remedy="Let the script make a classic session",
    )


def launched(spec: DriverSpec, outputs: list[StartupOutput], launch: Callable[[], Any]) -> Any:
    """The gateway of a JVM that ``launch`` starts. ``outputs`` are the pipes of its standard error, read here until it has started."""
    given = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(spec, given or "")
    outputs.clear()
    try:
        with as_without_jvm(os.environ):
            gateway = launch()
    except PySparkRuntimeError as error:
        raise _not_started(outputs, error) from error
    finally:
        del os.environ["PYSPARK_SUBMIT_ARGS"]
        if given is not None:
            os.environ["PYSPARK_SUBMIT_ARGS"] = given
    for each in outputs:
        each.started()
    return gateway


def refuse_other_jvms() -> None:
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if os.environ.get(variable):
            raise refuse_connect(variable)
    if os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        raise refuse_connect("SPARK_API_MODE")
    if names_a_jvm(os.environ):
        raise EnvironmentProblem(
            "a JVM is there already, which was started without the fence",
            where=PORT_VARIABLE,
            remedy="Do not start understudy by spark-submit: it starts Spark itself",
        )


def popen_class(alive: int, fence_jar: str, spares: SpareWorkers, outputs: list[StartupOutput]) -> type:
    def last_breath(parent: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)  # it died before the line above took effect

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        """PySpark's launcher closes descriptors and lets the JVM outlive its driver; neither is allowed here."""

        def __init__(self, command: Any, **options: Any) -> None:
            options["preexec_fn"] = partial(last_breath, os.getpid())
            python = options["env"].get("PYSPARK_PYTHON", "python3")
            options["env"] = {**jvm_environment(options["env"], fence_jar), **spares.environment(python)}
            output = None
            if options.get("stderr") is None:
                output = StartupOutput()
                outputs.append(output)
                options["stderr"] = output.descriptor
            start = partial(super().__init__, command, pass_fds=(alive,), **options)
            from_lasting_thread(start)  # the script may ask for its session in a thread that ends
            if output is not None:
                output.begin()

    return Popen


def attach(gateway: Any, spec: DriverSpec) -> None:
    fence = fence_class(gateway, spec.fence_jar)
    fence.attach(
        spec.gate,
        spec.holder,
        spec.cluster,
        spec.job,
        spec.lock_kind,
        json.dumps(spec.former_locks),
        spec.fence_log,
        int(spec.write_timeout * 1000),
    )
    compare_clocks(lambda: Instant(*fence.clocks()))


def log_as_configured(jvm: Any) -> None:
    """Lift the threshold, WARN, that Spark puts on a shell's console, where the user has configured log4j: spark-submit puts none on a script's.

    Without a configuration of the user's it stays: Spark's own would log everything from INFO on, of every rehearsal as well.
    """
    with suppress(Py4JError):  # private to Spark: where a release has it no more, the threshold stays
        logging = getattr(java_class(jvm, "org.apache.spark.internal.Logging$"), "MODULE$")
        if not getattr(logging, "org$apache$spark$internal$Logging$$defaultSparkLog4jConfig")():
            getattr(logging, "sparkShellThresholdLevel_$eq")(None)


def jvm_environment(environ: Mapping[str, str], fence_jar: str) -> dict[str, str]:
    """``environ`` of the driver, with the fence and what workers need on their paths."""
    class_path, options = environ.get("SPARK_DIST_CLASSPATH"), environ.get("SPARK_SUBMIT_OPTS", "")
    return {
        **workers.with_path(environ),
        "SPARK_DIST_CLASSPATH": f"{class_path}:{fence_jar}" if class_path else fence_jar,
        # Half of the reasons why a JVM does not start go to standard output, where they are easily missed.
        "SPARK_SUBMIT_OPTS": f"-XX:+DisplayVMOutputToStderr {options}".strip(),
    }


def broadcast_in_small_blocks(jconf: Any) -> None:
    """Unless the user has said how. Where executors run in this process a broadcast is not sent anywhere, but Spark allocates a whole block of
    4 MB for the smallest of them, several times for each batch: more than half a region of the heap has (docs/decisions/0073).
    """
    if workers.executes_here(jconf):
        jconf.setIfMissing("spark.broadcast.blockSize", "1m")


def local_disk_without_processes(jvm: Any, jconf: Any) -> None:
    """Unless the user has named a file system of their own. Hadoop's starts ``chmod`` for each file that it makes (docs/decisions/0078)."""
    if workers.executes_here(jconf):
        java_class(jvm, "dev.understudy.hadoop.LocalDisk").configure(jconf)


def _not_started(outputs: list[StartupOutput], error: Exception) -> Exception:
    lines = [line for each in outputs for line in each.lines()]
    reason = reason_in(lines) or str(error)
    if is_permanent("\n".join(lines)):
        return EnvironmentProblem(
            f"the JVM does not start: {reason}",
            where="spark-submit",
            remedy="Change the option or setting that it names",
        )
    return RuntimeError(f"the JVM did not start: {reason}")


def compare_clocks(read_jvm: Callable[[], Instant]) -> None:
    """Refuse to start when the JVM's clocks differ from ours: the gate's deadlines would mean another moment there.

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
