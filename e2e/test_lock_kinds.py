"""A running job goes from one kind of lock to another, as its replicas are rolled: the Lease, both, the ConfigMap alone.

Who runs the job is read from its own record here: which object is the lock is what changes.
"""

from __future__ import annotations

import json
import time

import pytest

from e2e.deployed import CLUSTER
from e2e.production import WHOLE, Production, counted

#: Where client-go's ConfigMap lock keeps its record.
LEADER = "control-plane.alpha.kubernetes.io/leader"


def epoch(production: Production) -> int:
    return int(production.record()["token"]) >> 32


def held(production: Production) -> set[str]:
    """The locks that name who runs the job."""
    annotations = production.get("configmap", f"{CLUSTER}-lock")["metadata"].get("annotations") or {}
    there = json.loads(annotations.get(LEADER, "{}")).get("holderIdentity")
    runs = production.record()["holder"]
    return {kind for kind, holder in (("lease", production.holder()), ("configmap", there)) if holder == runs}


def test_it_begins_with_the_lease(production: Production) -> None:
    production.ready()
    assert held(production) == {"lease"}


@pytest.mark.parametrize(("kind", "locks"), [("multi", {"lease", "configmap"}), ("configmap", {"configmap"})])
def test_the_job_goes_on_under_another_lock(production: Production, kind: str, locks: set[str]) -> None:
    before = epoch(production)
    production.deploy(options=(*production.job.options, "--lock", kind))
    production.rolled_out()
    production.goes_on(time.time())
    assert epoch(production) > before
    production.led.append((epoch(production), production.record()["holder"]))
    production.wait_for(lambda: held(production) == locks, f"a leader that holds {locks}", 30)


def test_every_row_is_there_once_and_epochs_only_grew(production: Production) -> None:
    assert counted(production.finish(400)) == WHOLE
