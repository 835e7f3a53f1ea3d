"""The bundle deployed for real: by Pulumi's engine where it is on PATH, or by `make up`, which calls it; else by the test's own
driver of the same program.

Which of the two it was stands in ``name``, and in the report.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from e2e.cluster.layout import REPOSITORY
from e2e.harness.deploy_driver import DeployDriver
from e2e.harness.deployment_under_test import CLUSTER
from e2e.harness.flights_deployment import FlightsDeployment
from e2e.harness.kubectl import Cluster
from infra.program import build
from infra.schema import keys
from infra.settings import settings_from

STACK = "e2e"

#: What holds data of the flights job, by kind.
HA = {"configmaps": (f"{CLUSTER}-{CLUSTER}", f"{CLUSTER}-replicas"), "leases": (f"{CLUSTER}-lock",)}


class Stack(Protocol):
    """One stack of the bundle. ``given`` are keys of Pulumi.yaml. ``up`` says how many resources it changed, ``destroy`` nothing."""

    name: str

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int: ...

    def destroy(self) -> None: ...

    def purge(self, given: Mapping[str, Any]) -> None:
        """Take away everything but the namespace, data too."""
        ...

    def state(self) -> str:
        """All that it remembers of the stack, as it is stored."""
        ...


class _Project:
    """A checkout of its own for the real ``pulumi``: the program is this one, the repository's stacks are not a test's to write."""

    def __init__(self, cluster: Cluster, directory: Path, name: str, **environment: str) -> None:
        self.directory = directory / "project"
        self.config = self.directory / "stacks" / f"Pulumi.{name}.yaml"
        self.config.parent.mkdir(parents=True)
        for linked in ("Pulumi.yaml", "infra", "examples", "tools", "Makefile"):
            (self.directory / linked).symlink_to(REPOSITORY / linked)
        inherited = cluster.environment().items()
        self.environment = {
            **{name: value for name, value in inherited if not name.startswith(("PULUMI_", "XDG_", "PYTHON"))},
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            **environment,
        }

    def configure(self, given: Mapping[str, Any]) -> None:
        """What is not secret. The file may also hold what secrets are encrypted with, and secrets that ``make up`` made."""
        file = yaml.safe_load(self.config.read_text(encoding="utf-8")) if self.config.exists() else {}
        secret = {f"understudy:{name}" for name, key in keys().items() if key.secret}
        kept = {key: value for key, value in file.get("config", {}).items() if key in secret}
        told = {key: value for name, value in given.items() if (key := f"understudy:{name}") not in secret}
        self.config.write_text(yaml.safe_dump({**file, "config": {**kept, **told}}), encoding="utf-8")

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout


class EngineStack:
    """The real ``pulumi``, with state, plugins and settings of its own below ``directory``."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        state = directory / "state"
        state.mkdir(exist_ok=True)
        self._project = _Project(
            cluster,
            directory,
            STACK,
            PULUMI_HOME=os.environ.get("PULUMI_HOME", str(directory / "home")),
            PULUMI_BACKEND_URL=f"file://{state}",
            PULUMI_CONFIG_PASSPHRASE=secrets.token_hex(8),
        )
        self.name = f"pulumi {self._run('version').strip()}"
        self._context = cluster.context
        self._run("install", "--no-plugins")  # `up` gets the provider if it is not on PATH
        self._run("stack", "init", STACK)

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:
        self._project.configure({**given, "context": self._context})
        for key, value in given.items():
            if keys()[key].secret:
                self._run("config", "set", "--secret", key, value)
        options = ["--yes", "--skip-preview", "--json", *(["--refresh"] if refresh else [])]
        said = self._run("up", *options)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        (summary,) = (each["summaryEvent"]["resourceChanges"] for each in events if "summaryEvent" in each)
        return sum(count for kind, count in summary.items() if kind != "same")

    def destroy(self) -> None:
        self._run("destroy", "--yes", "--skip-preview", "--exclude-protected")

    def purge(self, given: Mapping[str, Any]) -> None:
        self.up({**given, "purge": True})
        self.destroy()

    def state(self) -> str:
        return self._run("stack", "export")

    def _run(self, *arguments: str) -> str:
        return self._project.run("pulumi", "--non-interactive", *arguments)


