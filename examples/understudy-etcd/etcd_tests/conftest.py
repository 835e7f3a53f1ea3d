from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from etcd_tests.backend import Etcd
from etcd_tests.elections import OnEtcd
from etcd_tests.server import Cluster, running
from tests.contract.candidates import Servers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("etcd")) as members:
        yield members


@pytest.fixture
def backend(cluster: Cluster) -> Iterator[Etcd]:
    made = Etcd(cluster)
    with made.running:
        yield made
        made.land()


@pytest.fixture
def servers(cluster: Cluster) -> Iterator[Servers]:
    cluster.repair()
    yield OnEtcd(cluster, f"elections/{next(_numbers)}")
    cluster.repair()
