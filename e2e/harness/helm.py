"""Helm, with the charts of this repository. What it renders needs no cluster; what it installs lives in a namespace of the test's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from e2e.cluster.layout import REPOSITORY, Layout
from e2e.harness.kubectl import Cluster, Failed, NoCluster, find
from testkit.places import CHARTS

NAMES = tuple(sorted(path.parent.name for path in CHARTS.glob("*/Chart.yaml")))

#: What Helm remembers of repositories and plugins: nothing of the caller's.
_HOME = REPOSITORY / "build" / "e2e" / "helm"

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Helm:
    program: str

    def lint(self, chart: str) -> str:
        return self._run("lint", "--strict", str(CHARTS / chart))

    def template(
        self, chart: str, values: Values, *options: str, release: str = "it", namespace: str = "somewhere"
    ) -> list[dict[str, Any]]:
        """The objects that an installation would make. Raises ``Failed`` with what Helm or the chart says against it."""
        command = ["template", release, str(CHARTS / chart), "--namespace", namespace, "--values", "-", *options]
        return [each for each in yaml.safe_load_all(self._run(*command, values=values)) if each is not None]

    def install(self, cluster: Cluster, namespace: str, release: str, chart: str, values: Values) -> None:
        """Returns when the API server has the objects. So that others can wait for them, this does not."""
        self._in(cluster, namespace, "install", release, str(CHARTS / chart), "--values", "-", values=values)

    def upgrade(self, cluster: Cluster, namespace: str, release: str, chart: str, values: Values) -> None:
        self._in(cluster, namespace, "upgrade", release, str(CHARTS / chart), "--values", "-", values=values)

    def uninstall(self, cluster: Cluster, namespace: str, release: str) -> str:
        return self._in(cluster, namespace, "uninstall", release)

    def _in(self, cluster: Cluster, namespace: str, *command: str, values: Values | None = None) -> str:
        place = ["--kube-context", cluster.context, "--namespace", namespace]
        return self._run(*command, *place, values=values, environment=cluster.environment())

    def _run(self, *command: str, values: Values | None = None, environment: Mapping[str, str] | None = None) -> str:
        homes = {f"HELM_{kind}_HOME": str(_HOME / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        # without a cluster there shall be none, even if the caller's environment names one
        around = environment if environment is not None else {**os.environ, "KUBECONFIG": os.devnull}
        done = subprocess.run(
            [self.program, *command],
            env={**around, **homes},
            input="" if values is None else json.dumps(values),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise Failed(["helm", *command], done.returncode, done.stderr + done.stdout)
        return done.stdout


def find_helm(layout: Layout) -> str:
    found = find("helm", layout)
    if found is None:
        raise NoCluster("no helm: install it, or run tools/setup.sh cluster, which compiles one")
    return found
