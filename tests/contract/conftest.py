from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit import s3
from tests.contract.backends import BACKENDS, Backend, Filesystem, make
from tests.contract.blob_backends import PATIENT, Made, bucket
from tests.doubles.blobs import MemoryBlobStore
from understudy.blobs.filesystem import FilesystemBlobStore
from understudy.blobs.model import BlobStore


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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3.server(tmp_path_factory.mktemp("s3")) as port:
        yield port


@pytest.fixture(params=["memory", "filesystem", "s3"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """Makes one more client of one and the same store."""
    if request.param == "memory":
        stored: dict[str, bytes] = {}
        return lambda: MemoryBlobStore(stored)
    if request.param == "filesystem":
        return lambda: FilesystemBlobStore(tmp_path / "blobs", PATIENT)
    port = request.getfixturevalue("server")
    return lambda: bucket(port, f"/{tmp_path.name}/")


@pytest.fixture
def store(another: Made) -> BlobStore:
    return another()
