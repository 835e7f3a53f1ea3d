"""What `make up`, `down` and `purge` refuse before anything is called. What they do is `e2e/tests/test_first_look.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.schema import PROJECT


def called(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """With a `pulumi` that must not be called."""
    there = tmp_path / "pulumi"
    there.write_text("#!/bin/sh\necho called >&2\nexit 99\n")
    there.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [str(PROJECT / "tools" / "stack.sh"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say up, down or purge, and a stack"),
        (("upp", "dev"), "say up, down or purge, and a stack"),
        (("up", "nobodys"), "STACK: there is no stacks/Pulumi.nobodys.yaml. There are: dev hourly prod"),
        (("purge", "dev"), "Add SURE=yes"),
    ],
)
def test_a_wrong_call_is_refused_with_a_remedy(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ended = called(tmp_path, *words)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert not (tmp_path / ".config").exists()


def test_without_pulumi_it_says_where_it_comes_from(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [str(PROJECT / "tools" / "stack.sh"), "up", "dev"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert "pulumi is missing. Install it" in ended.stderr
    assert not (tmp_path / ".config").exists()


def test_a_purge_whose_update_fails_removes_nothing_and_says_so(tmp_path: Path) -> None:
    """What is to go would still be retained: a destroy would only forget it."""
    calls = tmp_path / "calls"
    fake = tmp_path / "pulumi"
    fake.write_text(f'#!/bin/sh\necho "$@" >>{calls}\ncase " $* " in *" up "*) exit 1 ;; esac\n')
    fake.chmod(0o755)
    project = tmp_path / "project"
    (project / "stacks").mkdir(parents=True)
    (project / "stacks" / "Pulumi.dev.yaml").touch()
    (project / "tools").mkdir()
    shutil.copy(PROJECT / "tools" / "stack.sh", project / "tools")
    (project / "infra").mkdir()
    shutil.copy(PROJECT / "infra" / "requirements.txt", project / "infra")
    (project / ".venv-infra").mkdir()
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "SURE": "yes"}
    command = [str(project / "tools" / "stack.sh"), "purge", "dev"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "no data was removed yet" in ended.stderr
    said = calls.read_text()
    assert "config set --stack dev purge true" in said
    assert "destroy" not in said
    assert "config rm" not in said
