from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.backends import BACKENDS, Backend, Filesystem, Servers


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as running:
        yield Servers(tmp_path_factory.mktemp("servers"), running)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[Backend]:
    made = servers.make(request.param, tmp_path)
    yield made
    made.land()  # no thread of a test outlives it


@pytest.fixture
def filesystem(tmp_path: Path) -> Iterator[Filesystem]:
    made = Filesystem(tmp_path)
    yield made
    made.land()
