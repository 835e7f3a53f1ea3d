"""Which program `make load` asks to bring an image into a cluster, and what it says where there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infra.schema import PROJECT


def loaded(
    tmp_path: Path, context: str, *words: str, status: int = 0
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """With a kubectl whose current context this is. Also what `kind` and `minikube`, which end so, were asked for."""
    asked = tmp_path / "asked"
    asked.touch()
    load = f'#!/bin/sh\necho "$(basename "$0") $*" >>{asked}\nexit {status}\n'
    scripts = {"kubectl": f"#!/bin/sh\necho {context}\n" if context else "#!/bin/sh\nexit 1\n"}
    for name, script in {**scripts, "kind": load, "minikube": load}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    command = [str(PROJECT / "tools" / "load-image.sh"), *words]
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return ended, asked.read_text().splitlines()


@pytest.mark.parametrize(
    ("context", "asked"),
    [
        ("kind-kind", "kind load docker-image job:1 --name kind"),
        ("kind-a-b", "kind load docker-image job:1 --name a-b"),
        ("minikube", "minikube image load job:1"),
    ],
)
def test_an_image_gets_into_a_cluster_of_this_machine(tmp_path: Path, context: str, asked: str) -> None:
    ended, calls = loaded(tmp_path, context, "job:1")
    assert (ended.returncode, calls) == (0, [asked])
    assert ended.stdout == f"load-image: job:1 is in {context}\n"


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ("production", "production takes its images from a registry. Push job:1 there"),
        ("mankind-1", "mankind-1 takes its images from a registry. Push job:1 there"),
        ("", "no current context. Make a cluster first: kind create cluster"),
    ],
)
def test_no_other_cluster_is_touched(tmp_path: Path, context: str, said: str) -> None:
    ended, calls = loaded(tmp_path, context, "job:1")
    assert (ended.returncode, calls) == (3, [])
    assert said in ended.stderr


def test_an_image_that_kind_cannot_load_is_not_said_to_be_there(tmp_path: Path) -> None:
    ended, _ = loaded(tmp_path, "kind-kind", "job:1", status=7)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "build job:1 again with BUILDX_NO_DEFAULT_ATTESTATIONS=1" in ended.stderr


def test_without_an_image_it_asks_for_one(tmp_path: Path) -> None:
    ended, calls = loaded(tmp_path, "kind-kind")
    assert (ended.returncode, calls) == (1, [])
    assert "say which image" in ended.stderr