class MadeStack:
    """``make up``, ``down`` and ``purge``, as a newcomer calls them: nothing is set but where home is."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.home = directory / "home"
        self.home.mkdir()
        self._project = _Project(cluster, directory, STACK, HOME=str(self.home))
        self.name = f"make up, with pulumi {self._project.run('pulumi', 'version').strip()}"
        self._context = cluster.context

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:  # noqa: ARG002 - it always does
        self._project.configure({**given, "context": self._context})
        # the last summary is of the update, those before it of previews and of the refresh
        summary = self._make("up").rpartition("Resources:")[2]
        assert "unchanged" in summary or "created" in summary, summary
        return sum(int(count) for count in re.findall(r"(\d+) (?:created|updated|deleted|replaced)", summary))

    def destroy(self) -> None:
        self._make("down")

    def purge(self, given: Mapping[str, Any]) -> None:  # noqa: ARG002 - as they stand in the stack's file
        self._make("purge", "SURE=yes")

    def state(self) -> str:
        return "".join(path.read_text(encoding="utf-8") for path in (self.home / ".pulumi" / "stacks").rglob("*.json"))

    def _make(self, *goal: str) -> str:
        return self._project.run("make", *goal, f"STACK={STACK}")


class SdkStack:
    """The same program, run through the SDK's protocol by ``e2e/harness/deploy_driver.py``."""

    name = "the test's own deploy driver, not Pulumi's engine"

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._state = directory / "stack.json"
        self._driver = DeployDriver(cluster, self._state)

    def up(self, given: Mapping[str, Any], *, refresh: bool = False) -> int:
        settings = settings_from(given)
        return self._driver.up(lambda: build(settings), refresh=refresh)

    def destroy(self) -> None:
        self._driver.destroy()

    def purge(self, given: Mapping[str, Any]) -> None:
        self.up({**given, "purge": True})
        self.destroy()

    def state(self) -> str:
        return self._state.read_text(encoding="utf-8")


@contextmanager
def stack(cluster: Cluster, directory: Path, by: Callable[[Cluster, Path], Stack] = EngineStack) -> Iterator[Stack]:
    """``by``: what deploys it where there is an engine; without one, the test's own deploy driver does."""
    directory.mkdir(parents=True, exist_ok=True)
    made = (by if shutil.which("pulumi") else SdkStack)(cluster, directory)
    (directory / "deployed-by.txt").write_text(f"{made.name}\n")
    print(f"deployed by {made.name}")
    yield made


@dataclass(slots=True)
class Bundled(FlightsDeployment):
    """The flights job as a stack of the bundle."""

    stack: Stack | None = None
    over: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """The keys of its stack."""
        return {
            **self.job.given,
            "sparkSettings": {"spark.ui.enabled": "false"},
            "bucketKind": "s3",
            "bucket": self.store.bucket,
            "bucketPrefix": self.namespace,
            "haStorage": True,
            "bucketEndpoint": self.store.endpoint,
            "bucketAccessKey": self.store.key,
            "bucketSecretKey": self.store.secret,
            **self.over,
        }

    def ha_objects(self) -> dict[str, Any]:
        """What holds data, and who wrote which field of it; by kind and name."""
        return {
            f"{kind}/{name}": self.get(kind, name, "--show-managed-fields")
            for kind, names in HA.items()
            for name in names
        }

    def left(self) -> set[str]:
        """Names of all objects of those kinds, but the one that Kubernetes puts into every namespace."""
        found = {each["metadata"]["name"] for kind in HA for each in self.get(kind)["items"]}
        return found - {"kube-root-ca.crt"}

    def provision(self) -> None:
        assert self.stack is not None
        self.stack.up(self.given)
