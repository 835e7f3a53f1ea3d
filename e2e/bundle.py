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

from e2e.cluster.layout import REPOSITORY
from e2e.deployer import Deployer
from e2e.kubectl import Cluster
from e2e.production import CLUSTER, Production
from infra.declared import keys
from infra.program import build
from infra.settings import settings_from

STACK = "e2e"


class Stack(Protocol):
    """One stack of the bundle. ``given`` are keys of Pulumi.yaml. ``up`` says how many resources it changed, ``destroy`` nothing."""

    name: str

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int: ...

    def destroy(self) -> None: ...


class EngineStack:
    """The real ``pulumi``, with state, plugins and settings of its own below ``directory``."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.name = f"pulumi {_pulumi('version').strip()}"
        self._config = directory / "Pulumi.e2e.yaml"
        directory.mkdir(parents=True, exist_ok=True)
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
        self._run("install")
        self._run("stack", "init", STACK)

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:
        self._config.unlink(missing_ok=True)
        for key, value in {**given, "context": self._context}.items():
            text = value if isinstance(value, str) else json.dumps(value)
            secret = ["--secret"] if keys()[key].secret else []
            if isinstance(value, str | int | bool):
                self._run("config", "set", *secret, "--config-file", str(self._config), "--", key, text)
            else:
                self._run("config", "set", "--config-file", str(self._config), "--", key, text)
        options = ["--yes", "--skip-preview", "--json", *(["--refresh"] if refresh else [])]
        said = self._run("up", *options, "--config-file", str(self._config))
        summary = json.loads(said[said.index("{") :])["changeSummary"]
        return sum(count for kind, count in summary.items() if kind != "same")

    def destroy(self) -> None:
        self._run("destroy", "--yes", "--skip-preview", "--exclude-protected", "--config-file", str(self._config))

    def _run(self, *arguments: str) -> str:
        stack = ["--stack", STACK] if arguments[0] in {"up", "destroy", "config"} else []
        return _pulumi(*arguments, *stack, environment=self._environment)


class SdkStack:
    """The same program, run through the SDK's protocol by ``e2e/deployer.py``."""

    name = "the test's own deployer, not Pulumi's engine"

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._deployer = Deployer(cluster, directory / "stack.json")

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:
        settings = settings_from(given)
        changes = self._deployer.up(lambda: build(settings), refresh=refresh)
        return len(changes.created) + len(changes.updated) + len(changes.deleted)

    def destroy(self) -> None:
        self._deployer.destroy()


@contextmanager
def stack(cluster: Cluster, directory: Path) -> Iterator[Stack]:
    made: Stack = (EngineStack if shutil.which("pulumi") else SdkStack)(cluster, directory)
    (directory / "deployed-by.txt").write_text(f"{made.name}\n")
    print(f"deployed by {made.name}")
    yield made


def _pulumi(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        ["pulumi", *arguments, "--non-interactive"] if arguments != ("version",) else ["pulumi", "version"],
        cwd=REPOSITORY,
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
        job = self.job
        script, *arguments = job.command
        return {
            "clusterId": CLUSTER,
            "namespace": self.namespace,
            "image": self.image,
            "imagePullPolicy": "Never",
            "script": script,
            "arguments": arguments,
            "replicas": self.replicas,
            "profile": "fast",
            "cpu": "100m",
            "memory": "1400Mi",
            "driverMemory": "700m",
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
