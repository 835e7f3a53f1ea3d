"""``understudy claims move`` against a real API server: between its kinds of lock, and between it and a directory.

Killed before each of its requests; ``tests/contract/test_moving.py`` says what has to hold then.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.harness.documents import Kubernetes, kubeconfig
from e2e.harness.kubectl import Cluster
from tests.contract.backends import Filesystem
from tests.contract.moving import End, Ends, one

# The suite itself, run again here: pytest collects these, and finds the fixture below.
from tests.contract.test_moving import (  # noqa: F401
    test_a_replica_at_the_new_place_leads_with_an_epoch_above,
    test_killed_before_any_request_it_goes_on_and_never_do_both_places_start,
)


@pytest.fixture(params=["lease, configmap", "filesystem, lease"])
def ends(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[], Ends]]:
    """Two places where nothing is; those in the cluster have a namespace of their own each time."""
    configuration = kubeconfig(cluster.kubeconfig, cluster.context)
    made: list[str] = []

    def api_server() -> End:
        made.append(f"moving-{uuid.uuid4().hex[:8]}")
        cluster.kubectl("create", "namespace", made[-1])
        locks = {shape: Kubernetes(made[-1], shape, configuration).client() for shape in ("lease", "configmap")}
        return End(f"--ha kubernetes, in namespace {made[-1]}", locks["configmap"], locks)

    def another() -> Ends:
        here = api_server()
        if request.param == "lease, configmap":
            return Ends(here, "lease", here, "configmap")
        disk = one("--ha filesystem", Filesystem(tmp_path / made[-1]).client(), "file")
        return Ends(disk, "file", here, "lease")

    yield another
    for each in made:
        cluster.kubectl("delete", "namespace", each, "--wait=false")
