"""What an object store and its credentials have to allow before the fence claims anything in it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError

from tests.spark.fence_env import Driver
from tests.spark.s3a_driver import ending

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def bucket(one: Driver, name: str) -> str:
    (one.extra["data"].parent / name).mkdir()
    return f"s3a://{name}/{uuid.uuid4()}"


@pytest.mark.parametrize("condition", ["If-None-Match", "If-Match"])
@pytest.mark.parametrize("at", ["prepare", "claim"])
def test_a_server_that_ignores_a_condition_is_refused_before_anything_is_claimed(
    one: Driver, condition: str, at: str
) -> None:
    """Hadoop's client says what it sends; what the server makes of it, only a trial says."""
    proxy = one.extra["proxy"]
    root = bucket(one, f"lax-{condition.lower()}-{at}")
    proxy.ignored = condition.lower()
    try:
        for _ in range(2):  # what is known is not tried again
            with pytest.raises(Py4JJavaError, match=f"does not honour {condition} of a PUT"):
                one.fence.prepare(root, one.conf) if at == "prepare" else one.claim(root)
    finally:
        proxy.ignored = ""
    asked = [line for line in proxy.seen if line.startswith("PUT ") and f"{ending(root)}/_understudy/probe-" in line]
    assert len(asked) == (2 if condition == "If-None-Match" else 3)
    left = [each for each in (one.extra["data"].parent / root.split("/")[2]).rglob("*") if each.is_file()]
    assert left == []


@pytest.mark.parametrize("allowed", ["below the checkpoint", "nothing that is not there"])
def test_credentials_need_to_reach_the_checkpoint_alone(one: Driver, allowed: str) -> None:
    """S3 answers 403, and not 404, for what is not there where the credentials may not list it."""
    root = bucket(one, f"narrow-{len(allowed)}")

    def rule(line: str) -> str:
        looks = re.search("_understudy(/|%2F)probe( |%2F)", line) is not None
        inside = allowed == "below the checkpoint" and ending(root).rpartition("/")[2] in line
        return "403" if looks and not inside else "pass"

    one.extra["proxy"].rule = rule
    assert one.claim(root)["outcome"] == "claimed"


def test_conditions_are_tried_once_for_a_bucket_and_not_in_a_takeover(one: Driver) -> None:
    proxy = one.extra["proxy"]
    root = bucket(one, "tried")

    def verbs(act: Callable[[], object]) -> list[str]:
        since = len(proxy.seen)
        act()
        return [line.split(" ")[0] for line in proxy.seen[since:]]

    one.fence.prepare(root, one.conf)
    assert (
        sum(line.startswith("PUT ") and "/_understudy/probe-" in line and "/tried/" in line for line in proxy.seen) == 3
    )
    assert "PUT" not in verbs(lambda: one.fence.prepare(f"{root}-2", one.conf))
    assert verbs(lambda: one.claim(root)) == ["PUT", "HEAD", "GET"]
    assert verbs(lambda: one.claim(f"{root}-2")) == ["PUT", "HEAD", "GET"]
    for log in ("offsets", "commits"):
        assert verbs(lambda log=log: one.write(f"{root}/{log}/0")) == ["HEAD", "PUT"]  # type: ignore[misc]


def test_a_file_system_without_exclusive_create_is_refused_by_name(one: Driver) -> None:
    one.conf.set("fs.viewfs.mounttable.m.link./a", "file:///tmp")
    with pytest.raises(Py4JJavaError, match="no exclusive create on viewfs"):
        one.manager("viewfs://m/a/checkpoint")
