"""What a driver needs from its machine: Java, PySpark, the fence's jar, and clocks that the JVM reads alike."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from understudy.doctor.finding import Finding, note, of_error, ok, problem
from understudy.environment import Java, find_fence, find_java, spark_environment, spark_version
from understudy.errors import EnvironmentProblem

JAVA, SPARK, JAR, CLOCKS = "java", "pyspark", "fence-jar", "clocks"

#: Seconds by which ``/proc/uptime`` may differ from CLOCK_BOOTTIME; the driver refuses a JVM whose clocks are further from its own.
_APART = 0.1


@dataclass(frozen=True, slots=True)
class Machine:
    """``spark``: the version of PySpark. Each is what was found, or why it will not do; ``None`` where it was not looked for. ``apart``: by how
    many seconds the clock that a JVM reads differs from ours; ``None`` where this kernel does not tell.
    """

    spark: str | EnvironmentProblem
    java: Java | EnvironmentProblem | None = None
    fence: Path | EnvironmentProblem | None = None
    apart: float | None = None


def look() -> Machine:
    """Blocks: runs ``conf/spark-env.sh`` and ``java -version``, as ``understudy run`` does. Without PySpark nothing else is looked for."""
    try:
        spark = spark_version()
    except EnvironmentProblem as error:
        return Machine(error)
    fence: Path | EnvironmentProblem
    java: Java | EnvironmentProblem
    try:
        fence = find_fence(spark)
    except EnvironmentProblem as error:
        fence = error
    try:
        java = find_java(environ=spark_environment(os.environ))
    except EnvironmentProblem as error:
        java = error
    return Machine(spark, java, fence, _clocks_apart())


def _clocks_apart(uptime: Path = Path("/proc/uptime")) -> float | None:
    """The fence reads CLOCK_BOOTTIME from ``/proc/uptime``. Some container runtimes (lxcfs) put another file there."""
    try:
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        there = float(uptime.read_text(encoding="ascii").split()[0])
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError):
        return None
    return max(0.0, before - there, there - after)


def findings(machine: Machine, *, pod: bool) -> list[Finding]:
    """``pod``: replicas run here for certain, so a machine without PySpark is no mere laptop."""
    if isinstance(machine.spark, EnvironmentProblem):
        if pod:
            return [of_error(SPARK, machine.spark)]
        return [
            note(
                SPARK,
                "PySpark is not installed here, so neither Java nor the fence was looked for",
                machine.spark.remedy,
            )
        ]
    found = [ok(SPARK, f"PySpark {machine.spark}")]
    match machine.java:
        case EnvironmentProblem() as error:
            found.append(of_error(JAVA, error))
        case Java(path, major, home):
            found.append(ok(JAVA, f"Java {major} at {path} ({home})"))
    match machine.fence:
        case EnvironmentProblem() as error:
            found.append(of_error(JAR, error))
        case Path() as jar:
            found.append(ok(JAR, f"{jar} is for this Spark line"))
    return [*found, *_clocks(machine.apart)]


def _clocks(apart: float | None) -> list[Finding]:
    if apart is None:
        return [note(CLOCKS, "/proc/uptime tells no time, so the JVM's clock was not compared")]
    if apart > _APART:
        text = f"/proc/uptime differs from CLOCK_BOOTTIME by {apart:.2f} s: the JVM's clock is not ours, and no driver starts"
        remedy = "Let this container see the kernel's own /proc/uptime (lxcfs mounts another one)"
        return [problem(CLOCKS, text, remedy, EnvironmentProblem)]
    return [ok(CLOCKS, "the clock that a JVM reads is ours")]


def elsewhere() -> Finding:
    return note(
        SPARK,
        "Java, PySpark and the fence are the pods', and were not looked for here",
        "Run understudy doctor in a pod",
    )
