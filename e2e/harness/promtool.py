"""promtool over the alerts of charts/monitoring: Prometheus itself says what they do, where it is installed."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.layout import REPOSITORY

#: Debian's package, unpacked by tools/setup.sh.
_UNPACKED = REPOSITORY / "build" / "prometheus" / "usr" / "bin" / "promtool"
_RULES = "rules.yaml"


def find_promtool() -> str | None:
    named = os.environ.get("PROMTOOL") or shutil.which("promtool")
    return named or (str(_UNPACKED) if _UNPACKED.exists() else None)


@dataclass(frozen=True, slots=True)
class Promtool:
    program: str
    directory: Path

    def check(self, rules: Mapping[str, Any]) -> str:
        """``rules``: the spec of a PrometheusRule. Returns what promtool says; one that it does not accept is a failure of the test."""
        return self._run("check", "rules", self._written(rules))

    def test(self, rules: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
        """``scenario``: one of the tests of promtool's format. Texts for people are left out, so that it names labels only."""
        silent = copy.deepcopy(dict(rules))
        for rule in (rule for group in silent["groups"] for rule in group["rules"]):
            rule.pop("annotations", None)
        self._written(silent)
        file = self.directory / "test.yaml"
        told = {"rule_files": [_RULES], "evaluation_interval": "15s", "tests": [scenario]}
        file.write_text(yaml.safe_dump(told), encoding="utf-8")
        return self._run("test", "rules", file.name)

    def _written(self, rules: Mapping[str, Any]) -> str:
        (self.directory / _RULES).write_text(yaml.safe_dump(dict(rules)), encoding="utf-8")
        return _RULES

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            [self.program, *command], cwd=self.directory, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr
