"""The Job that ``state`` makes: its words, its name, and that it is no replica."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from infra.manifests.base import Manifest
from infra.render import rendered
from infra.settings import Settings, settings_from
from testkit.bundle import LEAST
from tests.infra.recorder import record
from tests.infra.stacks import everything, patient
from tests.infra.test_builders import any_stack, names, of_kind, template_of
from understudy.cli.main import app


def job(**told: Any) -> Manifest:
    (found,) = of_kind(everything(settings_from({**LEAST, **told})), "Job")
    return found


def test_a_stack_that_declares_none_has_no_job() -> None:
    assert not of_kind(everything(settings_from(LEAST)), "Job")


@pytest.mark.parametrize("state", ["running", "suspended"])
def test_is_what_the_command_line_can_be_told(state: str) -> None:
    pod = job(state=state)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, *words = container["args"]
    ensure = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    told = ensure.make_context(command, list(words)).params
    assert (told["state"], told["cluster_id"], told["job_id"]) == (state, LEAST["clusterId"], LEAST["clusterId"])
    assert told["timeout"] < 600, "for so long pulumi up waits"


def test_another_state_or_image_is_another_job_and_the_same_is_the_same() -> None:
    told = [{"state": "running"}, {"state": "suspended"}, {"state": "running", "image": "flights:2"}]
    found = [job(**each)["metadata"]["name"] for each in told]
    assert len(set(found)) == len(told)
    assert found == [job(**each)["metadata"]["name"] for each in told]


@pytest.mark.parametrize(
    "other",
    [
        {"imagePullSecrets": ["registry"]},
        {"imagePullPolicy": "Always"},
        {"nodeSelector": {"disk": "ssd"}},
        {"networkPolicies": False},
        {"cpu": "2", "replicas": 3},
        {"haSecret": "another"},
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("state", ["running", "suspended"])
def test_another_setting_does_not_run_it_again(state: str, other: dict[str, Any]) -> None:
    """It would undo what was asked for by hand since. The engine is told to leave a Job of this name as it is."""
    elsewhere = {"ha": "zookeeper", "haAddress": "zk:2181?digest=/etc/understudy/ha/user", "haSecret": "one"}
    told: dict[str, Any] = {"state": state, **(elsewhere if "haSecret" in other else {})}
    before, after = ([each for each in record(**more) if each.kind == "Job"] for more in (told, {**told, **other}))
    assert [each.name for each in before] == [each.name for each in after]
    assert [each.object_name for each in before] == [each.object_name for each in after]
    assert all(each.ignore_changes == ("spec",) for each in [*before, *after])


def test_another_job_or_place_is_another_one() -> None:
    elsewhere = {"ha": "zookeeper", "haAddress": "zk:2181"}
    told: list[dict[str, Any]] = [{}, {"jobId": "other"}, elsewhere, {**elsewhere, "haAddress": "zk:2181/there"}]
    assert len({job(state="running", **each)["metadata"]["name"] for each in told}) == len(told)


def test_what_render_prints_can_be_applied_over_what_it_printed_before() -> None:
    """A tool that applies it cannot leave a changed Job as it is, and the API server refuses the change."""
    told: list[dict[str, Any]] = [{}, {"nodeSelector": {"disk": "ssd"}}, {"imagePullSecrets": ["registry"]}]
    printed = [of_kind(rendered(settings_from({**LEAST, "state": "running", **each})), "Job") for each in told]
    assert len({each["metadata"]["name"] for (each,) in printed}) == len(told)


@patient
@any_stack
def test_its_pods_are_no_replicas_and_serve_nothing(stack: Settings) -> None:
    objects = everything(stack)
    for each_job in of_kind(objects, "Job") if stack.run.state else []:
        template = each_job["spec"]["template"]
        pod = template["metadata"]["labels"]
        replicas = template_of(objects)["metadata"]["labels"]
        selectors = [each["spec"]["selector"] for each in of_kind(objects, "PodDisruptionBudget", "PodMonitor")]
        assert not any(each["matchLabels"].items() <= pod.items() for each in selectors)
        assert template["spec"]["serviceAccountName"] in names(objects, "ServiceAccount")
        policies = [each["spec"] for each in of_kind(objects, "NetworkPolicy")]
        ours = [each for each in policies if each["podSelector"]["matchLabels"].items() <= pod.items()]
        assert len(ours) == stack.network.policies
        for each in ours:
            assert not each["podSelector"]["matchLabels"].items() <= replicas.items()
            assert "Ingress" in each["policyTypes"]
            assert "ingress" not in each
            assert ("egress" in each) is bool(stack.network.egress)
