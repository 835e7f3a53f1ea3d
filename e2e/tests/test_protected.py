"""A stack that is for production: what holds data outlives it, nothing else does, and only a purge takes it away."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness.bundle import HA, Bundled, Stack


@pytest.fixture(scope="module")
def over() -> dict[str, Any]:
    return {"production": True}


def uids(bundled: Bundled) -> list[str]:
    return [each["metadata"]["uid"] for each in bundled.ha_objects().values()]


def test_destroy_leaves_what_holds_data_in_the_cluster_and_nothing_else(
    bundled: Bundled, stack_under_test: Stack
) -> None:
    bundled.goes_on(0)
    before = uids(bundled)

    stack_under_test.destroy()

    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    assert uids(bundled) == before
    state = stack_under_test.state()
    assert not any(name in state for names in HA.values() for name in names), (
        "no later change is refused because of them"
    )
    for kind in ("roles", "rolebindings"):
        assert bundled.get(kind)["items"] == [], kind
    assert {each["metadata"]["name"] for each in bundled.get("serviceaccounts")["items"]} == {"default"}


def test_up_goes_on_with_it(bundled: Bundled, stack_under_test: Stack) -> None:
    before, last = uids(bundled), max(commit.seen for commit in bundled.watch.commits)
    stack_under_test.up(bundled.given)
    bundled.goes_on(last)
    assert uids(bundled) == before


def test_purge_takes_it_away(bundled: Bundled, stack_under_test: Stack) -> None:
    stack_under_test.purge(bundled.given)
    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    assert bundled.left() == set()
