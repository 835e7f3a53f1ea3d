"""What every end-to-end test shares: the cluster, a namespace for its module, an object store, and evidence of a failure."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.build import TINY
from e2e.cluster.layout import Layout
from e2e.harness import crds, evidence, images, manifests, objects
from e2e.harness.broker import Topic
from e2e.harness.bundle import Bundled, Stack, stack
from e2e.harness.flights_deployment import FlightsDeployment
from e2e.harness.helm import Helm, find_helm
from e2e.harness.kubectl import Cluster, NoCluster, attach, await_value
from e2e.harness.linter import Linter

_cluster = pytest.StashKey[Cluster]()
#: Namespaces that tests made and that still exist.
_namespaces = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # what takes the cluster away comes first: session fixtures that live in it don't exist yet
    items.sort(key=lambda item: item.get_closest_marker("rebuilds_cluster") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look at the cluster the moment a test has failed, before fixtures tidy up."""
    report = yield
    cluster = item.config.stash.get(_cluster, None)
    if report.failed and report.when != "teardown" and cluster is not None:
        namespaces = item.config.stash.setdefault(_namespaces, [])
        found = evidence.collect(cluster, item.nodeid, namespaces)
        report.sections.append(("evidence", f"events, logs and documents: {found}"))
    return report


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    try:
        found = attach(os.environ)
    except NoCluster as problem:
        pytest.exit(str(problem), returncode=2)
    pytestconfig.stash[_cluster] = found
    return found


@pytest.fixture(scope="session")
def helm() -> Helm:
    try:
        return Helm(find_helm(Layout.default()))
    except NoCluster as problem:
        pytest.exit(str(problem), returncode=2)


@pytest.fixture
def linter(tmp_path: Path) -> Linter:
    program = os.environ.get("KUBE_LINTER") or shutil.which("kube-linter")
    if program is None:
        pytest.skip("there is no kube-linter: install it (0.8 or newer), or name it in KUBE_LINTER")
    return Linter(program, tmp_path)


@pytest.fixture(scope="session")
def operator_kinds(cluster: Cluster) -> Iterator[None]:
    """The API server knows what prometheus-operator reads, whether or not there is one."""
    with crds.of_prometheus_operator(cluster):
        yield


@pytest.fixture(autouse=True)
def _local_only(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("machines") and not request.getfixturevalue("cluster").local:
        pytest.skip("makes machines fail, which only the local cluster's can")
    if request.node.get_closest_marker("rebuilds_cluster") and not request.getfixturevalue("cluster").owned:
        pytest.skip("takes the cluster down, and this one is not this run's own")


@pytest.fixture(scope="session")
def _probe(cluster: Cluster) -> None:
    cluster.load(TINY.built(Layout.default()) / "probe.tar")


@pytest.fixture(scope="module")
def namespace(request: pytest.FixtureRequest, cluster: Cluster, _probe: None) -> Iterator[str]:
    """One for the module, named after it; its pods have to pass *restricted*."""
    module = re.sub(r"[^a-z0-9]+", "-", request.path.stem.removeprefix("test_").lower())
    with _namespace(request, cluster, f"e2e-{module}-{secrets.token_hex(2)}") as name:
        yield name


@pytest.fixture(scope="session")
def another_namespace(request: pytest.FixtureRequest, cluster: Cluster) -> Callable[[str], AbstractContextManager[str]]:
    """Makes one of this name, and takes it away: for modules that want more than ``namespace``."""
    return partial(_namespace, request, cluster)


@pytest.fixture(scope="session")
def object_store(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[objects.ObjectStore]:
    """versitygw in a namespace of its own, with an empty bucket; one for the run."""
    with _namespace(request, cluster, f"e2e-objects-{secrets.token_hex(2)}") as name:
        yield objects.install(cluster, name)


@pytest.fixture(scope="session")
def flights_image(cluster: Cluster) -> str:
    """The image of ``examples/``, on every node. ``make e2e`` has built it."""
    cluster.load(images.saved(images.FLIGHTS))
    return images.FLIGHTS


@pytest.fixture(scope="module")
def results(namespace: str) -> Path:
    """What a module's run leaves to look at."""
    made = evidence.DIRECTORY / namespace
    made.mkdir(parents=True)
    return made


@pytest.fixture(scope="module")
def native() -> bool:
    """Whether executors are pods; a module whose job has such overrides this."""
    return False


@pytest.fixture(scope="module")
def topic() -> Topic | None:
    """What the job reads in place of a directory; a module whose job reads Kafka overrides this."""
    return None


@pytest.fixture(scope="module")
def flights(
    cluster: Cluster,
    namespace: str,
    object_store: objects.ObjectStore,
    flights_image: str,
    results: Path,
    native: bool,
    topic: Topic | None,
) -> Iterator[FlightsDeployment]:
    """The flights job in the module's namespace, with a leader. Standbys leave the machine to others after a few rounds."""
    few = ("--rehearse-rounds", "4")
    with FlightsDeployment(
        cluster, object_store, flights_image, results, namespace, options=few, native=native, topic=topic
    ).running() as made:
        assert made.watch.first(lambda commit: commit.input, 300 if native else 240), "no replica ever led"
        yield made


@pytest.fixture(scope="module")
def over() -> dict[str, Any]:
    """Keys over those of a job that is a stack of the bundle; a module whose stack has such overrides this."""
    return {}


@pytest.fixture(scope="module")
def stack_under_test(cluster: Cluster, results: Path) -> Iterator[Stack]:
    with stack(cluster, results / "stack") as made:
        yield made


@pytest.fixture(scope="module")
def bundled(
    cluster: Cluster,
    namespace: str,
    object_store: objects.ObjectStore,
    flights_image: str,
    results: Path,
    stack_under_test: Stack,
    over: dict[str, Any],
) -> Iterator[Bundled]:
    """The flights job as a stack of the bundle: it is up."""
    with Bundled(
        cluster, object_store, flights_image, results, namespace, stack=stack_under_test, over=over
    ).running() as made:
        yield made


@contextmanager
def _namespace(request: pytest.FixtureRequest, cluster: Cluster, name: str) -> Iterator[str]:
    cluster.apply("default", manifests.namespace(name))
    known = request.config.stash.setdefault(_namespaces, [])
    known.append(name)
    # pods are refused until the controllers have made it
    await_value(
        lambda: "default" in cluster.kubectl("get", "serviceaccounts", "-n", name) or None, 30, "no service account"
    )
    try:
        yield name
    finally:
        known.remove(name)
        if not os.environ.get("E2E_KEEP"):
            cluster.kubectl("delete", "namespace", name, "--wait=false")
