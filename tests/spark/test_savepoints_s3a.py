"""A savepoint, its proof, its fork and its end, with checkpoints and HA storage in one bucket of a real S3 server."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit import s3
from testkit.command import confs
from tests.spark.replicas import Replicas
from tests.spark.test_savepoints import SCRIPT, feed, savepoints, wait_for_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BUCKET = f"s3a://{s3.BUCKET}"


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[int]:
    with s3.server(tmp_path) as port:
        yield port


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path, SCRIPT)
    yield made
    made.stop()


def start(replicas: Replicas, port: int, cluster: str, checkpoints: str, *options: str) -> None:
    replicas.start(
        *("--cluster-id", cluster, "--ha-storage", f"{BUCKET}/ha", "--checkpoints", f"{BUCKET}/{checkpoints}"),
        *("--conf", f"spark.driver.extraClassPath={s3.s3a_jars()}/*"),
        *confs(s3.spark_settings(port)),
        *options,
    )


@pytest.mark.long
def test_a_savepoint_in_a_bucket_is_copied_by_the_store_proven_forked_and_disposed_of(
    replicas: Replicas, bucket: int
) -> None:
    start(replicas, bucket, "job", "checkpoints")
    for number in range(2):
        feed(replicas, [number, number + 1])
        wait_for_rows(replicas, set(range(number + 2)), 2 * number + 2)
    code, said = replicas.ask("savepoint", "--cluster-id", "job")
    assert (code, said["result"]) == (0, "done"), said
    assert "savepoint 1 is rehearsed: 2 queries" in said["text"]
    counted = re.search(r"(\d+) files, (\d+) of them copied within the store", said["text"])
    assert counted is not None, said
    assert counted[1] == counted[2]
    place = savepoints(replicas)[1]["place"]
    assert place.startswith(f"{BUCKET}/ha/savepoints/")
    before = replicas.rows("out-plain")

    feed(replicas, [0, 1, 100])
    wait_for_rows(replicas, {0, 1, 2, 100}, 7)
    fork = ("fork", "--from", "1", "--from-cluster", "job", "--cluster-id", "copy", *confs(s3.spark_settings(bucket)))
    code, made = replicas.ask(*fork, "--checkpoints", f"{BUCKET}/copies")
    assert code == 0, made
    store = replicas.home / "s3" / s3.BUCKET
    ids = [json.loads((store / each / "firsts" / "metadata").read_text())["id"] for each in ("checkpoints", "copies")]
    assert ids[0] != ids[1]

    start(replicas, bucket, "copy", "copies", "--conf", "spark.test.out=other")
    wait_for_rows(replicas, {100}, 3, out="other")
    assert replicas.rows("other-plain") == replicas.rows("out-plain") - before == Counter(["0", "1", "100"])

    code, said = replicas.ask("dispose", "1", "--cluster-id", "job", *confs(s3.spark_settings(bucket)))
    assert code == 0, said
    assert not [each for each in (store / "ha" / "savepoints").rglob("*") if each.is_file()]
