"""Holding new batches: a stop that lets the one in flight finish."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.pages import OPEN, token
from tests.spark.fence_env import Driver, driver

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("quiesce")) as made:
        made.gate.write(OPEN, token(1))
        yield made


@pytest.fixture
def one(shared: Driver) -> Iterator[Driver]:
    """Every test leaves no batch in flight, in any root of this driver."""
    yield shared
    shared.fence.resume()


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def test_quiesce_waits_for_the_batch_in_flight_and_holds_the_next(one: Driver, tmp_path: Path) -> None:
    one.write(tmp_path / "offsets" / "0")
    assert not one.quiesce(50)
    one.write(tmp_path / "commits" / "0")
    assert one.quiesce(5_000)
    held = threading.Thread(target=one.write, args=(tmp_path / "offsets" / "1",), daemon=True)
    held.start()
    held.join(0.2)
    assert held.is_alive()
    assert names(tmp_path / "offsets") == ["0"]
    one.fence.resume()
    held.join(10)
    assert names(tmp_path / "offsets") == ["0", "1"]
    one.write(tmp_path / "commits" / "1")


def test_a_batch_that_a_predecessor_left_behind_counts_as_in_flight_until_it_is_committed(
    one: Driver, tmp_path: Path
) -> None:
    for file in ("offsets/0", "offsets/1", "commits/0"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("v1\n{}")
    one.claim(tmp_path)
    assert [root["in_flight"] for root in one.state()["roots"] if root["root"] == str(tmp_path)] == [1]
    assert not one.quiesce(50)
    one.write(tmp_path / "commits" / "1")
    assert one.quiesce(5_000)


def test_offsets_that_were_never_published_are_no_batch_in_flight(one: Driver, tmp_path: Path) -> None:
    one.open(tmp_path / "offsets" / "0").cancel()
    assert one.quiesce(5_000)
