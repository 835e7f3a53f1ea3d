"""kube-linter over objects of ours, where it is installed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster.layout import REPOSITORY
from infra.manifests.base import Manifest
from infra.render import as_yaml


@dataclass(frozen=True, slots=True)
class Linter:
    program: str
    directory: Path

    def findings(self, objects: list[Manifest]) -> list[str]:
        """The checks that object, each with the kind of what it objects to."""
        file = self.directory / "objects.yaml"
        file.write_text(as_yaml(objects), encoding="utf-8")
        config = REPOSITORY / "infra" / "kube-linter.yaml"
        command = [self.program, "lint", "--config", str(config), "--format", "json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        found = json.loads(done.stdout)
        asked = yaml.safe_load(config.read_text(encoding="utf-8"))["checks"]["include"]
        assert {each["name"] for each in found["Checks"]} == set(asked)
        reports = found["Reports"] or []
        return sorted(
            {f"{each['Check']} {each['Object']['K8sObject']['GroupVersionKind']['Kind']}" for each in reports}
        )
