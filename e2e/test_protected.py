"""A stack that is for production: what holds data is protected as well as retained, and only a purge takes it away."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.bundle import Bundled, Stack
from e2e.deployed import CLUSTER

HA = (("configmap", f"{CLUSTER}-{CLUSTER}"), ("configmap", f"{CLUSTER}-replicas"), ("lease", f"{CLUSTER}-lock"))


@pytest.fixture(scope="module")
def over() -> dict[str, Any]:
    return {"production": True}


def uids(bundled: Bundled) -> list[str]:
    return [bundled.get(kind, name)["metadata"]["uid"] for kind, name in HA]


def test_destroy_leaves_what_is_protected_in_the_cluster_and_in_the_state(bundled: Bundled, deployed: Stack) -> None:
    bundled.goes_on(0)
    before = uids(bundled)

    deployed.destroy()

    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    assert uids(bundled) == before
    assert all(name in deployed.state() for _, name in HA)
    assert bundled.get("roles")["items"] == []


def test_up_goes_on_with_it(bundled: Bundled, deployed: Stack) -> None:
    before, last = uids(bundled), max(commit.seen for commit in bundled.watch.commits)
    deployed.up(bundled.given)
    bundled.goes_on(last)
    assert uids(bundled) == before


def test_purge_takes_it_away(bundled: Bundled, deployed: Stack) -> None:
    deployed.purge(bundled.given)
    bundled.wait_for(lambda: not bundled.pods(), "pods that are gone", 90)
    for kind in ("configmaps", "leases"):
        assert {each["metadata"]["name"] for each in bundled.get(kind)["items"]} <= {"kube-root-ca.crt"}, kind
