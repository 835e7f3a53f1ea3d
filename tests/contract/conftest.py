from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.backends import BACKENDS, Backend, Filesystem, make


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = make(request.param, tmp_path)
    yield made
    made.land()  # no thread of a test outlives it


@pytest.fixture
def filesystem(tmp_path: Path) -> Iterator[Filesystem]:
    made = Filesystem(tmp_path)
    yield made
    made.land()
