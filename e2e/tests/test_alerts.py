"""The alerts of charts/monitoring, as Helm renders them, judged by Prometheus: this takes Helm and promtool, and no cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.helm import Helm
from e2e.harness.promtool import Promtool, find_promtool

SCENARIOS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("alerts.yaml").read_text(encoding="utf-8")
)


@pytest.fixture
def promtool(tmp_path: Path) -> Promtool:
    program = find_promtool()
    if program is None:
        pytest.skip("there is no promtool: call tools/setup.sh promtool, install Prometheus, or name it in PROMTOOL")
    return Promtool(program, tmp_path)


@pytest.fixture
def rules(helm: Helm) -> dict[str, Any]:
    objects = helm.template("monitoring", {"checkCRDs": False})
    (made,) = (each for each in objects if each["kind"] == "PrometheusRule")
    spec: dict[str, Any] = made["spec"]
    return spec


def test_prometheus_understands_every_alert_and_what_it_tells_people(promtool: Promtool, rules: dict[str, Any]) -> None:
    assert f"SUCCESS: {sum(len(group['rules']) for group in rules['groups'])} rules found" in promtool.check(rules)


@pytest.mark.parametrize("named", SCENARIOS)
def test_an_alert_fires_when_it_should_and_only_then(promtool: Promtool, rules: dict[str, Any], named: str) -> None:
    assert "SUCCESS" in promtool.test(rules, SCENARIOS[named])
