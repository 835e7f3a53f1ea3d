"""The tests' deploy driver does what the engine would, as far as the tests rely on it. Against objects in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from pulumi_kubernetes.core.v1 import ConfigMap

from e2e.harness.deploy_driver import DeployDriver, NotDone
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


def declares(*names: str, protect: bool = False) -> Callable[[], None]:
    """ConfigMaps, each of which needs the one before it. The last one may be protected."""

    def program() -> None:
        provider = kubernetes.Provider("cluster")
        needs: list[pulumi.Resource] = []
        for name in names:
            options = pulumi.ResourceOptions(
                provider=provider, depends_on=needs, protect=protect and name == names[-1], retain_on_delete=protect
            )
            needs = [ConfigMap(name, metadata={"name": name, "namespace": "n"}, opts=options)]

    return program


class TestWhatIsProtected:
    def test_is_not_removed_by_a_program_that_no_longer_declares_it(
        self, driver: DeployDriver, cluster: Objects
    ) -> None:
        """Though it is retained: the engine does not look at that first."""
        driver.up(declares("one", "two", protect=True))
        for _ in range(2):
            with pytest.raises(NotDone, match="ConfigMap two: cannot be deleted because it is protected"):
                driver.up(declares("one"))
        assert cluster.names("ConfigMap") == {"one", "two"}

    def test_may_go_once_it_is_not_protected_any_more(self, driver: DeployDriver, cluster: Objects) -> None:
        driver.up(declares("one", "two", protect=True))
        driver.up(declares("one", "two"))
        driver.up(declares("one"))
        assert cluster.names("ConfigMap") == {"one"}

    def test_keeps_what_it_needs_when_the_rest_is_destroyed(self, driver: DeployDriver, cluster: Objects) -> None:
        def program() -> None:
            declares("one", "two", protect=True)()
            declares("three")()

        driver.up(program)
        driver.destroy()
        assert cluster.names("ConfigMap") == {"one", "two"}


class TestAStackInProduction:
    def test_is_destroyed_but_for_what_holds_data(self, driver: DeployDriver, cluster: Objects) -> None:
        up(driver, production=True)
        driver.destroy()
        assert set(cluster.all) == {
            *(("ConfigMap", f"flights-{name}") for name in ("flights", "lock", "replicas")),
            ("Lease", "flights-lock"),
        }

    def test_takes_its_job_to_other_services_and_leaves_its_documents(
        self, driver: DeployDriver, cluster: Objects
    ) -> None:
        up(driver, production=True)
        before = cluster.all["ConfigMap", "flights-flights"]
        up(driver, production=True, ha="zookeeper", haAddress="zk:2181")
        assert cluster.all["ConfigMap", "flights-flights"] is before
