"""The tests' deploy driver does what the engine would, as far as the tests rely on it. Against objects in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.deploy_driver import DeployDriver
from e2e.harness.kubectl import Cluster
from infra.program import build
from infra.settings import settings_from
from testkit.bundle import LEAST

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Objects(Cluster):
    """kubectl, as far as the driver calls it. A Job completes at once."""

    all: dict[Key, dict[str, Any]] = field(default_factory=dict)

    def kubectl(self, *arguments: str, stdin: str = "", timeout: float = 60) -> str:
        match arguments:
            case ["apply", *_]:
                made = json.loads(stdin)
                assert made["kind"] != "Job" or "template" in made["spec"], "the API server refuses it"
                made["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
                self.all[made["kind"], made["metadata"]["name"]] = made
            case ["get", kind, name, *_]:
                found = self.all.get((kind.partition(".")[0], name))
                return json.dumps(found) if found else ""
            case ["delete", kind, name, *_]:
                self.all.pop((kind.partition(".")[0], name), None)
            case _:
                raise AssertionError(arguments)
        return ""

    def names(self, kind: str) -> set[str]:
        return {name for found, name in self.all if found == kind}

    @property
    def job(self) -> dict[str, Any]:
        (found,) = (each for (kind, _), each in self.all.items() if kind == "Job")
        return found


@pytest.fixture
def cluster() -> Objects:
    return Objects("", "", "", local=False, owned=False)


@pytest.fixture
def driver(cluster: Objects, tmp_path: Path) -> DeployDriver:
    return DeployDriver(cluster, tmp_path / "stack.json")


def up(driver: DeployDriver, **told: Any) -> int:
    settings = settings_from({**LEAST, **told})
    return driver.up(lambda: build(settings))


def node_selector(job: dict[str, Any]) -> Any:
    return job["spec"]["template"]["spec"].get("nodeSelector")


class TestADeclaredState:
    def test_is_not_brought_about_again_by_another_setting(self, driver: DeployDriver, cluster: Objects) -> None:
        up(driver, state="running")
        before = cluster.job

        up(driver, state="running", nodeSelector={"disk": "ssd"})

        assert cluster.job is before

    def test_that_has_failed_is_brought_about_again_with_the_present_settings(
        self, driver: DeployDriver, cluster: Objects
    ) -> None:
        up(driver, state="running")
        cluster.job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

        up(driver, state="running", nodeSelector={"disk": "ssd"})

        assert node_selector(cluster.job) == {"disk": "ssd"}

    def test_is_another_job_for_another_image(self, driver: DeployDriver, cluster: Objects) -> None:
        up(driver, state="running")
        before = cluster.job["metadata"]["name"]
        up(driver, state="running", image="flights:2.0.0")
        assert cluster.job["metadata"]["name"] != before
