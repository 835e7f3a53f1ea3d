"""The package as people install it: in a virtual environment of its own, found by ``--ha etcd``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from etcd_tests.backend import Etcd
from etcd_tests.environment import environment


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("environment"))


def understudy(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {
        key: value for key, value in os.environ.items() if key not in ("KUBERNETES_SERVICE_HOST", "PYTHONPATH")
    }
    command = [str(python), "-m", "understudy.cli.main", *words]
    return subprocess.run(command, cwd=python.parent, capture_output=True, text=True, check=False, env=variables)


def test_what_is_installed_is_what_is_found(python: Path) -> None:
    said = subprocess.run(
        [python, "-c", "import understudy_etcd; print(understudy_etcd.__file__)"],
        cwd=python.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(said.stdout.strip()).is_relative_to(python.parents[1])


def test_commands_find_the_services_by_their_name(python: Path, backend: Etcd) -> None:
    ended = understudy(python, "status", "--ha", "etcd", "--ha-address", backend.address())
    assert (ended.returncode, f"no cluster in etcd {backend.address()}" in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("nowhere", 2, "--ha-address: '' is no prefix of keys"),
        ("127.0.0.1:9/x", 8, "--ha-address: no member answers that has most of the others"),
    ],
)
def test_a_replica_ends_with_one_line_for_an_etcd_that_cannot_be_used(
    python: Path, tmp_path: Path, address: str, code: int, said: str
) -> None:
    (tmp_path / "job.py").write_text("")
    words = ["--ha-dir", str(tmp_path / "ha"), "--ha", "etcd", "--ha-address", address]
    ended = understudy(python, "run", *words, str(tmp_path / "job.py"))
    assert said in ended.stderr.strip().splitlines()[-1], ended.stderr
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_the_package_the_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("")
    ended = understudy(Path(sys.executable), "run", "--ha", "etcd", str(tmp_path / "job.py"))
    assert ended.returncode == 2, ended.stderr
    assert (
        "--ha: there are no services 'etcd'. Choose one of filesystem, kubernetes, s3, zookeeper; or install"
        in ended.stderr
    )
