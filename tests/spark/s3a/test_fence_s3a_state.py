"""State files on ``s3a://`` may be written again, and never over what a successor has written."""

from __future__ import annotations

import threading

import pytest

from testkit import s3
from tests.doubles.pages import token
from tests.spark.fence_env import LOST, Driver
from tests.spark.s3a.test_fence_s3a import seize, stored
from tests.spark.s3a_driver import closes, ending

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("stood", [False, True])
def test_a_state_file_that_a_successor_has_written_is_not_overwritten(one: Driver, root: str, stood: bool) -> None:
    """The leader was let through, and frozen before its request was sent, or on the way."""
    path = f"{root}/state/0/0/1.delta"
    if stood:
        one.write(path, b"of a batch that runs again", overwrite=True)
    overtaken = threading.Event()

    def overtake(line: str) -> str:
        if line.startswith("PUT ") and not overtaken.is_set():
            overtaken.set()
            one.write(path, b"the new leader's", overwrite=True)
            seize(one, root, token(6))
        return "pass"

    out = one.open(path, overwrite=True)
    out.write(bytearray(b"stale"))
    one.extra["proxy"].rule = overtake
    assert closes(out) == LOST
    assert stored(one, path).read_bytes() == b"the new leader's"


def test_what_stands_for_a_state_file_is_overwritten_behind_a_second_look_at_the_claim(one: Driver, root: str) -> None:
    path = f"{root}/state/0/0/1.delta"
    one.write(path, b"first", overwrite=True)
    since = len(one.extra["proxy"].seen)
    one.write(path, b"second", overwrite=True)
    assert stored(one, path).read_bytes() == b"second"
    asked = [tuple(line.split(" ")[:2]) for line in one.extra["proxy"].seen[since:]]
    entry, claim = (f"/{s3.BUCKET}/{ending(root)}/{name}" for name in ("state/0/0/1.delta", "_understudy/claim"))
    assert [each for each in asked if each[1] in (entry, claim)] == [
        ("HEAD", claim),
        ("PUT", entry),
        ("HEAD", entry),
        ("HEAD", claim),
        ("PUT", entry),
    ]
