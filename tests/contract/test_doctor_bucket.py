"""``understudy doctor`` at a real S3 server: HA storage that can be used and that cannot, and a checkpoint in a bucket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from testkit import s3
from understudy.blobs.model import BlobStore
from understudy.doctor import roots, storage
from understudy.doctor.examination import bucket_of
from understudy.doctor.finding import Finding, Severity
from understudy.doctor.roots import Reach, Root
from understudy.protocol.claim import Claim
from understudy.protocol.token import Token
from understudy.supervisor.backends import ha_storage

#: Seconds of a request that must not time out, and of one to a server that is not there.
PATIENT, SHORT = 30.0, 1.0
CLAIM = Claim(Token(3, 1), "a", "c", "j", "lease")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3.server(tmp_path_factory.mktemp("s3")) as found:
        yield found


def told(port: int, **over: str) -> list[str]:
    """As ``--conf`` says how to reach the server."""
    settings = {**s3.settings(port), **{f"fs.s3a.{key}": value for key, value in over.items()}}
    return [word for key, value in settings.items() for word in ("--conf", f"spark.hadoop.{key}={value}")]


def opened(url: str, submit: list[str], timeout: float = PATIENT) -> BlobStore:
    store = ha_storage(url, submit, timeout)
    assert store is not None
    return store


def found(store: BlobStore) -> list[Finding]:
    return storage.findings(asyncio.run(storage.look(store, "c", "j")), None, "c")


def test_a_bucket_that_can_be_used_has_the_probe_and_nothing_else(port: int) -> None:
    store = opened(f"s3a://{s3.BUCKET}/ha", told(port))

    assert [each.severity for each in found(store)] == [Severity.OK]
    assert asyncio.run(store.names("")) == ["probe"]


@pytest.mark.parametrize(
    ("bucket", "over", "code", "words"),
    [
        (s3.BUCKET, {"secret.key": "wrong"}, 7, "the object store refuses it"),
        ("nowhere", {}, 4, "there is no such bucket"),
        (s3.BUCKET, {"endpoint": "http://127.0.0.1:9"}, 8, "the object store"),
    ],
    ids=["wrong keys", "no bucket", "away"],
)
def test_one_that_cannot_be_used_says_why(port: int, bucket: str, over: dict[str, str], code: int, words: str) -> None:
    timeout = SHORT if "endpoint" in over else PATIENT
    (one,) = found(opened(f"s3a://{bucket}/ha", told(port, **over), timeout))

    assert (one.severity, one.exit_code) == (Severity.PROBLEM, code)
    assert words in one.text
    assert one.remedy


def test_a_checkpoint_is_looked_at_as_the_settings_say(port: int) -> None:
    root = f"s3a://{s3.BUCKET}/checkpoints/flights"

    async def look(submit: list[str]) -> Root:
        return await roots.look(root, logs=True, reach=Reach(False, bucket_of(submit, {}), PATIENT))

    async def fill() -> None:
        store = opened(root, told(port))
        await store.create("_understudy/claim", json.dumps(CLAIM.to_body()).encode())
        for batch in (5, 6, 7):
            await store.create(f"offsets/{batch}", b"v1")
        for batch in (5, 6):
            await store.create(f"commits/{batch}", b"v1")

    asyncio.run(fill())
    assert asyncio.run(look(told(port))) == Root(root, CLAIM, {"offsets": 7, "commits": 6})
    assert asyncio.run(look([])).unseen
    refused = asyncio.run(look(told(port, **{"secret.key": "wrong"})))
    assert refused.error is not None
    assert not refused.damaged
