"""Copies of a checkpoint within a bucket: the store makes them where it can, and the proof reads every byte all the same."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from testkit import s3
from tests.contract.blob_backends import bucket
from tests.spark.fence_env import Driver
from tests.spark.s3a_driver import s3a_driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MINUTE = 60_000
#: Of a checkpoint with two batches.
FILES = ["metadata", *(f"{log}/{batch}" for log in ("offsets", "commits") for batch in (0, 1)), "state/0/0/1.delta"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with s3a_driver(tmp_path_factory.mktemp("copies")) as made:
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    yield shared
    shared.extra["proxy"].rule = lambda line: "pass"


@pytest.fixture
def home(one: Driver) -> str:
    """Where a checkpoint is, at ``checkpoint``."""
    home = f"s3a://{s3.BUCKET}/{uuid.uuid4()}"
    files = one.path(home).getFileSystem(one.conf)
    for name in [*FILES, "_understudy/claim"]:
        out = files.create(one.path(f"{home}/checkpoint/{name}"), True)
        out.write(bytearray(f"what {name} holds".encode()))
        out.close()
    return home


def copies(one: Driver) -> Any:
    return one.jvm.dev.understudy.savepoint.CheckpointCopy


def copied(one: Driver, home: str) -> dict[str, Any]:
    return json.loads(copies(one).copy(f"{home}/checkpoint", f"{home}/copy", one.conf, MINUTE))


def proven(one: Driver, home: str) -> str:
    return str(copies(one).verify(f"{home}/copy", one.conf, MINUTE))


def stored(one: Driver, path: str) -> Path:
    return one.extra["data"] / path.removeprefix(f"s3a://{s3.BUCKET}/")


def listed(one: Driver, home: str) -> dict[str, str]:
    lines = [line.split(" ", 2) for line in stored(one, f"{home}/copy.files").read_text().splitlines()]
    return {name: digest for digest, _, name in lines}


def test_the_store_copies_by_itself_and_the_proof_finds_the_digests(one: Driver, home: str) -> None:
    since = len(one.extra["proxy"].seen)
    done = copied(one, home)
    reads = [line for line in one.extra["proxy"].seen[since:] if line.startswith("GET /") and "?" not in line]
    assert reads == [], "no byte came through here"
    assert (done["batch"], done["files"], done["within"]) == (1, len(FILES), len(FILES))
    assert set(listed(one, home).values()) == {"-"}

    digest = proven(one, home)
    found = listed(one, home)
    assert found == {name: hashlib.sha256(f"what {name} holds".encode()).hexdigest() for name in sorted(FILES)}
    assert digest == hashlib.sha256(stored(one, f"{home}/copy.files").read_bytes()).hexdigest()
    assert proven(one, home) == digest
    for name in FILES:
        assert stored(one, f"{home}/copy/{name}").read_bytes() == f"what {name} holds".encode()


def test_of_a_copy_that_was_removed_the_client_of_ha_storage_finds_nothing(one: Driver, home: str) -> None:
    """S3A leaves an empty object in the place of each directory whose last file it removes."""
    place = f"{home}/savepoints/5"
    copies(one).copy(f"{home}/checkpoint", f"{place}/flights", one.conf, MINUTE)
    copies(one).discard(f"{place}/flights", one.conf)
    store = bucket(one.extra["proxy"].port, home.removeprefix(f"s3a://{s3.BUCKET}/"))
    assert asyncio.run(store.names("savepoints/")) == []


def test_what_the_store_does_not_copy_is_streamed(one: Driver, home: str) -> None:
    refused: list[str] = []

    def refuse(line: str) -> str:
        if line.startswith("PUT ") and "/copy/" in line and not refused:
            refused.append(line)
            return "501"
        return "pass"

    one.extra["proxy"].rule = refuse
    done = copied(one, home)
    assert len(refused) == 1
    assert done["files"] == len(FILES) > done["within"]
    streamed = [name for name, digest in listed(one, home).items() if digest != "-"]
    assert len(streamed) == len(FILES) - done["within"]
    proven(one, home)
    assert "-" not in listed(one, home).values()


@pytest.mark.parametrize("proven_before", [True, False])
def test_a_copy_of_another_length_or_content_is_named(one: Driver, home: str, proven_before: bool) -> None:
    copied(one, home)
    if proven_before:
        proven(one, home)
    torn = f"{home}/copy/commits/1"
    out = one.path(torn).getFileSystem(one.conf).create(one.path(torn), True)
    out.write(bytearray(b"what commits/1 holdS" if proven_before else b"shorter"))
    out.close()
    with pytest.raises(Py4JJavaError, match="commits/1 is not as it was copied"):
        proven(one, home)
