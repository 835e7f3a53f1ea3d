"""The bundle deployed for real: by Pulumi's engine where it is on PATH, else by the test's own deployer of the same program.

Which of the two it was stands in ``name``, and in the report.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from e2e.cluster.layout import REPOSITORY
from e2e.deployer import Deployer
from e2e.kubectl import Cluster
from e2e.production import Production
from infra.declared import keys
from infra.program import build
from infra.settings import settings_from

STACK = "e2e"


class Stack(Protocol):
    """One stack of the bundle. ``given`` are keys of Pulumi.yaml. ``up`` says how many resources it changed, ``destroy`` nothing."""

    name: str

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int: ...

    def destroy(self) -> None: ...

    def state(self) -> str:
        """All that it remembers of the stack, as it is stored."""
        ...


class EngineStack:
    """The real ``pulumi``, with state, plugins and settings of its own below ``directory``."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.name = f"pulumi {_pulumi('version').strip()}"
        # A project of its own, whose program is this one: the repository's stacks are not the test's to write.
        self._project = directory / "project"
        self._config = self._project / "stacks" / f"Pulumi.{STACK}.yaml"
        self._config.parent.mkdir(parents=True)
        for name in ("Pulumi.yaml", "infra"):
            (self._project / name).symlink_to(REPOSITORY / name)
        state = directory / "state"
        state.mkdir(exist_ok=True)
        self._environment = {
            **cluster.environment(),
            "PULUMI_HOME": os.environ.get("PULUMI_HOME", str(directory / "home")),
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(8),
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PYTHONPATH": "",
        }
        self._context = cluster.context
        self._run("install", "--no-plugins")  # `up` gets the provider if it is not on PATH
        self._run("stack", "init", STACK)

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:
        told = {**given, "context": self._context}
        # The file also holds what its secrets are encrypted with.
        file = yaml.safe_load(self._config.read_text(encoding="utf-8")) if self._config.exists() else {}
        file["config"] = {f"understudy:{key}": value for key, value in told.items() if not keys()[key].secret}
        self._config.write_text(yaml.safe_dump(file), encoding="utf-8")
        for key, value in told.items():
            if keys()[key].secret:
                self._run("config", "set", "--secret", key, value)
        options = ["--yes", "--skip-preview", "--json", *(["--refresh"] if refresh else [])]
        said = self._run("up", *options)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        (summary,) = (each["summaryEvent"]["resourceChanges"] for each in events if "summaryEvent" in each)
        return sum(count for kind, count in summary.items() if kind != "same")

    def destroy(self) -> None:
        self._run("destroy", "--yes", "--skip-preview", "--exclude-protected")

    def state(self) -> str:
        return self._run("stack", "export")

    def _run(self, *arguments: str) -> str:
        return _pulumi("--cwd", str(self._project), *arguments, environment=self._environment)


class SdkStack:
    """The same program, run through the SDK's protocol by ``e2e/deployer.py``."""

    name = "the test's own deployer, not Pulumi's engine"

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._state = directory / "stack.json"
        self._deployer = Deployer(cluster, self._state)

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:
        settings = settings_from(given)
        return self._deployer.up(lambda: build(settings), refresh=refresh)

    def destroy(self) -> None:
        self._deployer.destroy()

    def state(self) -> str:
        return self._state.read_text(encoding="utf-8")


@contextmanager
def stack(cluster: Cluster, directory: Path) -> Iterator[Stack]:
    directory.mkdir(parents=True, exist_ok=True)
    made: Stack = (EngineStack if shutil.which("pulumi") else SdkStack)(cluster, directory)
    (directory / "deployed-by.txt").write_text(f"{made.name}\n")
    print(f"deployed by {made.name}")
    yield made


def _pulumi(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        ["pulumi", "--non-interactive", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"pulumi {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass(slots=True)
class Bundled(Production):
    """The flights job as a stack of the bundle."""

    stack: Stack | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The keys of its stack."""
        return {
            **self.job.given,
            "sparkSettings": {"spark.ui.enabled": "false"},
            "bucketKind": "s3",
            "bucket": self.store.bucket,
            "bucketPrefix": self.namespace,
            "bucketEndpoint": self.store.endpoint,
            "bucketAccessKey": self.store.key,
            "bucketSecretKey": self.store.secret,
        }

    def provision(self) -> None:
        assert self.stack is not None
        self.stack.up(self.given)
