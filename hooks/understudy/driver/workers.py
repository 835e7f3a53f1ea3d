"""Python workers of a driver: which interpreter runs them, and how they come to hold the replica's proof of life."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from understudy.errors import EnvironmentProblem
from understudy.submit import all_settings

#: Holds what runs in the workers' interpreter and nothing else: it needs PySpark at most, because the one that a script names
#: (``PYSPARK_PYTHON``) need not have this package.
_PATH = Path(__file__).parent / "worker_path"

#: What a worker needs, and which Python it is: PySpark's workers refuse a driver of another one at their first function.
_PROBE = "import sys, pyspark.daemon; print('%d.%d' % sys.version_info[:2])"


def name_python(submit: Sequence[str], environ: MutableMapping[str, str]) -> None:
    """Name the workers' Python as spark-submit does: by ``spark.pyspark.python``, above ``PYSPARK_PYTHON``; else it is our own."""
    if named := all_settings(submit, environ).get("spark.pyspark.python"):
        environ["PYSPARK_PYTHON"] = named
    environ.setdefault("PYSPARK_PYTHON", sys.executable)


def with_path(environ: Mapping[str, str]) -> dict[str, str]:
    """The JVM's environment: its workers find what is ours."""
    path = environ.get("PYTHONPATH")
    return {**environ, "PYTHONPATH": f"{_PATH}{os.pathsep}{path}" if path else str(_PATH)}


def executes_here(jconf: Any) -> bool:
    """Whether the executors of a context with this configuration run in its own process."""
    return str(jconf.get("spark.master", "")).startswith("local")


def install(jvm: Any, jconf: Any) -> None:
    """Put the daemon into the configuration of a context that is about to be made, if its executors run in this process.

    Workers of other machines' executors prove nothing of this replica, and need no daemon of ours. Raises
    ``EnvironmentProblem`` for an interpreter that can run no workers: none of its functions ever would.
    """
    if not executes_here(jconf):
        return
    jconf.set("spark.python.daemon.module", "understudy_worker_daemon")
    check_python(os.environ.get("PYSPARK_PYTHON", "python3"), str(jvm.PythonUtils.sparkPythonPath()))


def check_python(executable: str, python_path: str) -> None:
    """``python_path``: where Spark lets workers find PySpark."""
    if executable == sys.executable:
        return
    problem = _cannot(executable, python_path)
    if problem:
        ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise EnvironmentProblem(
            f"{executable} cannot run this driver's Python workers: {problem}",
            where="PYSPARK_PYTHON",
            remedy=f"Name a Python {ours} that can import PySpark, or name none",
        )


def _cannot(executable: str, python_path: str) -> str:
    if shutil.which(executable) is None:
        return "there is no such program"
    paths = [python_path, os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    probe = subprocess.run(
        [executable, "-c", _PROBE], env=environ, capture_output=True, text=True, errors="replace", check=False
    )
    if probe.returncode != 0:
        lines = probe.stderr.strip().splitlines()
        return lines[-1] if lines else f"it ends with status {probe.returncode}"
    theirs, ours = probe.stdout.split()[-1], "{}.{}".format(*sys.version_info[:2])
    return "" if theirs == ours else f"it is Python {theirs}, and the driver's is {ours}"
