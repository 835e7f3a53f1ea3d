"""A driver with the fence on ``s3a://``, one for each module, and a directory of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from testkit import s3
from tests.doubles.pages import OPEN, STANDBY, token
from tests.spark.fence_env import Driver
from tests.spark.s3a_driver import s3a_driver


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with s3a_driver(tmp_path_factory.mktemp("s3a")) as made:
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    shared.gate.write(OPEN, token(5, 1))
    yield shared
    shared.extra["proxy"].rule = lambda line: "pass"
    shared.gate.write(STANDBY)


@pytest.fixture
def root() -> str:
    return f"s3a://{s3.BUCKET}/{uuid.uuid4()}"
