"""A running job goes from one kind of lock to another, as its replicas are rolled: the Lease, both, the ConfigMap alone.

Who runs the job is read from its own record here: which object is the lock is what changes.
"""

from __future__ import annotations

import json
import time

import pytest

from e2e.harness.deployment_under_test import CLUSTER
from e2e.harness.flights_deployment import WHOLE, FlightsDeployment, counted

#: Where client-go's ConfigMap lock keeps its record.
LEADER = "control-plane.alpha.kubernetes.io/leader"


def epoch(flights: FlightsDeployment) -> int:
    return int(flights.record()["token"]) >> 32


def held(flights: FlightsDeployment) -> set[str]:
    """The locks that name who runs the job."""
    annotations = flights.get("configmap", f"{CLUSTER}-lock")["metadata"].get("annotations") or {}
    there = json.loads(annotations.get(LEADER, "{}")).get("holderIdentity")
    runs = flights.record()["holder"]
    return {kind for kind, holder in (("lease", flights.holder()), ("configmap", there)) if holder == runs}


def test_it_begins_with_the_lease(flights: FlightsDeployment) -> None:
    flights.ready()
    assert held(flights) == {"lease"}


@pytest.mark.parametrize(("kind", "locks"), [("multi", {"lease", "configmap"}), ("configmap", {"configmap"})])
def test_the_job_goes_on_under_another_lock(flights: FlightsDeployment, kind: str, locks: set[str]) -> None:
    before = epoch(flights)
    flights.deploy(options=(*flights.job.options, "--lock", kind))
    flights.rolled_out()
    flights.goes_on(time.time())
    assert epoch(flights) > before
    flights.led.append((epoch(flights), flights.record()["holder"]))
    flights.wait_for(lambda: held(flights) == locks, f"a leader that holds {locks}", 30)


def test_every_row_is_there_once_and_epochs_only_grew(flights: FlightsDeployment) -> None:
    assert counted(flights.finish(400)) == WHOLE
