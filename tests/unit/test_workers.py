"""Which Python runs a driver's workers, and the daemon that holds the proof of life for them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from understudy.driver import workers
from understudy.errors import EnvironmentProblem
from understudy.protocol.driver_spec import ALIVE_VARIABLE
from understudy.supervisor.driver_process import COMMAND, like_submit

_SPARK = str(Path(pyspark.__file__).parent.parent)


def interpreter(home: Path, says: str) -> str:
    path = home / "python"
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_of_the_same_python_with_pyspark_and_without_understudy_will_do(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    workers.check_python(str(tmp_path / "bin" / "python"), _SPARK)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("echo 2.7", "it is Python 2.7, and the driver's is "),
        ("echo \"ModuleNotFoundError: No module named 'pyspark'\" >&2; exit 1", "No module named 'pyspark'"),
        ("exit 3", "it ends with status 3"),
    ],
)
def test_an_interpreter_that_cannot_run_workers_is_refused_by_name(tmp_path: Path, says: str, why: str) -> None:
    path = interpreter(tmp_path, says)
    with pytest.raises(EnvironmentProblem, match=why) as raised:
        workers.check_python(path, _SPARK)
    assert path in str(raised.value)


def test_an_interpreter_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(EnvironmentProblem, match="no-such-python cannot run"):
        workers.check_python("no-such-python", _SPARK)


def test_the_workers_python_is_named_as_spark_submit_names_it() -> None:
    environ = {"PYSPARK_PYTHON": "theirs"}
    workers.name_python((), environ)
    assert environ["PYSPARK_PYTHON"] == "theirs"
    workers.name_python(("--conf", "spark.pyspark.python=setting"), environ)
    assert environ["PYSPARK_PYTHON"] == "setting"
    empty: dict[str, str] = {}
    workers.name_python((), empty)
    assert empty["PYSPARK_PYTHON"] == sys.executable


def test_what_workers_run_is_found_on_their_path_and_needs_pyspark_at_most() -> None:
    path = workers.with_path({"PYTHONPATH": "/theirs"})["PYTHONPATH"]
    directory, theirs = path.split(os.pathsep)
    assert theirs == "/theirs"
    modules = list(Path(directory).glob("*.py"))
    assert "understudy_worker_daemon" in {each.stem for each in modules}
    imported = {name for each in modules for name in _imported(each.read_text())}
    assert imported - sys.stdlib_module_names == {"pyspark", "understudy_alive"}
    assert f'"{ALIVE_VARIABLE}"' in Path(directory, "understudy_alive.py").read_text()


def _imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def test_a_module_in_the_working_directory_is_not_taken_for_python_s_own(tmp_path: Path) -> None:
    for name in ("random", "logging", "understudy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the working directory')\n")
    done = subprocess.run(
        COMMAND, cwd=tmp_path, env=like_submit(os.environ), capture_output=True, text=True, check=False
    )
    assert "UNDERSTUDY_DRIVER" in done.stderr  # it came so far as to ask what to run
    assert "working directory" not in done.stderr


def test_hash_is_the_same_in_every_driver() -> None:
    ask = [sys.executable, "-c", "print(hash('payments'))"]
    environ = like_submit({name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"})
    assert len({subprocess.run(ask, env=environ, capture_output=True, check=True).stdout for _ in range(3)}) == 1
