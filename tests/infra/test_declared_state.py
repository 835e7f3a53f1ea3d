"""The Job that ``state`` makes: its words, its name, and that it is no replica."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from infra.manifests.base import Manifest
from infra.settings import Settings, settings_from
from testkit.bundle import LEAST
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
