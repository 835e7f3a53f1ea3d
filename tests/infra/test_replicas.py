"""What the pods of replicas are given: where they run, what they may write to, and what they are told to run."""

from __future__ import annotations

from typing import Any

import pytest

from infra.manifests.command import arguments
from infra.manifests.workload import workload
from infra.settings import SPREADS, settings_from
from testkit.bundle import LEAST
from tests.infra.stacks import everything
from tests.infra.test_builders import template_of


def test_a_pod_on_a_volume_that_never_gets_ready_is_replaced_by_what_repairs_it() -> None:
    """In order, the controller waits for it first (kubernetes#67250), and ``pulumi up`` with it."""
    stack = settings_from({**LEAST, "workload": "StatefulSet", "replicas": 1})
    assert workload(stack, "")["spec"]["podManagementPolicy"] == "Parallel"


@pytest.mark.parametrize("spread", SPREADS)
def test_another_number_of_replicas_is_the_same_revision(spread: str) -> None:
    """Those that run keep running: nothing in their template depends on how many they are."""
    two, five = (
        template_of(everything(settings_from({**LEAST, "spread": spread, "replicas": replicas}))) for replicas in (2, 5)
    )
    assert two == five


@pytest.mark.parametrize(("nodes", "placed"), [(1, 1), (2, 2), (5, 3)])
def test_spread_required_places_one_replica_on_each_node(nodes: int, placed: int) -> None:
    """As the scheduler counts: with fewer nodes than ``minDomains`` the least crowded one counts as empty."""
    template = template_of(everything(settings_from({**LEAST, "spread": "required", "replicas": 3})))
    (strict,) = (
        each for each in template["spec"]["topologySpreadConstraints"] if each["whenUnsatisfiable"] == "DoNotSchedule"
    )
    pods = [0] * nodes
    for _ in range(3):
        least = 0 if nodes < strict["minDomains"] else min(pods)
        room = [node for node in range(nodes) if pods[node] + 1 - least <= strict["maxSkew"]]
        if room:
            pods[room[0]] += 1
    assert (sum(pods), max(pods)) == (placed, 1)


@pytest.mark.parametrize(
    ("told", "size"),
    [
        ({"scratchSize": "20Gi"}, "1Gi"),
        ({"scratchSize": "20Gi", "script": "", "submitted": True, "haStorage": True}, "20Gi"),
        ({"scratchSize": "500Mi", "script": "", "submitted": True, "haStorage": True}, "1Gi"),
    ],
)
def test_a_submission_s_files_have_as_much_room_as_temporary_ones(told: dict[str, Any], size: str) -> None:
    """They are fetched into the replica's own directory, and a pod that needs more than its limit is evicted for ever."""
    volumes = template_of(everything(settings_from({**LEAST, **told})))["spec"]["volumes"]
    (state,) = (each for each in volumes if each["name"] == "state")
    assert state["emptyDir"] == {"sizeLimit": size}


def test_replicas_of_what_is_submitted_are_given_no_script() -> None:
    stack = settings_from({**LEAST, "script": "", "submitted": True, "haStorage": True})
    words = arguments(stack, "")
    assert words[-2:] == ["--master", "local[2]"], "what follows would be a script"
    assert words.index("--submitted") < words.index("--conf")
    assert not [each for each in everything(stack) if each.get("immutable")]
    assert "--submitted" not in arguments(settings_from(LEAST), "")
