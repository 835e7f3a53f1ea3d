"""A stack that is for production: what holds data is protected as well as retained, and only a purge takes it away."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness.bundle import HA, Bundled, Stack


@pytest.fixture(scope="module")
def over() -> dict[str, Any]:
    return {"production": True}


def uids(bundled: Bundled) -> list[str]:
    return [each["metadata"]["uid"] for each in bundled.ha_objects().values()]


def test_destroy_leaves_what_is_protected_in_the_cluster_and_in_the_state(
    bundled: Bundled, stack_under_test: Stack
) -> None:
    bundled.goes_on(0)
    before = uids(bundled)

    stack_under_test.destroy()

    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    assert uids(bundled) == before
    state = stack_under_test.state()
    assert all(name in state for names in HA.values() for name in names)
    assert bundled.get("roles")["items"] == []


def test_up_goes_on_with_it(bundled: Bundled, stack_under_test: Stack) -> None:
    before, last = uids(bundled), max(commit.seen for commit in bundled.watch.commits)
    stack_under_test.up(bundled.given)
    bundled.goes_on(last)
    assert uids(bundled) == before


def test_purge_takes_it_away(bundled: Bundled, stack_under_test: Stack) -> None:
    stack_under_test.purge(bundled.given)
    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    assert bundled.left() == set()
